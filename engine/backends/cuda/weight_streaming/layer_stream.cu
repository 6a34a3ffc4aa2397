#include "engine/backends/cuda/weight_streaming/layer_stream.cuh"

#include <algorithm>
#include <functional>
#include <utility>

#include "engine/backends/cuda/weights/alignment.hpp"
#include "engine/cuda/barrier_kernel.cuh"
#include "engine/kernels/cuda/weights/soa_layout.cuh"
#include "engine/model/layer_weights.hpp"

namespace rigcast::engine::cuda {
namespace {

constexpr const char* kItem = "streamed weights";
// Gaps up to this are copied, too, instead of starting another copy.
constexpr std::ptrdiff_t kMaxGap = 64 << 10;
}  // namespace

// Plans one layer: the addresses of its matrices in the SoA memory, and the copies of their quant
// blocks.
class LayerStream::Planner {
 public:
  Planner(const Layer& from, bool with_experts, DeviceLayer& to) {
    for_each_matrix(
        [&](LayerWeight, const Matrix& own, DeviceMatrix& place) { matrix(own, place); }, from, to);
    if (!with_experts) return;
    for_each_stack(
        [&](LayerWeight, const MatrixStack& own, DeviceMatrixStack& place) { stack(own, place); },
        from, to);
  }

  // Makes the plan. With soa = nullptr only its sizes are valid.
  Plan plan(std::byte* soa) {
    Plan plan{{}, {}, 0, end_};
    std::ranges::sort(items_, std::less<>(), [](const Item& i) { return i.blocks.data; });
    for (const Item& item : items_) {
      plan.pieces.push_back({item.soa, place(plan, item.blocks)});
      std::byte* const own = soa ? soa + item.offset : nullptr;
      plan.pieces.back().soa.soa = own;
      if (item.to) item.to->soa = own;
    }
    return plan;
  }

 private:
  struct Item {
    Matrix blocks;
    DeviceMatrix soa;
    std::size_t offset = 0;  // offset in the SoA memory
    DeviceMatrix* to = nullptr;  // nullptr: its address follows from the first of its stack
  };

  void add(const Matrix& from, DeviceMatrix* to) {
    const DeviceMatrix shape{nullptr, from.format, from.columns, from.rows};
    if (to) *to = shape;
    items_.push_back({from, shape, end_, to});
    end_ += aligned(cuda::soa_bytes(from.format, from.columns, from.rows));
  }
  void matrix(const Matrix& from, DeviceMatrix& to) {
    if (from) add(from, &to);
  }
  void stack(const MatrixStack& from, DeviceMatrixStack& to) {
    if (!from) return;
    const Matrix& m = from.first;
    to.stride = aligned(cuda::soa_bytes(m.format, m.columns, m.rows));
    for (int e = 0; e < from.count; ++e) add(from.at(e), e == 0 ? &to.first : nullptr);
  }
  // The offset of blocks in the slot. They extend the last copy if they are close behind it;
  // otherwise they start another.
  static std::size_t place(Plan& plan, const Matrix& blocks) {
    const std::size_t bytes = std::size_t(blocks.bytes());
    if (!plan.runs.empty()) {
      CopyRun& last = plan.runs.back();
      const std::ptrdiff_t gap = blocks.data - (last.from + last.bytes);
      if (gap >= 0 && gap <= kMaxGap) {
        const std::size_t at = last.at + last.bytes + std::size_t(gap);
        last.bytes += std::size_t(gap) + bytes;
        plan.slot_bytes = last.at + last.bytes;
        return at;
      }
    }
    plan.runs.push_back({blocks.data, bytes, aligned(plan.slot_bytes)});
    plan.slot_bytes = plan.runs.back().at + bytes;
    return plan.runs.back().at;
  }

