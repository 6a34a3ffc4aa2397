// Measures how long the GPU waits for the host: the GPU writes a number into pinned memory, the
// host sees it and writes it back, and the GPU sees that.
#include <atomic>
#include <new>

#include "engine/cuda/cuda_buffer.cuh"
#include "probe/gpu/device_time.cuh"
#include "probe/gpu/gpu_parts.hpp"

namespace rigcast::probe {
namespace {

constexpr unsigned kRounds = 1000;
constexpr unsigned kStop = 0xFFFFFFFFu;        // an answer that ends every wait
constexpr double kPatienceSeconds = 2;         // the host's limit for one round
constexpr long long kPatienceNs = 4000000000;  // the GPU's limit, which must be longer
constexpr double kTakeSeconds = 0.5;

// Each number has a cache line of its own, to avoid false sharing.
struct alignas(128) Flag {
  unsigned number = 0;
};
struct Flags {
  Flag of_gpu, of_host;
};

__device__ long long now_ns() {
  long long ns = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

__global__ void ask_host(Flags* flags) {
  volatile unsigned* const ask = &flags->of_gpu.number;
  volatile unsigned* const answer = &flags->of_host.number;
  for (unsigned round = 1; round <= kRounds; ++round) {
    *ask = round;
    __threadfence_system();
    for (const long long begin = now_ns(); *answer < round;)
      if (now_ns() - begin > kPatienceNs) return;
  }
}

// Returns false if the GPU did not ask in time.
bool answer_round(Flags& flags, unsigned round) {
  std::atomic_ref<unsigned> asked(flags.of_gpu.number), answer(flags.of_host.number);
  const Clock::time_point begin = Clock::now();
  for (unsigned tries = 0; asked.load(std::memory_order_acquire) < round;)
    if (++tries % 4096 == 0 && seconds_since(begin) > kPatienceSeconds) return false;
  answer.store(round, std::memory_order_release);
  return true;
}

// Seconds of one round; the first is the kernel's start and does not count.
double round_trip(const engine::Stream& stream, const engine::PinnedBuffer& shared) {
  Flags& flags = *new (shared.as()) Flags;
  ask_host<<<1, 1, 0, stream.get()>>>(shared.on_device<Flags>());
  RIGCAST_CUDA_CALL(cudaGetLastError());
  static_cast<void>(cudaStreamQuery(stream.get()));  // some drivers start no work until they are
                                                     // queried
  bool alive = answer_round(flags, 1);
  const Clock::time_point begin = Clock::now();
  for (unsigned round = 2; alive && round <= kRounds; ++round) alive = answer_round(flags, round);
  const double seconds = seconds_since(begin);
  if (!alive) std::atomic_ref<unsigned>(flags.of_host.number).store(kStop);
  stream.wait();
  if (!alive) throw std::runtime_error("the GPU's signal did not reach the host");
  return seconds / (kRounds - 1);
}

}  // namespace

// Each repetition has flags of its own, because their location matters.
Takes measure_handoff() {
  return takes_of(several_threads(kTakeSeconds, [] {
    const engine::Stream stream;
    const engine::PinnedBuffer shared(sizeof(Flags));
    round_trip(stream, shared);
    return round_trip(stream, shared);
  }));
}

}  // namespace rigcast::probe
