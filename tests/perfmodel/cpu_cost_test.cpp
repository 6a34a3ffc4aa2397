// Cost of operations on the CPU, calculated by hand.

#include <algorithm>
#include <string>

#include "perfmodel/cost/cpu_cost.hpp"
#include "tests/catch.hpp"
#include "tests/core/profile_fixture.hpp"
#include "tests/perfmodel/machine_fixture.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

namespace {

constexpr double kElements = 1e9;
constexpr double kClock = 3e9;  // of a CPU that states none
constexpr double kCoreFlops = kClock * 2 * 2 * 32;
constexpr double kShare = 0.2;

// Eight cores of two 32-byte multipliers with dot products, at the figures of kProfile.
Scenario of_cpu() {
  Scenario s;
  s.rig = machine();
  s.rig.gpus.clear();
  s.rig.cpu.simd = "avx-vnni";
  s.runtime = *load_profile(kProfile);
  s.runtime.cpu.int8_share["avx-vnni"].value = kShare;
  s.settings.threads = 8;
  return s;
}

OpTraffic product(double tokens, QuantFormat format = QuantFormat::kF16) {
  OpTraffic t;
  t.weight_bytes_by_format[std::size_t(format)] = kElements * info(format).bits_per_weight() / 8;
  t.matmul_flops = 2 * kElements * tokens;
  t.tokens_per_weight = tokens;
  t.matrices = 1;
  return t;
}

double seconds(const Scenario& s, TokenCount tokens) {
  return cpu_cost(s, product(double(tokens)), tokens).compute.value;
}

// The bytes per second that a token's product reads.
double read_rate(const Scenario& s) {
  const OpTraffic weights = product(1);
  const double share = weights.weight_bytes() / cpu_cost(s, weights, 1).equivalent_bytes.value;
  return s.rig.ram.bandwidth.value.value * share;
}

// The compute time of one token's attention of 8 GFLOPs.
double seconds_of_attention(const Scenario& s) {
  OpTraffic t;
  t.kv_read_bytes = 1e9;
  t.attention_flops = 8e9;
  return cpu_cost(s, t, 1).compute.value;
}

Sourced<FlopsPerSecond> measured(double flops) {
  return {FlopsPerSecond{flops}, SourceKind::kMeasured, {}};
}

}  // namespace

TEST_CASE("A batch on the CPU takes a share of what its cores multiply in INT8", "[cpu]") {
  Scenario s = of_cpu();
  // Half of the rate at two tokens that share a weight (half_rate_batch), two thirds of it at four.
  const double full = 2 * kElements * 16 / (8 * kCoreFlops * kShare);
  CHECK(seconds(s, 16) == Approx(full * (1 + 2.0 / 16)));
  s.runtime.cpu.half_rate_batch.value = 16;
  CHECK(seconds(s, 16) == Approx(full * 2));
  s.runtime.cpu.half_rate_batch.value = 0;
  CHECK(seconds(s, 16) == Approx(full));
  s.rig.cpu.architecture = "zen5";  // twice as wide
  CHECK(seconds(s, 16) == Approx(full / 2));
  s.rig.cpu.simd = "of the future";  // as scalar instructions, without dot products
  CHECK(seconds(s, 16) == Approx(full / 2 * 1.5 * kShare / 0.1));
}

TEST_CASE("Work on the cache goes by a clock that was measured", "[cpu]") {
  Scenario s = of_cpu();
  const auto seconds_of_cache = [&] { return seconds_of_attention(s); };
  const double by_rate = seconds_of_cache();
  s.runtime.cpu.cache_per_cycle = Sourced<double>{10, SourceKind::kAssumed, {}};
  CHECK(seconds_of_cache() == by_rate);
  s.rig.cpu.clock = Sourced<Hertz>{Hertz{2e9}, SourceKind::kSpec, {}};
  s.rig.cpu.int8_rate = Sourced<FlopsPerSecond>{FlopsPerSecond{1e12}, SourceKind::kSpec, {}};
  const double by_spec = seconds_of_cache();
  s.rig.cpu.clock->kind = SourceKind::kMeasured;
  CHECK(seconds_of_cache() == Approx(8e9 / (8 * 2e9 * 10)));
  CHECK(seconds_of_cache() != Approx(by_spec));
}

