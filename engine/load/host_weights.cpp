#include "engine/load/host_weights.hpp"

#include <cstring>
#include <utility>
#include <vector>

#include "engine/load/upload_plan.hpp"
#include "engine/load/upload_reader.hpp"
#include "engine/memory/large_pages.hpp"
#include "engine/model/layer_weights.hpp"
#include "engine/threads/thread_team.hpp"

namespace rigcast::engine {
namespace {

constexpr std::uint64_t kAlignment = 256;
constexpr std::uint64_t kPiece = 8 << 20;
constexpr int kReaders = 8;

// A matrix, or equal ones in a row, and where it goes.
struct Kept {
  Matrix* matrix = nullptr;  // that is there afterwards; nullptr: it follows the first of its stack
  HostTensor from;
  std::uint64_t at = 0;
};

class HostWeightReader {
 public:
  HostWeightReader(Model& model, const HostPlacement& parts) : parts_(parts) {
    using enum TensorRole;
    const bool tied = model.head.data == model.embedding.data;
    add(kTokenEmbedding, -1, model.embedding);
    if (parts.decodes()) {  // otherwise the GPU makes the inputs of layers
      add(kTokenEmbedding, -1, model.input_embedding);
      add(kProjection, -1, model.input_projection);
    }
    for (int i = 0; i < int(model.layers.size()); ++i) layer(i, model.layers[std::size_t(i)]);
    if (!tied) add(kOutput, -1, model.head);
  }

  const std::vector<Kept>& kept() const { return kept_; }
  std::uint64_t bytes() const { return end_; }

 private:
  void add(TensorRole role, int layer, Matrix& m, int count = 1) {
    if (!m || !parts_.has(role, layer)) return;
    keep(m, &m, std::uint64_t(m.bytes()) * std::uint64_t(count));
  }
  void keep(const Matrix& m, Matrix* to, std::uint64_t bytes) {
    kept_.push_back(
        {to, {"a matrix of the host's", m.data, bytes, std::uint64_t(m.row_bytes())}, end_});
    end_ += aligned(bytes);
  }
  static std::uint64_t aligned(std::uint64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  // Experts that are no neighbours in the file become neighbours.
  void add(TensorRole role, int layer, MatrixStack& s) {
    if (s.stride == 0) return add(role, layer, s.first, s.count);
    if (!s || !parts_.has(role, layer)) return;
    const std::uint64_t bytes = std::uint64_t(s.first.bytes());
    for (int e = 0; e < s.count; ++e) keep(s.at(e), e == 0 ? &s.first : nullptr, bytes);
    s.stride = std::int64_t(aligned(bytes));
  }
  // Experts last: what else a layer has is copied in one go.
  void layer(int i, Layer& l) {
    for_each_matrix([&](LayerWeight weight, Matrix& m) { add(role_of(weight), i, m); }, l);
    for_each_stack([&](LayerWeight weight, MatrixStack& s) { add(role_of(weight), i, s); }, l);
  }

  const HostPlacement& parts_;
  std::vector<Kept> kept_;
  std::uint64_t end_ = 0;
};

// Every byte of every tensor to its place.
void read_all(const std::vector<HostTensor>& tensors, const std::vector<std::byte*>& to,
              const GgufFile* file, const HostWeightsOptions& how) {
  const auto reads = plan_upload(tensors, file, kPiece);
  if (!reads) throw MachineError(reads.error().text());
  const UploadReader source(tensors, file, *reads);
  ThreadTeam readers(how.readers > 0 ? how.readers : kReaders);
  readers.run([&](Worker& worker) {
    const LargePages buffer(kPiece + UploadReader::kSlack);
    worker.parallel_for(std::int64_t(reads->size()), 1, [&](std::int64_t i, std::int64_t) {
      if (how.keep_going && !how.keep_going())
        throw MachineError("stopped before the weights were read");
      const UploadRead& read = (*reads)[std::size_t(i)];
      const std::byte* const first = source.fill(read, buffer.data()).first;
      for (const UploadPiece& p : read.pieces)
        std::memcpy(to[p.tensor] + p.first_byte, first + p.at, p.bytes);
    });
  });
}

}  // namespace

Model with_host_weights(const Model& model, const HostPlacement& parts, const GgufFile* file,
                        const HostWeightsOptions& how) {
  Model out = model;
  const bool tied = model.head.data == model.embedding.data;
  const HostWeightReader keeper(out, parts);
  if (keeper.kept().empty()) return out;
  const std::shared_ptr<std::byte> memory = how.make(std::size_t(keeper.bytes()));
  std::vector<HostTensor> tensors;
  std::vector<std::byte*> to;
  for (const Kept& k : keeper.kept()) {
    tensors.push_back(k.from);
    to.push_back(memory.get() + k.at);
  }
  read_all(tensors, to, file, how);
  for (std::size_t i = 0; i < to.size(); ++i)
    if (Matrix* const m = keeper.kept()[i].matrix) m->data = to[i];
  if (tied) out.head = out.embedding;
  out.storage =
      std::make_shared<std::pair<std::shared_ptr<std::byte>, std::shared_ptr<const void>>>(
          memory, model.storage);
  return out;
}

}  // namespace rigcast::engine
