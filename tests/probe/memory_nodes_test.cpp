// The memory nodes of a machine: what the kernel's files tell, which nodes count as one, and what a
// rig file keeps of them.

#include <sched.h>

#include <string>

#include "core/catalogue/catalogue.hpp"
#include "core/scenario/scenario.hpp"
#include "probe/dram_read.hpp"
#include "probe/host.hpp"
#include "probe/machine.hpp"
#include "tests/catch.hpp"
#include "tests/folder.hpp"
#include "tests/paths.hpp"

using namespace rigcast;
using namespace rigcast::probe;

namespace {

// Two sockets of two cores with two threads each, a node each, and a node without processors.
void write_two_sockets(const test::Folder& folder) {
  const std::string system = "sys/devices/system/";
  for (const char* node : {"node0", "node1", "node2"})
    test::fs::create_directories(folder.path() / system / "node" / node);
  folder.write(system + "node/has_memory", "0-2\n");
  folder.write(system + "node/node0/cpulist", "0-1,4-5\n");
  folder.write(system + "node/node1/cpulist", "2-3,6-7\n");
  folder.write(system + "node/node2/cpulist", "\n");
  for (int cpu = 0; cpu < 8; ++cpu) {
    const std::string topology = system + "cpu/cpu" + std::to_string(cpu) + "/topology/";
    test::fs::create_directories(folder.path() / topology);
    const int core = cpu % 4;
    folder.write(topology + "thread_siblings_list",
                 std::to_string(core) + "," + std::to_string(core + 4) + "\n");
    folder.write(topology + "physical_package_id", std::to_string(core / 2) + "\n");
  }
}

// Equal nodes, so many to a socket, and what they read of each other within it.
std::size_t joined(int nodes, int per_socket, double own, double within) {
  std::vector<MemoryNode> all;
  const auto count = std::size_t(nodes);
  NodeMatrix matrix(count, std::vector<Samples>(count));
  for (int r = 0; r < nodes; ++r) {
    all.push_back({{r}, {r}, 1, r / per_socket});
    for (int m = 0; m < nodes; ++m)
      if (r / per_socket == m / per_socket)
        matrix[std::size_t(r)][std::size_t(m)] = {r == m ? own : within, 0, 7};
  }
  return joined_nodes(all, matrix).size();
}

Machine machine_with(NodeRates nodes) {
  Machine m;
  m.date = "2026-01-31";
  m.host.cpu = "Two sockets";
  m.host.simd = "avx2";
  m.host.os = "linux";
  m.host.cores = 8;
  m.host.memory = 64_GiB;
  m.host.available = 60_GiB;
  m.host.nodes = {{{0}, {0}, 4, 0}, {{1}, {1}, 4, 1}};
  m.dram = {{10e9, 0.02, 7}, {100e9, 0.01, 7}};
  m.cpu = {{900e9, 0.01, 7}, {450e9, 0.01, 7}, {3.6e9, 0.01, 7}, {290e9, 0.01, 7}};
  m.disk.sequential = {3.5e9, 0.05, 5};
  m.disk.page_cache = {9e9, 0.05, 5};
  m.nodes = std::move(nodes);
  return m;
}

CpuPart cpu_of(const Machine& m) {
  const test::Folder folder;
  const std::string file = folder.write("rig.toml", rig_toml(m, ""));
  const auto document = TomlDocument::parse(
      "[rig]\nname = \"" + file + "\"\n[model]\nname = \"llama-3.2-1b\"\n", "s.toml");
  REQUIRE(document.ok());
  const auto scenario = make_scenario(*document, Catalogue{test::source_dir()});
  if (!scenario) FAIL(scenario.error().text());
  return scenario->rig.cpu;
}

}  // namespace

TEST_CASE("The kernel's lists are ranges and numbers", "[probe][nodes]") {
  CHECK(numbers_in_list("0-2,8") == std::vector{0, 1, 2, 8});
  CHECK(numbers_in_list("7") == std::vector{7});
  for (const char* bad : {"", "x", "1-", "-1", "3-1", "0-99999999", "1,x", "1-2x", "0x10"}) {
    INFO(bad);
    CHECK(numbers_in_list(bad).empty());
  }
}

