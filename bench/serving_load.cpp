// How many requests of a load are simulated in a second of one core, by servers with and without a
// tier in RAM whose copies are flows. CPU times of the process: a table for a quiet machine, not a
// test.
#include <fmt/format.h>

#include <ctime>

#include "core/catalogue/catalogue.hpp"
#include "core/scenario/scenario.hpp"
#include "sim/serving/simulate_load.hpp"

using namespace rigcast;

namespace {

struct Case {
  const char* name;
  const char* scenario;
  double bar;  // requests/s
};

constexpr const char* kAgents =
    "[load]\npreset = \"agent\"\nrate = 10\n[workload]\ncontext = 32768\n"
    "[rig]\nname = \"dual-rtx-3090\"\n[model]\nname = \"llama-3.1-8b\"\n";
constexpr Case kCases[] = {
    {"vLLM on an RTX 4090, chat",
     "[load]\npreset = \"chat\"\nrate = 4\n[workload]\ncontext = 16384\n"
     "[rig]\nname = \"gaming-rtx-4090\"\n[model]\nname = \"llama-3.1-8b\"\nquant = "
     "\"FP8\"\n"
     "[runtime]\nname = \"vllm\"\n",
     5000},
    {"SGLang on 2 x RTX 3090 saturated by agents", "[runtime]\nname = \"sglang\"\n", 300},
    {"the same with 40 GiB of RAM",
     "[runtime]\nname = \"sglang\"\n[scheduler]\nram_cache = \"40 GiB\"\n", 300},
};

double cpu_seconds() { return double(std::clock()) / CLOCKS_PER_SEC; }

Result<double> requests_per_second(const Case& of, const Catalogue& catalogue) {
  std::string text = of.scenario;
  if (text.find("[rig]") == std::string::npos) text = kAgents + text;
  const auto document = TomlDocument::parse(text, "bench/serving_load");
  if (!document) return document.error();
  const auto scenario = make_scenario(*document, catalogue);
  if (!scenario) return scenario.error();
  auto simulation = LoadSimulation::make(*scenario);
  if (!simulation) return simulation.error();
  const double begin = cpu_seconds();
  const auto figures = simulation->figures(*scenario->load);
  if (!figures) return figures.error();
  return double(figures->requests) / (cpu_seconds() - begin);
}

}  // namespace

int main() {
  const Catalogue catalogue(RIGCAST_SOURCE_DIR);
  fmt::print("{:<44} {:>10} {:>10}\n", "requests simulated in a second of a core", "", "bar");
  for (const Case& of : kCases) {
    const auto rate = requests_per_second(of, catalogue);
    if (!rate) {
      fmt::print(stderr, "{}: {}\n", of.name, rate.error().text());
      return 1;
    }
    fmt::print("{:<44} {:>10.0f} {:>10.0f}\n", of.name, *rate, of.bar);
  }
  return 0;
}
