// Weights in machines of several memory nodes: closed forms by arithmetic, and against what others
// measured.

#include "perfmodel/context/memory_nodes.hpp"

#include <cmath>
#include <cstdio>
#include <limits>

#include "perfmodel/cost/cpu_cost.hpp"
#include "perfmodel/memory.hpp"
#include "tests/catch.hpp"
#include "tests/core/profile_fixture.hpp"
#include "tests/perfmodel/machine_fixture.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

namespace {

constexpr NumaPolicy kAll[] = {NumaPolicy::kNone, NumaPolicy::kDistribute, NumaPolicy::kIsolate,
                               NumaPolicy::kMirror};

double rate(int count, double local, double remote, NumaPolicy policy) {
  return read_rate({count, BytesPerSecond{local}, BytesPerSecond{remote}}, policy).value;
}

double seconds(double bytes, int count, NumaPolicy policy) {
  return bytes / rate(count, 100e9, 30e9, policy);
}

Sourced<BytesPerSecond> figure(double bytes_per_s) {
  return {BytesPerSecond{bytes_per_s}, SourceKind::kPublished, "a test"};
}

// Two sockets of four cores that share 100 GB/s.
Scenario two_sockets() {
  Scenario s = scenario_of(llama_3_8b());
  s.rig.gpus.clear();
  s.rig.links.clear();
  s.runtime = *load_profile(kProfile);
  s.rig.cpu.sockets = s.rig.cpu.numa_nodes = 2;
  s.rig.ram.bandwidth = {100_GBps, SourceKind::kMeasured, "a test"};
  s.settings.threads = 8;
  s.rig.cpu.core_read = figure(1e12);  // cores are no limit here
  return s;
}

double read_rate_of(const Scenario& s) {
  OpTraffic t;
  t.weight_bytes_by_format[std::size_t(QuantFormat::kF16)] = 1e9;
  const double share = 1e9 / cpu_cost(s, t, 1).equivalent_bytes.value;
  return s.rig.ram.bandwidth.value.value * share;
}

}  // namespace

TEST_CASE("One memory node is read the same under every policy", "[numa]") {
  for (const NumaPolicy policy : kAll) CHECK(rate(1, 50e9, 1, policy) == 50e9);
}

TEST_CASE("Rates of memory nodes follow from what each memory and each link carries", "[numa]") {
  for (const int n : {2, 4, 8}) {
    const double others = n - 1.0, local = 100e9, remote = 30e9, bytes = 8e9;
    const auto time = [&](NumaPolicy policy) { return seconds(bytes, n, policy); };
    CHECK(time(NumaPolicy::kIsolate) == Approx(bytes / local));
    CHECK(time(NumaPolicy::kMirror) == Approx(bytes / (n * local)));
    CHECK(time(NumaPolicy::kNone) == Approx(std::max(bytes / local, bytes * others / n / remote)));
    CHECK(time(NumaPolicy::kDistribute) ==
          Approx(std::max(bytes / (n * local), bytes * others / (double(n) * n) / remote)));
  }
}

TEST_CASE("Memory nodes in the limits of their links", "[numa]") {
  const double none = std::numeric_limits<double>::infinity();
  for (const int n : {2, 3, 8}) {
    CHECK(rate(n, 80e9, none, NumaPolicy::kDistribute) == rate(n, 80e9, none, NumaPolicy::kMirror));
    CHECK(rate(n, 80e9, none, NumaPolicy::kNone) == 80e9);
    CHECK(rate(n, 80e9, 1, NumaPolicy::kIsolate) == 80e9);
    for (const NumaPolicy policy : kAll) {
      CHECK(seconds(2e9, n, policy) == Approx(2 * seconds(1e9, n, policy)));
      CHECK(rate(n, 80e9, 20e9, policy) <= rate(n, 80e9, 20e9, NumaPolicy::kMirror));
      CHECK(rate(n, 80e9, 20e9, policy) <= rate(n, 80e9, 21e9, policy));
    }
    // As many links as nodes carry what is spread, one link what lies in one node.
    CHECK(rate(n, 80e9, 1e9, NumaPolicy::kDistribute) ==
          Approx(n * rate(n, 80e9, 1e9, NumaPolicy::kNone)));
  }
}