TEST_CASE("Threads with a core each work on the cache by what a core multiplies", "[cpu]") {
  Scenario s = of_cpu();
  const auto seconds_of_cache = [&] { return seconds_of_attention(s); };
  s.rig.cpu.core_int8 = s.rig.cpu.int8_rate = measured(kCoreFlops);
  s.rig.cpu.int8_rate->value.value *= 8;
  const double alone = seconds_of_cache();
  s.runtime.cpu.cache_per_cycle = Sourced<double>{3, SourceKind::kAssumed, {}};
  s.rig.cpu.clock = Sourced<Hertz>{Hertz{2e9}, SourceKind::kMeasured, {}};
  CHECK(seconds_of_cache() == Approx(alone));
  const double shared = 8e9 / (8 * 2e9 * 3);
  s.rig.cpu.int8_rate->value.value /= 2;  // two threads to a core
  CHECK(seconds_of_cache() == Approx(shared));
  s.rig.cpu.int8_rate->value.value *= 1.5;  // half of the threads share one
  CHECK(seconds_of_cache() == Approx((alone + shared) / 2));
}

TEST_CASE("Of threads that share multipliers one unpacks while the other multiplies", "[cpu]") {
  Scenario s = of_cpu();
  s.runtime.cpu.half_rate_batch.value = 16;
  s.runtime.cpu.cache_per_cycle = Sourced<double>{10, SourceKind::kAssumed, {}};
  // Eight threads multiply as much as four would by themselves: the rest takes half of what it did
  // beside, and so does unpacking.
  s.rig.cpu.core_int8 = measured(kCoreFlops);
  s.rig.cpu.int8_rate = measured(8 * kCoreFlops / 2);
  const double products = 2 * kElements * 16 / (8 * kCoreFlops / 2);
  const double rest = 1 / kShare - 1;
  CHECK(seconds(s, 16) == Approx(products * (1 + rest / 2) * (1 + 0.5)));
  s.rig.cpu.int8_rate = measured(8 * kCoreFlops);
  CHECK(seconds(s, 16) == Approx(products / 2 * (1 + rest) * 2));
}

TEST_CASE("One token meets a weight alone: no batch is too small for it", "[cpu]") {
  Scenario s = of_cpu();
  const double one = seconds(s, 1);
  CHECK(one == Approx(2 * kElements / (8 * kCoreFlops * kShare * 0.5)));  // one_token
  s.runtime.cpu.half_rate_batch.value = 16;
  CHECK(seconds(s, 1) == one);
  CHECK(seconds(s, 8) == Approx(8 * one));
}

TEST_CASE("A few tokens that share a weight unpack it once, where that is so", "[cpu]") {
  Scenario s = of_cpu();
  const double one = seconds(s, 1);
  s.runtime.cpu.further_token = Sourced<double>{0.25, SourceKind::kAssumed, {}};
  CHECK(seconds(s, 1) == Approx(one));
  CHECK(seconds(s, 5) == Approx(2 * one));
  const double batch = seconds(s, 9);  // other kernels
  s.runtime.cpu.further_token->value = 1;
  CHECK(seconds(s, 5) == Approx(5 * one));
  CHECK(seconds(s, 9) == batch);
}

TEST_CASE("A batch takes no longer than its tokens one by one, where that is so", "[cpu]") {
  Scenario s = of_cpu();
  s.runtime.cpu.half_rate_batch.value = 48;  // four times the products' time at 16 tokens
  const double products = 2 * kElements * 16 / (8 * kCoreFlops * kShare);
  CHECK(seconds(s, 16) == Approx(4 * products));
  s.runtime.cpu.one_by_one = true;
  CHECK(seconds(s, 16) == Approx(16 * seconds(s, 1)));
  CHECK(seconds(s, 16) == Approx(products / 0.5));  // one_token
  CHECK(seconds(s, 64) == Approx(4 * products * (1 + 48 / 64.0)));
}

