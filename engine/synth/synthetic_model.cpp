#include "engine/synth/synthetic_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "engine/architectures/architecture.hpp"
#include "engine/architectures/bind_model.hpp"
#include "engine/model/file_tensors.hpp"
#include "engine/synth/synth.hpp"

namespace rigcast::engine {
namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint64_t kPiece = 4 << 20;

// Addresses of all tensors.
struct Places {
  std::vector<std::byte*> at;
  std::shared_ptr<const void> memory;
};

std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

bool is_wanted(const Tensor& t, const TensorFilter& wanted) { return !wanted || wanted(t); }

// Vectors of a recurrent layer may have a row of a few values for each channel or head, and norms
// one for each group. Rows of matrices are longer than a block of weights.
bool is_vector(const Tensor& t) {
  constexpr std::uint64_t kMaxValues = 32;
  return t.dimensions == 1 || t.role == TensorRole::kBias || t.role == TensorRole::kNorm ||
         (t.role == TensorRole::kRecurrent && t.shape[0] < kMaxValues);
}

// Assigns contiguous memory from `make` to the tensors for which `in` is true. Vectors come first:
// a single vector between matrices that are never written would use a whole large page.
template <class In>
std::shared_ptr<std::byte> put(const TensorTable& table, const In& in, const Allocator& make,
                               Places& places) {
  std::vector<std::size_t> order;
  for (const bool vectors : {true, false})
    for (std::size_t i = 0; i < table.tensors.size(); ++i)
      if (const Tensor& t = table.tensors[i]; in(t) && (t.dimensions == 1) == vectors)
        order.push_back(i);
  std::uint64_t end = 0;
  for (const std::size_t i : order) end += aligned(table.tensors[i].bytes);
  std::shared_ptr<std::byte> memory = make(std::size_t(end));
  std::byte* at = memory.get();
  for (const std::size_t i : order) {
    places.at[i] = at;
    at += aligned(table.tensors[i].bytes);
  }
  return memory;
}

// Allocates wanted matrices from `make`. All others get addresses for which the system commits
// memory only when they are written.
Places places_of(const TensorTable& table, const TensorFilter& wanted, const Allocator& make) {
  Places places{std::vector<std::byte*>(table.tensors.size()), nullptr};
  const auto made = [&](const Tensor& t) { return make && !is_vector(t) && is_wanted(t, wanted); };
  auto rest = put(
      table, [&](const Tensor& t) { return !made(t); }, make_large_pages, places);
  if (!make) {
    places.memory = std::move(rest);
    return places;
  }
  auto own = put(table, made, make, places);
  places.memory =
      std::make_shared<std::pair<std::shared_ptr<std::byte>, std::shared_ptr<std::byte>>>(
          std::move(rest), std::move(own));
  return places;
}

struct Piece {
  const Tensor* tensor = nullptr;
  std::byte* data = nullptr;
  std::uint64_t first_block = 0;
  std::uint64_t bytes = 0;
};

std::vector<Piece> pieces_of(const TensorTable& table, const Places& places,
                             const TensorFilter& wanted) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < table.tensors.size(); ++i) {
    const Tensor& t = table.tensors[i];
    if (!is_vector(t) && !is_wanted(t, wanted)) continue;
    const std::uint64_t block = info(t.format).block_bytes, step = kPiece / block * block;
    for (std::uint64_t at = 0; at < t.bytes; at += step)
      pieces.push_back({&t, places.at[i] + at, at / block, std::min(step, t.bytes - at)});
  }
  return pieces;
}

std::vector<NamedTensor> named(const TensorTable& table, const Places& places) {
  std::vector<NamedTensor> out;
  for (std::size_t i = 0; i < table.tensors.size(); ++i) {
    const Tensor& t = table.tensors[i];
    NamedTensor n{t.name, t.format, {}, places.at[i]};
    for (int d = 0; d < t.dimensions; ++d) n.shape.push_back(std::int64_t(t.shape[std::size_t(d)]));
    out.push_back(std::move(n));
  }
  return out;
}

Error no_memory(const TensorTable& table) {
  std::uint64_t bytes = 0;
  for (const Tensor& t : table.tensors) bytes += t.bytes;
  return {ErrorKind::kMachine,
          fmt::format("no memory for weights of {:.2f} GiB", double(bytes) / 0x1p30)};
}

}  // namespace

Result<Model> make_synthetic_vectors(const ModelSpec& spec, const TensorTable& model_tensors,
                                     std::uint64_t seed) try {
  if (auto error = check_formats(model_tensors)) return *error;
  if (auto error = check_executable(spec)) return *error;
  const TensorTable tensors = file_tensors(spec, model_tensors);
  const Places places = places_of(tensors, {}, {});
  const SynthTraits traits = synth_traits(tensors);
  for (std::size_t i = 0; i < tensors.tensors.size(); ++i) {
    const Tensor& t = tensors.tensors[i];
    if (is_vector(t)) synthesize(t, seed, 0, {places.at[i], t.bytes}, traits);
  }
  return bind_model(spec, default_hyperparameters(spec), named(tensors, places), places.memory);
} catch (const std::bad_alloc&) {
  return no_memory(model_tensors);
}

Result<Model> make_synthetic_model(const ModelSpec& spec, const TensorTable& model_tensors,
                                   std::uint64_t seed, ThreadTeam& team, const TensorFilter& wanted,
                                   const Allocator& make) try {
  // A model that cannot be executed is refused before its weights are allocated and generated.
  if (auto vectors = make_synthetic_vectors(spec, model_tensors, seed); !vectors) return vectors;
  const TensorTable tensors = file_tensors(spec, model_tensors);
  const Places places = places_of(tensors, wanted, make);
  const std::vector<Piece> pieces = pieces_of(tensors, places, wanted);
  const SynthTraits traits = synth_traits(tensors);
  team.run([&](Worker& worker) {
    worker.parallel_for(std::int64_t(pieces.size()), 1, [&](std::int64_t i, std::int64_t) {
      const Piece& p = pieces[std::size_t(i)];
      synthesize(*p.tensor, seed, p.first_block, {p.data, p.bytes}, traits);
    });
  });
  return bind_model(spec, default_hyperparameters(spec), named(tensors, places), places.memory);
} catch (const std::bad_alloc&) {
  return no_memory(model_tensors);
}

}  // namespace rigcast::engine
