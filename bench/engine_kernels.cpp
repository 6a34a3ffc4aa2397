// Speed of the engine's kernels relative to the machine's limits: ratios of one run, and the bars
// for them. For a quiet machine; takes a few minutes and 8 GB.
// Usage: bench_engine_kernels [decode | attention | prefill]      (default: all)
#include <fmt/format.h>

#include <stdexcept>
#include <string_view>
#include <thread>

#include "bench/engine/bars.hpp"
#include "bench/engine/pinned.hpp"

using namespace rigcast;
using namespace rigcast::bench;

namespace {

ModelSpec model(const Catalogue& catalogue, std::string_view name) {
  auto found = catalogue.model(name);
  if (!found) throw std::runtime_error(found.error().text());
  return *std::move(found);
}

void print(const std::vector<Bar>& bars) {
  fmt::print("\n{:<32} {:>11}  {:>5}  {:>5}  {}\n", "bar", "figure", "ratio", "least", "of");
  for (const Bar& b : bars)
    fmt::print("{:<32} {:>11}  {:>5.2f}  {:>5}  {:<42} {}\n", b.name, b.figure, b.ratio,
               b.least > 0 ? fmt::format("{:.2f}", b.least) : "-", b.of,
               b.least == 0        ? ""
               : b.ratio < b.least ? "MISSED"
                                   : "ok");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view only = argc > 1 ? argv[1] : "";
  const Catalogue catalogue(RIGCAST_SOURCE_DIR);
  const ModelSpec small = model(catalogue, "llama-3.2-1b"),
                  large = model(catalogue, "llama-3.1-8b");
  engine::ThreadTeam team(int(std::thread::hardware_concurrency()));
  pin(team);
  fmt::print("{} threads; medians, and the spread of the middle half of n runs\n", team.size());
  std::vector<Bar> bars;
  const auto add = [&](std::string_view name, const auto& measure) {
    if (!only.empty() && only != name) return;
    const std::vector<Bar> more = measure();
    bars.insert(bars.end(), more.begin(), more.end());
  };
  add("decode", [&] { return decode_bars(team, small); });
  add("attention", [&] { return attention_bars(team, {small, large}); });
  add("prefill", [&] { return prefill_bars(team, small); });
  print(bars);
}
