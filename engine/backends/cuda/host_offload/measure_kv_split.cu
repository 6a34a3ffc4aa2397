#include "engine/backends/cuda/host_offload/measure_kv_split.cuh"

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/scenario/engine_sizes.hpp"
#include "engine/backends/cpu/attention/decode_attention.hpp"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/memory/pinned_pages.cuh"
#include "engine/threads/thread_team.hpp"

namespace rigcast::engine::cuda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kCopied = std::size_t(64) << 20;  // bytes of one copy
constexpr int kCopies = 8;
static_assert(kTimedCacheBytes % kCopied == 0);

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Attention of one layer, run repeatedly for the measurement.
class HostAttention {
 public:
  HostAttention(const ModelSpec& spec, KvTypes types, int threads)
      : memory_(std::make_shared<PinnedPages>(kTimedCacheBytes, "KV cache that is timed")),
        team_(threads, ThreadTeam::kGpuSpinTime),
        cache_(
            spec, types, kBlock, {0}, [this](std::size_t bytes) { return piece(bytes); },
            kColdPieceBlocks),
        attention_(spec, threads),
        q_(std::size_t(attention_shape(spec, 0).q_width()), 0.01f),
        out_(q_.size()) {
    constexpr TokenCount kPiece = kBlock * kColdPieceBlocks;
    tokens_ = TokenCount(kTimedCacheBytes) / (cache_.token_bytes() * kPiece) * kPiece;
    cache_.reserve(tokens_);
  }

  // Returns the number of bytes that it read.
  double run() {
    team_.run([&](Worker& worker) {
      attention_.run(worker, cache_, 0, 0, tokens_, q_.data(), out_.data());
    });
    return double(tokens_ * cache_.token_bytes());
  }
  /// Part `i` of the same memory, for the link to copy.
  const std::byte* part(std::size_t i) const {
    return memory_->data() + i * kCopied % kTimedCacheBytes;
  }

 private:
  static constexpr TokenCount kBlock = 128;

  std::shared_ptr<std::byte> piece(std::size_t bytes) {
    RIGCAST_ASSERT(taken_ + bytes <= kTimedCacheBytes);
    return {memory_, memory_->data() + std::exchange(taken_, taken_ + bytes)};
  }

  std::shared_ptr<PinnedPages> memory_;
  std::size_t taken_ = 0;
  ThreadTeam team_;
  KvCache cache_;
  DecodeAttention attention_;
  std::vector<float> q_, out_;
  TokenCount tokens_ = 0;
};

}  // namespace

ConcurrentBandwidth measure_kv_split(Vram& vram, const ModelSpec& spec, KvTypes types,
                                     int threads) {
  HostAttention attention(spec, types, threads);
  const VramPiece to = vram.allocate(kCopied, "KV on its way");
  const Stream stream;
  const auto copy = [&](std::size_t i) {
    RIGCAST_CUDA_CALL(
        cudaMemcpyAsync(to.as(), attention.part(i), kCopied, cudaMemcpyHostToDevice, stream.get()));
  };
  copy(0);
  attention.run();  // warm-up: allocates scratch memory, touches pages
  stream.wait();
  const Event begin, end;
  begin.record(stream);
  for (std::size_t i = 0; i < kCopies; ++i) copy(i);
  end.record(stream);
  double read = 0;
  const auto began = Clock::now();
  do read += attention.run();
  while (cudaStreamQuery(stream.get()) == cudaErrorNotReady);
  const double host_rate = read / seconds_since(began);
  end.wait();
  const double link_rate = double(kCopied) * kCopies / Event::seconds_between(begin, end);
  return {BytesPerSecond{host_rate}, BytesPerSecond{link_rate}};
}

}  // namespace rigcast::engine::cuda