namespace {

// A ratio of two policies' speeds that somebody measured, and the rates of the machine's nodes.
struct Published {
  const char* what;
  double measured;
  NumaPolicy faster, slower;
  double local_gbps, remote_gbps;
};

constexpr Published kPublished[] = {
    // llama.cpp PR 14969: +64.6 %. Rates: mlc v3.10 on two Xeon Gold 6240, gjbex/Code-optimization,
    // info/cascadelake_mlc.txt.
    {"Qwen3-32B Q6_K, two Xeon Gold 6240", 1.646, NumaPolicy::kMirror, NumaPolicy::kDistribute,
     113.07, 34.31},
    // ik_llama.cpp discussion 201, mlc v3.11b: all reads of both sockets 1108.2 GB/s, of one 554.8.
    {"reads of two Xeon 6980P", 1108.2 / 554.8, NumaPolicy::kMirror, NumaPolicy::kIsolate, 554.8,
     247.8},
    // ik_llama.cpp discussion 258, mlc: "close to 200" GB/s, 130 with pages interleaved by the
    // firmware. Link: mlc v3.5 on two Xeons of the generation, cncf/cnf-testbed issue 129.
    {"reads of two Skylake Xeons", 200.0 / 130.0, NumaPolicy::kMirror, NumaPolicy::kDistribute, 100,
     34.46},
    // llama.cpp issue 11744: 2.4 tok/s with the pages badly placed, 4.31 after a run that touched
    // them where they are read. Eight channels of DDR5-6400 a socket; link: derived, see
    // hwprofiles/cpus/epyc-9175f.toml.
    {"Llama 3.1 70B F16, two EPYC 9175F", 4.31 / 2.4, NumaPolicy::kMirror, NumaPolicy::kNone,
     409.6 * 0.8, 210},
};

}  // namespace

TEST_CASE("Speeds of NUMA policies have the ratios that others measured", "[numa]") {
  for (const Published& p : kPublished) {
    const auto speed = [&](NumaPolicy policy) {
      return rate(2, p.local_gbps * 1e9, p.remote_gbps * 1e9, policy);
    };
    const double forecast = speed(p.faster) / speed(p.slower);
    const double error = forecast / p.measured - 1;
    std::printf("%-40s %s over %s: measured %.3f, forecast %.3f, %+.1f %%\n", p.what,
                std::string(name(p.faster)).c_str(), std::string(name(p.slower)).c_str(),
                p.measured, forecast, 100 * error);
    CHECK(std::fabs(error) < 0.15);
  }
}

TEST_CASE("A CPU reads weights at the rate of its memory nodes", "[numa]") {
  Scenario s = two_sockets();
  const auto at = [&](NumaPolicy policy) {
    s.settings.numa = policy;
    return read_rate_of(s);
  };
  // Of memory and link 0.95 is reached; of the link that nobody tells 0.415 of a socket's.
  CHECK(at(NumaPolicy::kIsolate) == Approx(0.95 * 50e9));
  CHECK(at(NumaPolicy::kMirror) == Approx(0.95 * 100e9));
  CHECK(at(NumaPolicy::kNone) == Approx(0.95 * 50e9 * 2 * 0.415));
  CHECK(at(NumaPolicy::kDistribute) == Approx(0.95 * 50e9 * 4 * 0.415));
  s.rig.cpu.remote_read = figure(10e9);
  CHECK(at(NumaPolicy::kNone) == Approx(0.95 * 20e9));
  CHECK(at(NumaPolicy::kDistribute) == Approx(0.95 * 40e9));
  CHECK(at(NumaPolicy::kMirror) == Approx(0.95 * 100e9));
  s.rig.cpu.node_read = figure(40e9);
  CHECK(at(NumaPolicy::kMirror) == Approx(0.95 * 80e9));
  CHECK(at(NumaPolicy::kIsolate) == Approx(0.95 * 40e9));
  s.rig.cpu.core_links = figure(60e9);  // of both sockets
  CHECK(at(NumaPolicy::kMirror) == Approx(0.95 * 60e9));
  CHECK(at(NumaPolicy::kIsolate) == Approx(0.95 * 30e9));
  s.rig.cpu.sockets = s.rig.cpu.numa_nodes = 1;  // rates of a node do not bind a machine of one
  for (const NumaPolicy policy : kAll) CHECK(at(policy) == Approx(0.95 * 60e9));
}

TEST_CASE("Nodes of which nobody tells a rate are no nodes, sockets are", "[numa]") {
  CpuPart cpu;
  cpu.numa_nodes = 4;
  CHECK(cpu.nodes() == 1);
  cpu.sockets = 2;
  CHECK(cpu.nodes() == 2);
  cpu.remote_read = figure(10e9);
  CHECK(cpu.nodes() == 4);
}

