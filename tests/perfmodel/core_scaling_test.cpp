// Speed by the number of cores: closed forms at their ends, and curves that
// others measured.

#include "perfmodel/context/core_scaling.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "perfmodel/cost/cpu_cost.hpp"
#include "tests/catch.hpp"
#include "tests/core/profile_fixture.hpp"
#include "tests/perfmodel/machine_fixture.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

TEST_CASE("Cores draw a memory's bandwidth as the recursion says", "[cores]") {
  CHECK(bandwidth_share(1, 0.25) == 0.25);
  CHECK(bandwidth_share(2, 0.25) == Approx(2 / (4 + 0.25)));
  CHECK(bandwidth_share(3, 0.25) == Approx(3 / (4 + 2 * 2 / 4.25)));
  CHECK(bandwidth_share(1, 1.0) == 1.0);
  CHECK(bandwidth_share(7, 1.0) == 1.0);
  for (const double one : {0.01, 0.1, 0.3, 0.9})
    for (int n = 2; n <= 200; ++n) {
      CHECK(bandwidth_share(n, one) >= bandwidth_share(n - 1, one));
      CHECK(bandwidth_share(n, one) <= std::min(1.0, n * one));
    }
}

TEST_CASE("Speed between one core and all agrees with both", "[cores]") {
  for (const int all : {2, 3, 8, 16, 96})
    for (const double share : {0.15, 0.4, 0.8, 0.99}) {
      const double ends = std::max(1.05, share * all);
      if (ends >= all) continue;
      INFO(all << " cores, " << ends);
      CHECK(speed_of_cores(1, all, ends) == 1);
      CHECK(speed_of_cores(all, all, ends) == ends);
      for (int n = 2; n < all; ++n) {
        const double speed = speed_of_cores(n, all, ends);
        CHECK(speed >= speed_of_cores(n - 1, all, ends) * (1 - 1e-9));
        CHECK(speed <= std::min(double(n), ends) * (1 + 1e-9));
      }
    }
  CHECK(speed_of_cores(5, 8, 8) == 5);  // no shared limit
  CHECK(speed_of_cores(5, 8, 9) == 5);
  CHECK(speed_of_cores(5, 8, 1) == 1);      // one core saturates it
  CHECK(speed_of_cores(5, 8, 0.7) == 0.7);  // more cores are slower
}

