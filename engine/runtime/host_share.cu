#include "engine/runtime/host_share.cuh"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/pinned_pages.cuh"
#include "engine/runtime/decode_attention.hpp"
#include "engine/runtime/team.hpp"

namespace rigcast::engine::cuda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kCopied = std::size_t(64) << 20;  // at once
constexpr int kCopies = 8;
constexpr std::size_t kAttended = std::size_t(256) << 20;  // more than caches hold

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Attention of one layer, again and again.
class HostAttention {
 public:
  HostAttention(const ModelSpec& spec, KvTypes types, int threads)
      : team_(threads),
        cache_(spec, types, kBlock, {0}, make_large_pages),
        attention_(spec, threads),
        q_(std::size_t(spec.heads * spec.head_dim), 0.01f),
        out_(q_.size()) {
    tokens_ = TokenCount(kAttended) / cache_.token_bytes() / kBlock * kBlock;
    cache_.reserve(tokens_);
    // What was never written lies nowhere.
    team_.run([&](Worker& worker) {
      worker.share(tokens_ / kBlock, 1, [&](std::int64_t block, std::int64_t) {
        std::memset(cache_.block(0, block), 0, std::size_t(cache_.layer_bytes()));
      });
    });
  }

  // Gives the bytes that it read.
  double run() {
    team_.run([&](Worker& worker) {
      attention_.run(worker, cache_, 0, 0, tokens_, q_.data(), out_.data());
    });
    return double(tokens_ * cache_.token_bytes());
  }

 private:
  static constexpr TokenCount kBlock = 128;
  Team team_;
  KvCache cache_;
  DecodeAttention attention_;
  std::vector<float> q_, out_;
  TokenCount tokens_ = 0;
};

}  // namespace

double measured_host_share(Vram& vram, const ModelSpec& spec, KvTypes types, int threads) {
  HostAttention attention(spec, types, threads);
  const PinnedPages from(kCopied);
  const VramPiece to = vram.take(kCopied, "KV on its way");
  const Stream stream;
  const auto copy = [&] {
    RIGCAST_CUDA_CALL(
        cudaMemcpyAsync(to.as(), from.data(), kCopied, cudaMemcpyHostToDevice, stream.get()));
  };
  copy();
  attention.run();  // scratch, pages
  stream.wait();
  const Event begin, end;
  begin.record(stream);
  for (int i = 0; i < kCopies; ++i) copy();
  end.record(stream);
  double read = 0;
  const auto began = Clock::now();
  do read += attention.run();
  while (cudaStreamQuery(stream.get()) == cudaErrorNotReady);
  const double host_rate = read / seconds_since(began);
  end.wait();
  const double link_rate = double(kCopied) * kCopies / Event::seconds_between(begin, end);
  return host_rate / (host_rate + link_rate);
}

}  // namespace rigcast::engine::cuda