TEST_CASE("Windows keeps threads that fit into one socket there", "[numa]") {
  Scenario s = two_sockets();
  s.rig.cpu.remote_read = figure(10e9);
  s.rig.cpu.cores = 40;
  s.rig.cpu.threads = 80;
  s.settings.threads = 20;
  CHECK(policy_in_effect(s) == NumaPolicy::kNone);
  CHECK(read_rate_of(s) == Approx(0.95 * 20e9));
  s.rig.os = OperatingSystem::kWindows;
  CHECK(policy_in_effect(s) == NumaPolicy::kIsolate);
  CHECK(read_rate_of(s) == Approx(0.95 * 50e9));
  s.settings.threads = 41;  // more than a socket has
  CHECK(policy_in_effect(s) == NumaPolicy::kNone);
  s.settings.threads = 20;
  s.settings.numa = NumaPolicy::kDistribute;
  CHECK(policy_in_effect(s) == NumaPolicy::kDistribute);
  s.settings.numa = NumaPolicy::kNone;
  s.rig.cpu.threads = 64;  // one group
  CHECK(policy_in_effect(s) == NumaPolicy::kNone);
}

TEST_CASE("Where one node is used, its cores compute, not all", "[numa]") {
  Scenario s = two_sockets();
  s.rig.cpu.cores = s.rig.cpu.threads = 8;
  OpTraffic t;
  t.weight_bytes_by_format[std::size_t(QuantFormat::kF16)] = 1e9;
  t.matmul_flops = 1e12;
  t.tokens_per_weight = 1000;
  const auto seconds = [&](NumaPolicy policy, int threads) {
    s.settings.numa = policy;
    s.settings.threads = threads;
    return cpu_cost(s, t, 1000).compute.value;
  };
  const double of_node = seconds(NumaPolicy::kIsolate, 4);
  CHECK(seconds(NumaPolicy::kDistribute, 8) < 0.7 * of_node);
  s.rig.cpu.threads = 16;  // two on a core of the node add no core
  CHECK(seconds(NumaPolicy::kIsolate, 8) >= 0.99 * of_node);
  CHECK(nodes_in_use(s) == 1);
}

TEST_CASE("What one memory node cannot hold is told", "[numa]") {
  Scenario s = two_sockets();
  s.rig.ram.capacity.value = 64_GiB;
  for (const NumaPolicy policy : {NumaPolicy::kNone, NumaPolicy::kIsolate}) {
    s.settings.numa = policy;
    CHECK(note_on_full_node(s, 32_GiB).empty());
    CHECK(note_on_full_node(s, 33_GiB).starts_with("33.0 GiB in RAM are more than the 32.0 GiB"));
  }
  for (const NumaPolicy policy : {NumaPolicy::kDistribute, NumaPolicy::kMirror}) {
    s.settings.numa = policy;
    CHECK(note_on_full_node(s, 60_GiB).empty());
  }
  s.settings.numa = NumaPolicy::kNone;
  s.rig.cpu.sockets = 1;
  CHECK(note_on_full_node(s, 60_GiB).empty());
}

TEST_CASE("Mirrored weights take the RAM of every memory node", "[numa]") {
  Scenario s = two_sockets();
  s.rig.ram.capacity.value = 64_GiB;
  const auto plan = [&](NumaPolicy policy, int nodes) {
    s.settings.numa = policy;
    s.rig.cpu.sockets = nodes;
    return plan_memory(s, place(s, 0), 1);
  };
  const MemoryPlan once = plan(NumaPolicy::kDistribute, 2);
  const Bytes weights = host(once).weights;
  REQUIRE(weights > 14_GiB);
  CHECK(host(plan(NumaPolicy::kNone, 2)).weights == weights);
  CHECK(host(plan(NumaPolicy::kIsolate, 2)).weights == weights);
  CHECK(host(plan(NumaPolicy::kMirror, 1)).weights == weights);
  const MemoryPlan twice = plan(NumaPolicy::kMirror, 2);
  CHECK(host(twice).weights == weights * 2.0);
  CHECK(host(twice).mirrored == weights);
  CHECK(host(twice).kv == host(once).kv);
  CHECK(host(twice).activations == host(once).activations);
  CHECK(held_of_file(s, twice) == held_of_file(s, once));
  CHECK(host(plan(NumaPolicy::kMirror, 4)).weights == weights * 4.0);
  s.rig.ram.capacity.value = weights + 8_GiB;  // copies are no pages of a file, to be read again
  CHECK(plan(NumaPolicy::kDistribute, 2).fits());
  CHECK_FALSE(plan(NumaPolicy::kMirror, 2).fits());
}