TEST_CASE("A core reaches at least what the instructions do that it also has", "[cpu]") {
  Scenario s = of_cpu();
  auto& share = s.runtime.cpu.int8_share;
  share["avx2"].value = 0.3;
  share["avx-vnni"].value = 0.1;
  s.rig.cpu.simd = "avx2";
  const double without = seconds(s, 16);
  s.rig.cpu.simd = "avx-vnni";  // dot products take one step for one and a half
  CHECK(seconds(s, 16) == Approx(without));
  share["avx-vnni"].value = 0.25;
  CHECK(seconds(s, 16) == Approx(without * 0.3 / 1.5 / 0.25));
  s.rig.cpu.simd = "amx";  // of which this profile tells nothing; vectors are twice as wide
  CHECK(seconds(s, 16) == Approx(without / 2));
}

TEST_CASE("A BLAS multiplies batches of 32 tokens as FP32, whatever their format", "[cpu]") {
  Scenario s = of_cpu();
  for (FormatEfficiency& f : s.runtime.formats) f.cpu_batch.value = 0.5;
  const double without = seconds(s, 32);
  s.settings.cpu_blas = true;
  const double rate = 8 * kClock * (2 * 2 * 32 / 4) * 0.6;
  CHECK(seconds(s, 32) == Approx(2 * kElements * 32 / rate));
  CHECK(seconds(s, 512) == Approx(2 * kElements * 512 / rate));
  CHECK(cpu_cost(s, product(32, QuantFormat::kQ4_K), 32).compute.value == seconds(s, 32));
  CHECK(seconds(s, 32) != Approx(without));
  const double quants = seconds(s, 31);
  s.settings.cpu_blas = false;
  CHECK(seconds(s, 31) == quants);
}

TEST_CASE("Attention is no product of a BLAS", "[cpu]") {
  Scenario s = of_cpu();
  OpTraffic t;
  t.attention_flops = 1e12;
  const double own = cpu_cost(s, t, 64).compute.value;
  CHECK(own == Approx(1e12 / (8 * kCoreFlops * kShare * 0.3)));
  s.settings.cpu_blas = true;
  CHECK(cpu_cost(s, t, 64).compute.value == Approx(own));
}

TEST_CASE("Cores read no more than 0.95 of what their links carry", "[cpu]") {
  Scenario s = of_cpu();
  s.rig.cpu.core_links = {20_GBps, SourceKind::kAssumed, "a test"};
  CHECK(read_rate(s) == Approx(0.95 * 20e9));
  s.rig.ram.bandwidth.kind = SourceKind::kMeasured;
  CHECK(read_rate(s) == Approx(0.95 * 20e9));
  s.rig.cpu.core_links->value = 200_GBps;
  CHECK(read_rate(s) == Approx(0.95 * 50e9));
  s.settings.threads = 1;
  CHECK(read_rate(s) == Approx(10e9));  // read_per_thread
}

TEST_CASE("More threads than cores are worth half a core each until all cores have two", "[cpu]") {
  const auto cores = [](int fast, int efficient, int threads) {
    Scenario s = of_cpu();
    s.rig.cpu.cores = fast;
    s.rig.cpu.efficiency_cores = efficient;
    s.settings.threads = threads;
    return 2 * kElements * 16 * (1 + 2.0 / 16) / (seconds(s, 16) * kCoreFlops * kShare);
  };
  CHECK(cores(8, 0, 6) == Approx(6));
  CHECK(cores(8, 0, 8) == Approx(8));
  CHECK(cores(8, 0, 9) == Approx(4.5));
  CHECK(cores(8, 0, 12) == Approx(6));
  CHECK(cores(8, 0, 16) == Approx(8));
  CHECK(cores(8, 0, 32) == Approx(8));
  // Efficiency cores count half, and threads may have one each before any core has two.
  CHECK(cores(4, 4, 6) == Approx(5));
  CHECK(cores(4, 4, 8) == Approx(6));
  CHECK(cores(4, 4, 9) == Approx(4.5));
  CHECK(cores(4, 4, 12) == Approx(6));
}