  std::vector<Item> items_;
  std::size_t end_ = 0;
};

std::vector<LayerStream::Plan> LayerStream::plans_of(const Model& model, const HostPlacement& parts,
                                                     const std::vector<int>& layers, std::byte* soa,
                                                     DeviceModel& weights) {
  std::vector<Plan> plans(model.layers.size());
  for (const int layer : layers) {
    const auto i = std::size_t(layer);
    plans[i] = Planner(model.layers[i], parts.streams_experts(layer), weights.layers[i]).plan(soa);
  }
  return plans;
}

std::size_t LayerStream::most(const std::vector<Plan>& plans, std::size_t Plan::*of) {
  std::size_t most = 0;
  for (const Plan& plan : plans) most = std::max(most, plan.*of);
  return most;
}

LayerStream::LayerStream(Vram& vram, const Stream& computing, const Model& model,
                         const HostPlacement& parts, const std::vector<int>& layers,
                         DeviceModel& weights)
    : computing_(computing),
      of_tokens_(parts.streamed_layers()),
      plans_(plans_of(model, parts, layers, nullptr, weights)),
      slots_(vram, computing, most(plans_, &Plan::slot_bytes), kItem),
      soa_(vram.allocate(most(plans_, &Plan::soa_bytes), kItem)) {
  plans_ = plans_of(model, parts, layers, soa_.as(), weights);
}

double LayerStream::bytes(int layer) const {
  double bytes = 0;
  for (const CopyRun& run : plans_[std::size_t(layer)].runs) bytes += double(run.bytes);
  return bytes;
}

void LayerStream::copy_next() {
  if (copied_ == pass_.size()) return;
  slots_.fill(slot(copied_), plans_[std::size_t(pass_[copied_])].runs);
  ++copied_;
}

void LayerStream::begin(std::vector<int> layers) {
  pass_ = std::move(layers);
  taken_ = 0;
  copied_ = !pass_.empty() && held_ == pass_.front() ? 1 : 0;
  held_ = -1;
  while (copied_ < std::min<std::size_t>(2, pass_.size())) copy_next();
}

void LayerStream::acquire(int layer) {
  RIGCAST_ASSERT(taken_ < pass_.size() && pass_[taken_] == layer);
  const int from = slot(taken_++);
  const std::byte* const blocks = slots_.arrived(from);
  for (const Piece& piece : plans_[std::size_t(layer)].pieces) {
    const DeviceMatrix& m = piece.soa;
    // SoA memory is const for its readers; this is the one place that writes it.
    repack(m.format, m.columns, m.rows, {0, m.rows}, blocks + piece.at,
           const_cast<std::byte*>(m.soa), computing_);
  }
  slots_.emptied(from);
  launch_barrier_kernel(computing_);
  copy_next();
}

void LayerStream::end() {
  first_ = slot(pass_.size());
  pass_.clear();
}

int LayerStream::begin_token() {
  const int front = of_tokens_.front();
  if (held_ != front) slots_.fill(first_, plans_[std::size_t(front)].runs);
  held_ = -1;  // unknown until the token ends
  slots_.join_copies();
  return first_;
}

void LayerStream::queue_begin() {
  if (is_recorded()) slots_.begin_recorded();
  pass_ = of_tokens_;
  pass_.push_back(of_tokens_.front());  // the next token's first layer
  taken_ = 0;
  copied_ = 1;
  copy_next();
}

void LayerStream::queue_end() {
  RIGCAST_ASSERT(taken_ + 1 == pass_.size() && copied_ == pass_.size());
  if (is_recorded()) slots_.end_recorded();
  pass_.clear();
}

void LayerStream::end_token() {
  slots_.fork_copies();
  first_ = slot(of_tokens_.size());
  held_ = of_tokens_.front();
}

bool LayerStream::is_recorded() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  RIGCAST_CUDA_CALL(cudaStreamIsCapturing(computing_.get(), &status));
  return status == cudaStreamCaptureStatusActive;
}

BytesPerSecond LayerStream::measure_link() {
  const auto largest = std::ranges::max_element(plans_, {}, &Plan::slot_bytes);
  held_ = -1;
  return slots_.measure(largest->runs);
}

}  // namespace rigcast::engine::cuda
