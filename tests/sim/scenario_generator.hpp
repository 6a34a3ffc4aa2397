#pragma once
// Random scenarios over the catalogue, the same ones for the same seed.

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "perfmodel/memory.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "tests/sim/scenario_fixtures.hpp"

namespace rigcast::fixtures {

class ScenarioGenerator {
 public:
  explicit ScenarioGenerator(unsigned seed) : random_(seed) {}

  /// The next scenario that reads and fits; name() says what it is.
  Scenario next() {
    for (;;) {
      try {
        Scenario s = scenario(draw());
        const Placement p = resolve_placement(s);
        const MemoryPlan plan = plan_memory(s, p, s.workload.last_position() + 1);
        const bool hot = !plan.resident_tokens || *plan.resident_tokens >= s.kv.hot_tokens;
        if (plan.fits() && hot) return s;
      } catch (const std::invalid_argument&) {
        // A combination that the reader refuses, as it should: "llama.cpp has no policy paged".
      }
    }
  }

  std::string name() const {
    std::string out;
    for (const auto& [key, value] : drawn_) out += key + "=" + value + " ";
    return out;
  }

 private:
  using Choices = std::vector<std::string>;

  std::string pick(const Choices& choices) {
    return choices[std::uniform_int_distribution<std::size_t>(0, choices.size() - 1)(random_)];
  }
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }
  void set(std::string key, const Choices& choices) {
    drawn_.emplace_back(std::move(key), pick(choices));
  }

  const Settings& draw() {
    drawn_.clear();
    set("rig.gpu", {"rtx-3060-12gb", "rtx-3090", "rtx-4060-ti-16gb", "rtx-4090", "rtx-5090",
                    "rtx-2080-ti", "gtx-1080-ti", "rx-7900-xtx", "a100-pcie-80gb", "h100-sxm",
                    "rtx-a6000", "t4-16gb", "[\"2xrtx-3090\"]", "[\"2xrtx-3060-12gb\"]"});
    set("rig.cpu", {"ryzen-7-5800x", "core-i7-8700", "core-i9-13900k", "core-i5-12400"});
    set("rig.ram", {"2xddr4-2666:64GiB", "2xddr4-3200:128GiB", "2xddr5-6000:96GiB",
                    "8xddr5-4800:256GiB", "1xddr4-2666:32GiB"});
    set("rig.pcie", {"3x4", "3x16", "4x8", "4x16", "5x16"});
    set("rig.ssd", {"sata-ssd", "samsung-970-evo-plus", "samsung-990-pro", "hdd-7200"});
    set("model.name", {"llama-3.1-8b", "llama-3.2-3b", "mistral-7b-v0.3", "qwen2.5-14b",
                       "gemma-3-12b", "qwen3-30b-a3b", "qwen2.5-32b", "phi-4", "gpt-oss-20b",
                       "mistral-7b-v0.1", "llama-3.1-70b", "tinyllama-1.1b"});
    set("model.quant", {"Q4_K_M", "Q8_0", "F16", "Q6_K", "Q3_K_M", "IQ4_XS"});
    set("placement.gpu_layers", {"\"auto\"", "\"auto\"", "0", "5", "12", "20", "999"});
    set("runtime.name", {"llama.cpp", "rigcast", "rigcast", "transformers"});
    set("kv.policy", {"vram", "vram", "ram", "stream", "paged", "paged", "combined", "spill"});
    set("kv.type_k", {"f16", "q8_0"});
    if (chance(0.3)) set("kv.cold_type", {"q8_0", "q4_0"});
    if (chance(0.3)) set("kv.prefetch", {"false"});
    if (chance(0.2)) set("kv.evict", {"lru"});
    if (chance(0.3)) set("kv.threshold", {"0.5", "0.7", "0.9"});
    if (chance(0.3)) set("placement.decode_device", {"gpu", "cpu"});
    if (drawn_[5].second == "qwen3-30b-a3b" && chance(0.5))
      set("placement.cpu_moe_layers", {"10", "30", "48"});
    set("workload.context", {"2048", "8192", "32768"});
    set("workload.prompt_tokens", {"17", "512", "700", "1500"});
    set("runtime.ubatch", {"128", "512", "2048"});
    set("runtime.flash_attention", {"true", "true", "false"});
    return drawn_;
  }

  std::mt19937 random_;
  Settings drawn_;
};

}  // namespace rigcast::fixtures