TEST_CASE("Threads in one socket load its cores alone, and lower its clock", "[cpu]") {
  Scenario s = of_cpu();
  s.rig.cpu.cores = 16;
  s.rig.cpu.sockets = 2;
  s.rig.cpu.base_clock = {Hertz{2e9}, SourceKind::kSpec, "a test"};
  s.rig.cpu.boost_clock = {Hertz{4e9}, SourceKind::kSpec, "a test"};
  const double full = 2e9 + 0.6 * 2e9;  // all cores of a socket at work
  const double crowded = seconds(s, 16);
  CHECK(crowded == Approx(2 * kElements * 16 * (1 + 2.0 / 16) / (8 * full * 2 * 2 * 32 * kShare)));
  s.settings.numa =
      NumaPolicy::kDistribute;  // half of the cores of either one: half way to the boost
  CHECK(crowded / seconds(s, 16) == Approx((full + 4e9) / 2 / full));
}

TEST_CASE("Windows takes of the cores' rate, a Linux inside of it does not", "[cpu]") {
  Scenario s = of_cpu();
  s.runtime.windows.cpu.value = 0.8;
  const double elsewhere = seconds(s, 16);
  s.rig.os = OperatingSystem::kWindows;
  CHECK(seconds(s, 16) == Approx(elsewhere / 0.8));
  CHECK(seconds(s, 1) == Approx(2 * kElements / (8 * kCoreFlops * kShare * 0.5 * 0.8)));
  for (const auto os : {OperatingSystem::kWsl2, OperatingSystem::kMacos}) {
    s.rig.os = os;
    CHECK(seconds(s, 16) == elsewhere);
  }
}

TEST_CASE("Reading the cache follows the weights where it has a figure of its own", "[cpu]") {
  Scenario s = of_cpu();
  CpuEfficiency& e = s.runtime.cpu;
  e.barrier_time.value = Seconds{0};
  OpTraffic t = product(1);
  t.kv_read_bytes = 2e9;  // F16
  t.attention_flops = 1e9;
  const double rate = read_rate(s), clock = 8 * kCoreFlops * kShare;
  const double read = t.weight_bytes() / rate, read_cache = t.kv_read_bytes / rate;
  const OpCost alone = cpu_cost(s, t, 1);
  const double work = seconds(s, 1), cache = t.attention_flops / e.cache.value / clock;
  CHECK(alone.compute.value == Approx(work + cache));
  CHECK(alone.overhead.value ==
        Approx(e.unoverlapped_share.value * std::min(work + cache, read + read_cache)));

  e.kv_unoverlapped_share = Sourced<double>{0.5, SourceKind::kAssumed, {}};
  e.cache_element.value = 3000;  // now the cores bind on the cache, memory on the weights
  const double busy = (t.attention_flops + 1e9 * 3000) / e.cache.value / clock;
  REQUIRE(busy > read_cache);
  REQUIRE(work < read);
  const OpCost apart = cpu_cost(s, t, 1);
  const Seconds equivalent_bytes = apart.equivalent_bytes / s.rig.ram.bandwidth.value;
  CHECK(apart.overhead.value + std::max(apart.compute, equivalent_bytes).value ==
        Approx(read + e.unoverlapped_share.value * work + busy + 0.5 * read_cache));
  s.kv.types = {QuantFormat::kQ8_0, QuantFormat::kQ8_0};  // its elements cost nothing here
  CHECK(cpu_cost(s, t, 1).compute < apart.compute);
}

TEST_CASE("Work on the cache's elements is done again for queries that do not share it", "[cpu]") {
  Scenario s = of_cpu();
  s.runtime.cpu.cache_element.value = 6;
  OpTraffic t;
  t.kv_read_bytes = 2e6;  // F16
  const auto flops = [&](int queries) {
    t.attention_flops = 2.0 * queries * 1e6;
    return cpu_cost(s, t, 1).compute.value * s.runtime.cpu.cache.value * 8 * kCoreFlops * kShare;
  };
  CHECK(flops(7) == Approx(14e6 + 6e6));
  s.runtime.cpu.cache_queries = Sourced<double>{4, SourceKind::kAssumed, {}};
  for (const auto& [queries, readings] : {std::pair{1, 1}, {4, 1}, {5, 2}, {7, 2}, {8, 2}, {9, 3}})
    CHECK(flops(queries) == Approx(queries * 2e6 + readings * 6e6));
}

