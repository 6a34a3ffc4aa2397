#include "engine/backends/cuda/weight_streaming/layer_stream.cuh"

#include <algorithm>
#include <functional>
#include <utility>

#include "engine/backends/cuda/weights/alignment.hpp"
#include "engine/cuda/settle.cuh"
#include "engine/kernels/cuda/weights/planes.cuh"
#include "engine/model/layer_weights.hpp"

namespace rigcast::engine::cuda {
namespace {

constexpr const char* kItem = "streamed weights";
constexpr std::ptrdiff_t kMostGap = 64 << 10;  // copied along rather than for a copy of its own
}  // namespace

// One layer's matrices: their places among the planes, and the copies that bring their blocks.
class LayerStream::Planner {
 public:
  Planner(const Layer& from, bool with_experts, DeviceLayer& to) {
    for_each_matrix(
        [&](LayerWeight, const engine::Matrix& own, Matrix& place) { matrix(own, place); }, from,
        to);
    if (!with_experts) return;
    for_each_stack(
        [&](LayerWeight, const engine::MatrixStack& own, MatrixStack& place) { stack(own, place); },
        from, to);
  }

  // nullptr: the sizes are right.
  Plan plan(std::byte* planes) {
    Plan plan{{}, {}, 0, end_};
    std::ranges::sort(items_, std::less<>(), [](const Item& i) { return i.blocks.data; });
    for (const Item& item : items_) {
      plan.pieces.push_back({item.planes, place(plan, item.blocks)});
      std::byte* const own = planes ? planes + item.offset : nullptr;
      plan.pieces.back().planes.planes = own;
      if (item.to) item.to->planes = own;
    }
    return plan;
  }

 private:
  struct Item {
    engine::Matrix blocks;
    Matrix planes;
    std::size_t offset = 0;  // of the planes
    Matrix* to = nullptr;    // nullptr: the first of its stack tells where it is
  };

  void add(const engine::Matrix& from, Matrix* to) {
    const Matrix shape{nullptr, from.format, from.columns, from.rows};
    if (to) *to = shape;
    items_.push_back({from, shape, end_, to});
    end_ += aligned(cuda::planes_bytes(from.format, from.columns, from.rows));
  }
  void matrix(const engine::Matrix& from, Matrix& to) {
    if (from) add(from, &to);
  }
  void stack(const engine::MatrixStack& from, MatrixStack& to) {
    if (!from) return;
    const engine::Matrix& m = from.first;
    to.stride = aligned(cuda::planes_bytes(m.format, m.columns, m.rows));
    for (int e = 0; e < from.count; ++e) add(from.at(e), e == 0 ? &to.first : nullptr);
  }
  // Where the blocks arrive in the slot: in the last copy if they lie behind it, else in another.
  static std::size_t place(Plan& plan, const engine::Matrix& blocks) {
    const std::size_t bytes = std::size_t(blocks.bytes());
    if (!plan.runs.empty()) {
      CopyRun& last = plan.runs.back();
      const std::ptrdiff_t gap = blocks.data - (last.from + last.bytes);
      if (gap >= 0 && gap <= kMostGap) {
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

std::vector<LayerStream::Plan> LayerStream::plans_of(const Model& model, const HostParts& parts,
                                                     const std::vector<int>& layers,
                                                     std::byte* planes, DeviceModel& weights) {
  std::vector<Plan> plans(model.layers.size());
  for (const int layer : layers) {
    const auto i = std::size_t(layer);
    const bool with_experts = parts.streamed(layer) && !parts.experts(layer);
    plans[i] = Planner(model.layers[i], with_experts, weights.layers[i]).plan(planes);
  }
  return plans;
}

std::size_t LayerStream::most(const std::vector<Plan>& plans, std::size_t Plan::*of) {
  std::size_t most = 0;
  for (const Plan& plan : plans) most = std::max(most, plan.*of);
  return most;
}

LayerStream::LayerStream(Vram& vram, const Stream& computing, const Model& model,
                         const HostParts& parts, const std::vector<int>& layers,
                         DeviceModel& weights)
    : computing_(computing),
      of_tokens_(parts.streamed_layers()),
      plans_(plans_of(model, parts, layers, nullptr, weights)),
      slots_(vram, computing, most(plans_, &Plan::slot_bytes), kItem),
      planes_(vram.take(most(plans_, &Plan::planes_bytes), kItem)) {
  plans_ = plans_of(model, parts, layers, planes_.as(), weights);
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

void LayerStream::take(int layer) {
  RIGCAST_ASSERT(taken_ < pass_.size() && pass_[taken_] == layer);
  const int from = slot(taken_++);
  const std::byte* const blocks = slots_.arrived(from);
  for (const Piece& piece : plans_[std::size_t(layer)].pieces) {
    const Matrix& m = piece.planes;
    // Planes are read alone once they are written; the writing is here.
    repack(m.format, m.columns, m.rows, {0, m.rows}, blocks + piece.at,
           const_cast<std::byte*>(m.planes), computing_);
  }
  slots_.emptied(from);
  settle(computing_);
  copy_next();
}

void LayerStream::end() {
  first_ = slot(pass_.size());
  pass_.clear();
}

int LayerStream::begin_token() {
  const int front = of_tokens_.front();
  if (held_ != front) slots_.fill(first_, plans_[std::size_t(front)].runs);
  held_ = -1;  // until the token's end
  slots_.settle_before();
  return first_;
}

void LayerStream::queue_begin() {
  if (is_recorded()) slots_.begin_recorded();
  pass_ = of_tokens_;
  pass_.push_back(of_tokens_.front());  // of the next token
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
  slots_.settle_after();
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