TEST_CASE("Memory nodes are those with memory and processors", "[probe][nodes]") {
  const test::Folder folder;
  write_two_sockets(folder);
  const auto nodes = read_host(folder.path()).nodes;
  REQUIRE(nodes.size() == 2);
  CHECK(nodes[0].ids == std::vector{0});
  CHECK(nodes[0].cpus == std::vector{0, 1, 4, 5});
  CHECK(nodes[1].cpus == std::vector{2, 3, 6, 7});
  for (const MemoryNode& node : nodes) CHECK(node.cores == 2);
  CHECK(nodes[0].socket == 0);
  CHECK(nodes[1].socket == 1);
  const test::Folder empty;
  CHECK(read_host(empty.path()).nodes.empty());
}

TEST_CASE("Nodes of a socket that read each other as fast as themselves are one",
          "[probe][nodes]") {
  CHECK(joined(2, 1, 113e9, 0) == 2);
  CHECK(joined(6, 3, 194.8e9, 192.4e9) == 2);  // two Xeon 6 with sub-NUMA clusters: mlc v3.11a
  CHECK(joined(8, 4, 61.4e9, 59.5e9) == 2);    // the same of two Sapphire Rapids
  CHECK(joined(8, 4, 35e9, 20e9) == 8);        // four dies of a socket, with links between them
  CHECK(joined(1, 1, 50e9, 0) == 1);
  CHECK(joined(4, 2, 0, 0) == 4);  // nothing was measured
}

TEST_CASE("A machine of one node has no rates between nodes", "[probe][nodes]") {
  const NodeRates none = measure_nodes({});
  CHECK(none.nodes.empty());
  const NodeRates one = measure_nodes({{{0}, {0}, 1, 0}});
  CHECK(one.nodes.size() == 1);
  CHECK(one.local.n == 0);
  CHECK(one.remote.n == 0);
}

TEST_CASE("A node's own memory is read, or the system refuses", "[probe][nodes]") {
  const auto nodes = read_host().nodes;
  if (nodes.empty()) return;  // the kernel tells of none
  cpu_set_t before, after;
  REQUIRE(::sched_getaffinity(0, sizeof before, &before) == 0);
  const Samples own = dram_read(nodes.front(), nodes.front());
  REQUIRE(::sched_getaffinity(0, sizeof after, &after) == 0);
  CHECK(CPU_EQUAL(&before, &after));
  if (own.n == 0) return;  // as some containers do
  CHECK(own.median > 1e9);
  CHECK(own.median < 1e13);
  const MemoryNode nowhere{{100'000}, nodes.front().cpus, 1, 0};
  CHECK(dram_read(nodes.front(), nowhere).n == 0);
  const MemoryNode nobody{nodes.front().ids, {100'000}, 1, 0};
  CHECK(dram_read(nobody, nodes.front()).n == 0);
}

TEST_CASE("A rig file keeps the rates of memory nodes", "[probe][nodes]") {
  NodeRates rates;
  rates.nodes = {{{0}, {0}, 4, 0}, {{1}, {1}, 4, 1}};
  rates.local = {50e9, 0.01, 7};
  rates.remote = {20e9, 0.02, 7};
  const CpuPart two = cpu_of(machine_with(rates));
  CHECK(two.nodes() == 2);
  REQUIRE(two.node_read);
  CHECK(two.node_read->value.value == Approx(50e9));
  REQUIRE(two.remote_read);
  CHECK(two.remote_read->value.value == Approx(20e9));
  CHECK(two.remote_read->kind == SourceKind::kMeasured);
  CHECK(quality_warnings(machine_with(rates)).empty());
  rates.remote.spread = 0.5;
  CHECK(quality_warnings(machine_with(rates)).size() == 1);

  const CpuPart unknown = cpu_of(machine_with({}));
  CHECK(unknown.nodes() == 1);
  REQUIRE(quality_warnings(machine_with({})).size() == 1);
  CHECK(quality_warnings(machine_with({})).front().find("could not be measured") !=
        std::string::npos);
}