namespace {

struct Curve {
  const char* what;
  std::vector<int> threads;
  std::vector<double> speed;
};

// The first count has one or two threads, which share no limit yet.
const std::vector<Curve> kCurves = {
    // tok/s of Llama 3.1 8B: github.com/ikawrakow/ik_llama.cpp/pull/121
    {"Apple M2 Max, Q5_0_R4", {2, 4, 8}, {8.75, 16.46, 22.07}},
    {"Apple M2 Max, Q5_0", {2, 4, 8}, {6.38, 12.27, 20.60}},
    // tok/s of Llama 3.1 8B: github.com/ikawrakow/ik_llama.cpp/pull/132
    {"Ryzen 9 7950X, Q5_K_S", {1, 2, 4}, {5.12, 9.31, 11.33}},
    {"Ryzen 9 7950X, Q5_K_R4", {1, 2, 4}, {7.07, 11.54, 11.89}},
    {"Threadripper PRO 5975WX, Q5_K_S", {2, 4, 8}, {4.04, 7.57, 9.75}},
    {"Threadripper PRO 5975WX, Q5_K_R4", {2, 4, 8}, {6.40, 9.95, 11.00}},
    // tok/s of Llama 3.1 8B: github.com/ikawrakow/ik_llama.cpp/pull/134
    {"Ryzen 9 7950X, Q3_K", {1, 2, 4}, {5.47, 10.25, 15.21}},
    {"Ryzen 9 7950X, Q3_K_R4", {1, 2, 4}, {6.78, 12.46, 17.02}},
    {"Threadripper PRO 5975WX, Q3_K", {2, 4, 8}, {5.02, 9.33, 14.85}},
    {"Threadripper PRO 5975WX, Q3_K_R4", {2, 4, 8}, {8.21, 13.67, 16.67}},
    // tok/s of Llama 3.1 8B: github.com/ikawrakow/ik_llama.cpp/pull/146
    {"Apple M2 Max, IQ2_K", {2, 4, 8}, {8.22, 15.12, 28.01}},
    {"Apple M2 Max, IQ2_K_R4", {2, 4, 8}, {9.79, 18.25, 32.33}},
    {"Ryzen 9 7950X, IQ2_K", {1, 2, 4}, {6.56, 11.89, 19.37}},
    {"Ryzen 9 7950X, IQ2_K_R4", {1, 2, 4}, {7.13, 13.35, 21.55}},
    {"Threadripper PRO 5975WX, IQ2_K", {2, 4, 8}, {5.06, 9.63, 17.45}},
    {"Threadripper PRO 5975WX, IQ2_K_R4", {2, 4, 8}, {8.83, 16.28, 22.11}},
    // tok/s of Llama 3.1 8B: github.com/ikawrakow/ik_llama.cpp/pull/149
    {"Apple M2 Max, IQ5_K", {2, 4, 8}, {5.92, 11.53, 20.29}},
    {"Apple M2 Max, IQ5_K_R4", {2, 4, 8}, {6.98, 13.35, 21.17}},
    // tok/s of Llama 3.1 8B: github.com/ikawrakow/ik_llama.cpp/pull/150
    {"Apple M2 Max, IQ4_KS", {2, 4, 8}, {10.84, 19.81, 25.74}},
    {"Apple M2 Max, IQ4_KS_R4", {2, 4, 8}, {12.55, 22.06, 26.47}},
    {"Ryzen 9 7950X, IQ4_KS", {1, 2, 4}, {6.18, 11.73, 13.09}},
    {"Ryzen 9 7950X, IQ4_KS_R4", {1, 2, 4}, {7.97, 13.43, 14.46}},
    {"Threadripper PRO 5975WX, IQ4_KS", {2, 4, 8}, {4.74, 8.75, 12.38}},
    {"Threadripper PRO 5975WX, IQ4_KS_R4", {2, 4, 8}, {7.30, 11.39, 12.73}},
    // GB/s read by a desktop of two channels of DDR4: apache/arrow PR 3378
    {"desktop, reads", {1, 2, 4, 8}, {17.1, 27.6, 33.0, 36.7}},
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

TEST_CASE("Curves by thread lie between the ends that were measured", "[cores]") {
  std::vector<double> errors;
  for (const Curve& c : kCurves) {
    const auto best = std::size_t(std::ranges::max_element(c.speed) - c.speed.begin());
    const double one = c.speed.front() / c.threads.front();
    for (std::size_t i = 1; i < best; ++i) {
      const double forecast =
          one * speed_of_cores(c.threads[i], c.threads[best], c.speed[best] / one);
      errors.push_back(std::fabs(forecast / c.speed[i] - 1));
      std::printf("%-34s %d threads: measured %.2f, forecast %.2f, %+.1f %%\n", c.what,
                  c.threads[i], c.speed[i], forecast, 100 * (forecast / c.speed[i] - 1));
    }
  }
  std::printf("curves by thread: median error %.1f %% of %zu\n", 100 * median(errors),
              errors.size());
  CHECK(errors.size() >= 25);
  CHECK(median(errors) <= 0.06);
}

namespace {

// Sixteen cores that read 100 GB/s together, 20 GB/s each; a token's products
// take one core as long as it takes to read 10 GB/s.
Scenario sixteen_cores() {
  Scenario s = scenario_of(llama_3_8b());
  s.rig.gpus.clear();
  s.rig.links.clear();
  s.runtime = *load_profile(kProfile);
  s.rig.cpu.cores = s.rig.cpu.threads = 16;
  s.rig.cpu.simd = "avx2";
  s.rig.ram.bandwidth.value = BytesPerSecond{100e9};
  s.runtime.cpu.read.value = 1;
  s.runtime.cpu.read_per_thread.value = 20_GBps;
  s.runtime.cpu.barrier_time.value = Seconds{0};
  s.runtime.cpu.element.value = Seconds{0};
  s.runtime.cpu.unoverlapped_share.value = 1;
  return s;
}

double token_seconds(Scenario s, int threads) {
  OpTraffic t;
  t.weight_bytes_by_format[std::size_t(QuantFormat::kF16)] = 1e9;
  t.matmul_flops = 1e9;
  t.tokens_per_weight = 1;
  t.matrices = 1;
  s.settings.threads = threads;
  return time_alone(s, cpu_cost(s, t, 1), kHost).value;
}

}  // namespace

TEST_CASE("A token's time on some cores lies between one core's and all cores'", "[cores]") {
  const Scenario s = sixteen_cores();
  const double one = token_seconds(s, 1), all = token_seconds(s, 16);
  REQUIRE(one / all > 2);
  for (int n = 2; n < 16; ++n) {
    INFO(n);
    CHECK(token_seconds(s, n) == Approx(one / speed_of_cores(n, 16, one / all)));
    CHECK(token_seconds(s, n) <= token_seconds(s, n - 1) * (1 + 1e-9));
  }
  // More threads than cores are no faster, and barriers make more threads
  // slower.
  CHECK(token_seconds(s, 32) >= all * (1 - 1e-9));
  Scenario barriers = s;
  barriers.runtime.cpu.barrier_time.value = Seconds{all / 10};
  CHECK(token_seconds(barriers, 16) > token_seconds(barriers, 6));
}
