#include "engine/synth/synthetic_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <vector>

#include "engine/memory/large_pages.hpp"
#include "engine/synth/synth.hpp"

namespace rigcast::engine {
namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint64_t kPiece = 4 << 20;

// nullptr: there is no room for it.
std::shared_ptr<const LargePages> region_of(std::uint64_t bytes) try {
  return std::make_shared<const LargePages>(std::size_t(bytes));
} catch (const std::bad_alloc&) {
  return nullptr;
}

// Where every tensor begins, and the end of the last.
std::vector<std::uint64_t> offsets_of(const TensorTable& table) {
  std::vector<std::uint64_t> offsets;
  std::uint64_t at = 0;
  for (const Tensor& t : table.tensors) {
    offsets.push_back(at);
    at += (t.bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  offsets.push_back(at);
  return offsets;
}

struct Piece {
  const Tensor* tensor = nullptr;
  std::byte* data = nullptr;
  std::uint64_t first_block = 0;
  std::uint64_t bytes = 0;
};

std::vector<Piece> pieces_of(const TensorTable& table, const std::vector<std::uint64_t>& offsets,
                             std::byte* base, const Wanted& wanted) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < table.tensors.size(); ++i) {
    const Tensor& t = table.tensors[i];
    if (t.dimensions > 1 && wanted && !wanted(t)) continue;
    const std::uint64_t block = info(t.format).block_bytes, step = kPiece / block * block;
    for (std::uint64_t at = 0; at < t.bytes; at += step)
      pieces.push_back({&t, base + offsets[i] + at, at / block, std::min(step, t.bytes - at)});
  }
  return pieces;
}

std::vector<NamedTensor> named(const TensorTable& table, const std::vector<std::uint64_t>& offsets,
                               const std::byte* base) {
  std::vector<NamedTensor> out;
  for (std::size_t i = 0; i < table.tensors.size(); ++i) {
    const Tensor& t = table.tensors[i];
    NamedTensor n{t.name, t.format, {}, base + offsets[i]};
    for (int d = 0; d < t.dimensions; ++d) n.shape.push_back(std::int64_t(t.shape[std::size_t(d)]));
    out.push_back(std::move(n));
  }
  return out;
}

Error no_memory(std::uint64_t bytes) {
  return {ErrorKind::kMachine,
          fmt::format("no memory for weights of {:.2f} GiB", double(bytes) / 0x1p30)};
}

}  // namespace

Result<Model> make_synthetic_vectors(const ModelSpec& spec, const TensorTable& tensors,
                                     std::uint64_t seed) {
  const std::vector<std::uint64_t> offsets = offsets_of(tensors);
  // Addresses, of which the system gives those memory that are written to.
  const auto region = region_of(offsets.back());
  if (!region) return no_memory(offsets.back());
  for (std::size_t i = 0; i < tensors.tensors.size(); ++i) {
    const Tensor& t = tensors.tensors[i];
    if (t.dimensions == 1) synthesize(t, seed, 0, {region->data() + offsets[i], t.bytes});
  }
  return bind_model(spec, usual_hyperparameters(spec), named(tensors, offsets, region->data()),
                    region);
}

Result<Model> make_synthetic_model(const ModelSpec& spec, const TensorTable& tensors,
                                   std::uint64_t seed, Team& team, const Wanted& wanted) {
  const std::vector<std::uint64_t> offsets = offsets_of(tensors);
  const auto region = region_of(offsets.back());
  if (!region) return no_memory(offsets.back());
  // What cannot be executed is refused before its weights are made.
  auto model = bind_model(spec, usual_hyperparameters(spec),
                          named(tensors, offsets, region->data()), region);
  if (!model) return model;
  const std::vector<Piece> pieces = pieces_of(tensors, offsets, region->data(), wanted);
  team.run([&](Worker& worker) {
    worker.share(std::int64_t(pieces.size()), 1, [&](std::int64_t i, std::int64_t) {
      const Piece& p = pieces[std::size_t(i)];
      synthesize(*p.tensor, seed, p.first_block, {p.data, p.bytes});
    });
  });
  // Vectors were copied before they were written: bound once more.
  return bind_model(spec, usual_hyperparameters(spec), named(tensors, offsets, region->data()),
                    region);
}

}  // namespace rigcast::engine