TEST_CASE("Threads that meet by a tree wait less for many of them", "[cpu]") {
  Scenario s = of_cpu();
  OpTraffic t;
  t.matrices = 3;
  s.settings.threads = 16;
  const double once = 3 * s.runtime.cpu.barrier_time.value.value;
  CHECK(cpu_cost(s, t, 1).overhead.value == Approx(once * 16));
  s.runtime.cpu.barrier_thread_exponent = Sourced<double>{0.5, SourceKind::kAssumed, {}};
  CHECK(cpu_cost(s, t, 1).overhead.value == Approx(once * 4));
}

TEST_CASE("Threads that ask memory for their next weights while they wait lose less by meeting",
          "[cpu]") {
  Scenario s = of_cpu();
  s.settings.threads = 16;
  s.runtime.cpu.barrier_thread_exponent = Sourced<double>{0.5, SourceKind::kAssumed, {}};
  OpTraffic weights, experts, cache;
  weights.matrices = experts.matrices = 3;
  cache.matrices = 1;
  weights.weight_bytes_by_format[std::size_t(QuantFormat::kQ8_0)] = 1e6;
  experts.weight_bytes_by_format = weights.weight_bytes_by_format;
  experts.routed = true;
  cache.kv_read_bytes = 1e6;
  const auto overhead = [&](const OpTraffic& t, TokenCount tokens) {
    return cpu_cost(s, t, tokens).overhead.value;
  };
  const double before[] = {overhead(weights, 1), overhead(weights, 512), overhead(experts, 1),
                           overhead(cache, 1)};
  s.runtime.cpu.barrier_exponent_with_prefetch = Sourced<double>{0.25, SourceKind::kAssumed, {}};
  const double once = 3 * s.runtime.cpu.barrier_time.value.value;
  CHECK(before[0] - overhead(weights, 1) == Approx(once * (4 - 2)));
  CHECK(overhead(weights, 512) == before[1]);  // a batch computes
  CHECK(overhead(experts, 1) == before[2]);    // nothing tells who comes next
  CHECK(overhead(cache, 1) == before[3]);
}

TEST_CASE("Queries that share no work read a cache anew, as far as the CPU holds too little",
          "[cpu]") {
  Scenario s = of_cpu();
  s.runtime.cpu.cache_queries = Sourced<double>{1, SourceKind::kAssumed, {}};
  OpTraffic t;
  const auto equivalent_bytes = [&](double megabytes, int queries, TokenCount tokens = 1) {
    t.kv_read_bytes = megabytes * 1e6;  // F16
    t.attention_flops = queries * t.kv_read_bytes;
    return (cpu_cost(s, t, tokens).equivalent_bytes / s.rig.ram.bandwidth.value).value *
           read_rate(s) / 1e6;
  };
  CHECK(equivalent_bytes(200, 8) == Approx(200));
  s.runtime.cpu.cache_stride = Sourced<double>{2.5, SourceKind::kAssumed, {}};
  const double held = 3.0 * s.rig.cpu.cores;
  CHECK(equivalent_bytes(held, 8) == Approx(2.5 * held));
  CHECK(equivalent_bytes(2 * held, 8) == Approx(2.5 * 2 * held * (1 + 0.5 * 7)));
  CHECK(equivalent_bytes(2 * held, 1) == Approx(2.5 * 2 * held));
  CHECK(equivalent_bytes(2 * held, 8, 512) == Approx(2 * held));  // a batch shares what it reads
}

