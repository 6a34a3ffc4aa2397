#include "probe/cpu_rates.hpp"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace rigcast::probe {
namespace {
constexpr int kSamples = 7;
}

#if defined(__x86_64__)
namespace {

constexpr int kSums = 12;  // a single sum would wait for its own latency
constexpr std::int64_t kSteps = 1'000'000;

// Makes the compiler treat `value` as new, so that nothing is hoisted or computed only once. A
// macro, because clang checks the operand's size against the target of the function in which it
// stands.
#define RIGCAST_KEEP(value) asm volatile("" : "+v"(value))

__attribute__((target("avx512f,avx512vnni"))) void dots_avx512() {
  __m512i sums[kSums], u = _mm512_set1_epi8(3), q = _mm512_set1_epi8(-5);
  for (auto& sum : sums) {
    sum = _mm512_setzero_si512();
    RIGCAST_KEEP(sum);
  }
  for (std::int64_t i = 0; i < kSteps; ++i) {
    RIGCAST_KEEP(u);
    for (auto& sum : sums) sum = _mm512_dpbusd_epi32(sum, u, q);
  }
  for (auto& sum : sums) RIGCAST_KEEP(sum);
}

__attribute__((target("avx512f"))) void floats_avx512() {
  __m512 sums[kSums], a = _mm512_set1_ps(0.5f), b = _mm512_set1_ps(0.25f);
  for (auto& sum : sums) {
    sum = _mm512_setzero_ps();
    RIGCAST_KEEP(sum);
  }
  for (std::int64_t i = 0; i < kSteps; ++i) {
    RIGCAST_KEEP(a);
    for (auto& sum : sums) sum = _mm512_fmadd_ps(a, b, sum);
  }
  for (auto& sum : sums) RIGCAST_KEEP(sum);
}

__attribute__((target("avx2"))) void dots_avx2() {
  __m256i sums[kSums], u = _mm256_set1_epi8(3), q = _mm256_set1_epi8(-5);
  for (auto& sum : sums) {
    sum = _mm256_setzero_si256();
    RIGCAST_KEEP(sum);
  }
  const __m256i ones = _mm256_set1_epi16(1);
  for (std::int64_t i = 0; i < kSteps; ++i)
    for (auto& sum : sums) {
      RIGCAST_KEEP(u);
      const __m256i four = _mm256_madd_epi16(_mm256_maddubs_epi16(u, q), ones);
      sum = _mm256_add_epi32(sum, four);
    }
  for (auto& sum : sums) RIGCAST_KEEP(sum);
}

__attribute__((target("avx2,fma"))) void floats_avx2() {
  __m256 sums[kSums], a = _mm256_set1_ps(0.5f), b = _mm256_set1_ps(0.25f);
  for (auto& sum : sums) {
    sum = _mm256_setzero_ps();
    RIGCAST_KEEP(sum);
  }
  for (std::int64_t i = 0; i < kSteps; ++i) {
    RIGCAST_KEEP(a);
    for (auto& sum : sums) sum = _mm256_fmadd_ps(a, b, sum);
  }
  for (auto& sum : sums) RIGCAST_KEEP(sum);
}
#undef RIGCAST_KEEP

// A chain of dependent multiplications, three cycles each on every core since 2008. Additions would
// not do: some cores fuse two of them.
constexpr int kMultiplications = 8;
constexpr double kCycles = 3.0 * kMultiplications * double(kSteps);
void multiply_in_a_row() {
  std::uint64_t x = 3;
  for (std::int64_t i = 0; i < kSteps; ++i)
    asm volatile(
        "imul %0, %0\n imul %0, %0\n imul %0, %0\n imul %0, %0\n"
        "imul %0, %0\n imul %0, %0\n imul %0, %0\n imul %0, %0\n"
        : "+r"(x));
}

// A loop whose instruction does `each` operations.
constexpr CpuLoop loop(const char* name, double each, void (*run)()) {
  return {name, each * kSums * double(kSteps), run};
}

}  // namespace

std::span<const CpuLoop> cpu_loops() {
  static constexpr CpuLoop kAvx512[] = {loop("8-bit dot products, AVX-512 VNNI", 128, dots_avx512),
                                        loop("F32 multiply-adds, AVX-512", 32, floats_avx512)};
  static constexpr CpuLoop kAvx2[] = {loop("8-bit dot products, AVX2", 64, dots_avx2),
                                      loop("F32 multiply-adds, AVX2", 16, floats_avx2)};
  if (__builtin_cpu_supports("avx512vnni")) return kAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kAvx2;
  return {};
}
#else
std::span<const CpuLoop> cpu_loops() { return {}; }
#endif

namespace {

// Measures `amount` per second, over several runs.
Samples take(engine::ThreadTeam& team, double amount, void (*run)()) {
  std::vector<double> rates;
  for (int i = 0; i < kSamples; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    team.run([&](engine::Worker&) { run(); });
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    rates.push_back(amount / time.count());
  }
  return samples_of(std::move(rates));
}

Samples take(engine::ThreadTeam& team, const CpuLoop& loop) {
  return take(team, loop.operations * team.size(), loop.run);
}

// The time of the fastest of several runs, because an interrupted run tells nothing of the core.
double least_seconds(void (*run)()) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    least = std::min(least, time.count());
  }
  return least;
}

#if defined(__x86_64__)
Samples clock_of(engine::ThreadTeam& team) { return take(team, kCycles, multiply_in_a_row); }

// Operations per cycle of this thread. The chain of multiplications leaves a core's units to the
// thread that shares it, so it measures the clock alone.
double operations_per_cycle(const CpuLoop& loop) {
  const double clock = kCycles / least_seconds(multiply_in_a_row);
  return loop.operations / least_seconds(loop.run) / clock;
}
#else
Samples clock_of(engine::ThreadTeam&) { return {}; }
double operations_per_cycle(const CpuLoop&) { return 0; }
#endif

// A sample of the processors that this process may use, far from each other.
std::vector<std::size_t> some_processors() {
  constexpr std::size_t kMax = 16;
  cpu_set_t allowed;
  std::vector<std::size_t> all, some;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0)
    for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &allowed)) all.push_back(cpu);
  const std::size_t n = std::min(kMax, all.size());
  for (std::size_t i = 0; i < n; ++i) some.push_back(all[all.size() * i / n]);
  return some;
}

// The highest rate of a thread on the sampled processors: on some of them another program may use
// the core's other hardware thread.
Samples alone(const CpuLoop& loop, double clock, const StopFlag& stop) {
  std::vector<double> rates;
  for (const std::size_t cpu : some_processors()) {
    stop.throw_if_requested();
    std::thread([&] {
      cpu_set_t here;
      CPU_ZERO(&here);
      CPU_SET(cpu, &here);
      if (::sched_setaffinity(0, sizeof here, &here) == 0)
        rates.push_back(clock * operations_per_cycle(loop));
    }).join();
  }
  Samples samples = samples_of(rates);
  if (!rates.empty()) samples.median = std::ranges::max(rates);
  return samples;
}

}  // namespace

CpuRates cpu_rates(engine::ThreadTeam& team) {
  const auto loops = cpu_loops();
  const Samples clock = clock_of(team);
  if (loops.empty()) return {{}, {}, clock, {}};
  return {take(team, loops[0]), take(team, loops[1]), clock,
          alone(loops[0], clock.median, team.stop())};
}

}  // namespace rigcast::probe