TEST_CASE(
    "Vectors between matrices are divided over the threads, scores come with a batch's products",
    "[cpu]") {
  Scenario s = of_cpu();
  OpTraffic t = product(16);
  const OpCost before = cpu_cost(s, t, 16);
  t.vector_elements = 1e6;
  s.runtime.cpu.element.value = Seconds{8e-9};
  CHECK((cpu_cost(s, t, 16).overhead - before.overhead).value == Approx(1e6 * 1e-9));
  t.attention_flops = 1e9;
  const Seconds products = cpu_cost(s, t, 16).compute - before.compute;
  s.model.head_dim = 64;
  s.runtime.cpu.score.value = 4 * 64;  // as much again
  CHECK((cpu_cost(s, t, 16).compute - before.compute).value == Approx(2 * products.value));
}

TEST_CASE("Kernels of narrower vectors gain nothing on a wider core", "[cpu]") {
  Scenario s = of_cpu();
  const double narrow = seconds(s, 1);
  s.rig.cpu.architecture = "zen5";  // twice as wide
  CHECK(seconds(s, 1) == Approx(narrow / 2));
  s.runtime.cpu.vector_bytes = Sourced<double>{32, SourceKind::kAssumed, {}};
  CHECK(seconds(s, 1) == Approx(narrow));
  const double batch = seconds(s, 16);
  s.runtime.cpu.vector_bytes.reset();
  CHECK(seconds(s, 16) == Approx(batch));  // of one token alone
}

TEST_CASE("Unpacking blocks for one token keeps all vector units busy", "[cpu]") {
  Scenario s = of_cpu();
  const double token = seconds(s, 1), batch = seconds(s, 16);
  s.runtime.cpu.all_vector_units = true;
  s.rig.cpu.architecture = "raptor-lake";  // three units, of which two multiply
  CHECK(seconds(s, 1) == Approx(token * 2 / 3));
  CHECK(seconds(s, 16) == Approx(batch));
  s.rig.cpu.architecture = "zen3";  // four, of which two multiply
  CHECK(seconds(s, 1) == Approx(token * 2 / 4));
  s.rig.cpu.architecture = "apple-m2";  // four narrow ones, all of which multiply
  CHECK(seconds(s, 1) == Approx(token));
}

TEST_CASE("Threads that share cores without knowing it are less than one core each", "[cpu]") {
  Scenario s = of_cpu();
  // 8 processors on 4 cores: together they multiply as 4 threads alone do.
  s.rig.cpu.cores = 8;
  s.rig.cpu.core_int8 = measured(kCoreFlops);
  s.rig.cpu.int8_rate = measured(4 * kCoreFlops);
  s.runtime.cpu.two_threads = Sourced<double>{1.2, SourceKind::kAssumed, {}};
  const auto cores = [&](int threads) {
    s.settings.threads = threads;
    return 2 * kElements * 16 / (seconds(s, 16) / (1 + 2.0 / 16)) / (kCoreFlops * kShare);
  };
  CHECK(cores(1) == Approx(1));
  CHECK(cores(8) == Approx(4 * 1.2));
  // Three of seven other processors are busy: so many have a neighbour, which leaves each 0.6.
  CHECK(cores(4) == Approx(4 * (4.0 / 7 + 3.0 / 7 * 0.6)));
  s.rig.cpu.int8_rate = measured(8 * kCoreFlops);  // a core each
  CHECK(cores(4) == Approx(4));
  CHECK(cores(8) == Approx(8));
}

TEST_CASE("Batches of weights in tiles are as much faster as the profile says", "[cpu]") {
  Scenario s = of_cpu();
  const double vectors = seconds(s, 16);
  s.rig.cpu.amx = true;
  s.runtime.cpu.tiles = Sourced<double>{2, SourceKind::kAssumed, {}};
  CHECK(seconds(s, 16) == Approx(vectors));  // no layout of tiles
  RuntimeProfile::Repacking layout;
  layout.format = QuantFormat::kF16;
  layout.simd = {"amx"};
  s.runtime.repackings = {layout};
  const double one = seconds(s, 1);
  CHECK(seconds(s, 16) == Approx(vectors / 2));
  s.rig.cpu.amx = false;
  CHECK(seconds(s, 16) == Approx(vectors));
  CHECK(seconds(s, 1) == Approx(one));
}
