// More of a resource never makes a forecast slower, more tokens never make it faster, and nothing
// is faster than its busiest resource: over random scenarios. Where copies and operations contend,
// a faster link can take RAM away from operations just when they need it: there up to 1 % is let
// through, and reported.
#include <fmt/format.h>

#include <algorithm>

#include "perfmodel/memory.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "sim/decode.hpp"
#include "sim/load.hpp"
#include "sim/prefill.hpp"
#include "tests/catch.hpp"
#include "tests/sim/request_steps.hpp"
#include "tests/sim/scenario_generator.hpp"

using namespace rigcast;
using namespace rigcast::sim;
using fixtures::ScenarioGenerator;
using fixtures::token_step;

namespace {

constexpr double kRounding = 1e-9;
// Times are differences of a clock that runs on through all tests: at a million seconds, doubles
// lie 1e-10 s apart, and a load is a sum of some tens of such differences.
constexpr double kClock = 4e-9;
constexpr double kContention = 0.01;
// Copies that ran ahead are used up while a growing cache makes the link the bottleneck.
constexpr double kLeadUsedUp = 1e-4;

struct Change {
  const char* name;
  void (*apply)(Scenario&);
};

void scale_vram(Scenario& s) {
  for (GpuPart& gpu : s.rig.gpus) gpu.bandwidth.value *= 1.3;
}
void scale_ram(Scenario& s) { s.rig.ram.bandwidth.value *= 1.3; }
void scale_pcie(Scenario& s) {
  for (HostLink& link : s.rig.links)
    for (auto* rate : {&link.h2d, &link.d2h, &link.pageable}) rate->value *= 1.3;
}
void scale_ssd(Scenario& s) { s.rig.ssd.sequential_read.value *= 1.3; }
// All together: with one rate alone a part would have fewer watts for each FLOP/s of the others.
void scale_compute(Scenario& s) {
  for (GpuPart& gpu : s.rig.gpus)
    for (auto* rate : {&gpu.fp16_tensor, &gpu.fp16_tensor_fp16acc, &gpu.int8_tensor, &gpu.fp32})
      if (*rate) (*rate)->value *= 1.3;
}
void scale_power(Scenario& s) {
  for (GpuPart& gpu : s.rig.gpus)
    if (gpu.board_power) gpu.board_power->value *= 1.3;
}
void scale_clock(Scenario& s) {
  if (s.rig.cpu.clock) s.rig.cpu.clock->value *= 1.3;
}

constexpr Change kChanges[] = {{"VRAM bandwidth", scale_vram},
                               {"RAM bandwidth", scale_ram},
                               {"PCI-E", scale_pcie},
                               {"SSD", scale_ssd},
                               {"compute rates", scale_compute},
                               {"board power", scale_power},
                               {"CPU clock", scale_clock}};

// Collects violations that exceed rounding.
class Exceptions {
 public:
  explicit Exceptions(const char* what) : what_(what) {}
  ~Exceptions() {
    if (count_ > 0)
      WARN(what_ << ": " << count_ << " exceptions under contention, the worst "
                 << fmt::format("{:.1e} %", worst_ * 100) << ": " << worst_name_);
  }

  void expect_not_slower(double before, double after, bool contention, const std::string& name) {
    const double loss = after / before - 1;
    if (loss <= kRounding) return;
    if (!contention || loss > kContention) {
      INFO(what_ << ", " << (contention ? "with" : "without") << " contention: " << name);
      CHECK(loss <= (contention ? kContention : kRounding));
    }
    ++count_;
    if (loss <= worst_) return;
    worst_ = loss;
    worst_name_ = name;
  }

 private:
  const char* what_;
  int count_ = 0;
  double worst_ = 0;
  std::string worst_name_;
};

struct Decode {
  Decode(const Scenario& scenario, const Placement& placement)
      : s(scenario), model(s, placement, Fidelity::kFinal) {
    set_machine(s.rig);
  }
  Scenario s;
  DecodeModel model;
};

bool contends(const Scenario& s, const Placement& p, TokenCount cached) {
  const MemoryPlan memory = plan_memory(s, p, s.workload.context);
  return overlaps(token_step(s, p, memory, cached));
}

TokenCount late_position(const Scenario& s) { return s.workload.context - 100; }

}  // namespace

TEST_CASE("no faster part makes decode slower", "[monotone]") {
  ScenarioGenerator generator(1);
  Exceptions exceptions("decode");
  for (int i = 0; i < 300; ++i) {
    const Scenario s = generator.next();
    const Placement p = resolve_placement(s);
    const TokenCount at = late_position(s);
    const double before = Decode(s, p).model.period(at).value;
    for (const Change& change : kChanges) {
      Scenario faster = s;
      change.apply(faster);
      const double after = Decode(faster, p).model.period(at).value;
      exceptions.expect_not_slower(before, after, contends(s, p, at),
                                   fmt::format("{} for {}", change.name, generator.name()));
    }
  }
}

TEST_CASE("no faster part makes prefill or load slower", "[monotone]") {
  ScenarioGenerator generator(2);
  Exceptions exceptions("prefill and load");
  for (int i = 0; i < 60; ++i) {
    const Scenario s = generator.next();
    const Placement p = resolve_placement(s);
    const auto times = [&](const Scenario& given) {
      set_machine(given.rig);
      return std::array{forecast_prefill(given, p, Fidelity::kFinal).total.value,
                        forecast_load(given, p, Start::kCold).total.value,
                        forecast_load(given, p, Start::kWarm).total.value};
    };
    const auto before = times(s);
    const MemoryPlan memory = plan_memory(s, p, s.workload.context);
    const auto steps = fixtures::prompt_steps(s, p, memory);
    const bool prefill_contends = std::ranges::any_of(steps, overlaps);
    for (const Change& change : kChanges) {
      Scenario faster = s;
      change.apply(faster);
      const auto after = times(faster);
      for (std::size_t k = 0; k < before.size(); ++k) {
        if (before[k] == 0) continue;
        const bool contention = k == 0 ? prefill_contends : s.runtime.load.overlap;
        exceptions.expect_not_slower(
            before[k], after[k], contention,
            fmt::format("{} for {} of {}", change.name,
                        std::array{"prefill", "cold load", "warm load"}[k], generator.name()));
      }
    }
  }
}

TEST_CASE("more tokens in the cache never make a token faster", "[monotone]") {
  ScenarioGenerator generator(3);
  Exceptions exceptions("positions");
  for (int i = 0; i < 250; ++i) {
    const Scenario s = generator.next();
    const Placement p = resolve_placement(s);
    Decode decode(s, p);
    double shorter = 0;
    for (const int part : {1, 3, 6, 8}) {
      const TokenCount at = s.workload.context * part / 8;
      const double longer = decode.model.period(at).value;
      if (shorter > 0)
        exceptions.expect_not_slower(longer, shorter, contends(s, p, at),
                                     fmt::format("{} tokens, {}", at, generator.name()));
      shorter = longer;
    }
  }
}

TEST_CASE("a higher context limit never makes a token faster", "[monotone]") {
  ScenarioGenerator generator(4);
  Exceptions exceptions("context limits");
  for (int i = 0; i < 200; ++i) {
    const Scenario s = generator.next();
    const Placement p = resolve_placement(s);
    const TokenCount at = late_position(s);
    Scenario larger = s;
    larger.workload.context *= 2;
    if (!plan_memory(larger, p, larger.workload.context).fits()) continue;
    // What a higher limit moves out of VRAM may there be of a smaller type.
    if (info(s.kv.cold_type).bits_per_weight() < info(s.kv.types.k).bits_per_weight()) continue;
    const double before = Decode(s, p).model.period(at).value;
    const double after = Decode(larger, p).model.period(at).value;
    exceptions.expect_not_slower(after, before, contends(larger, p, at), generator.name());
  }
}

TEST_CASE("no forecast is faster than the closed-form bound", "[monotone]") {
  ScenarioGenerator generator(5);
  for (int i = 0; i < 250; ++i) {
    const Scenario s = generator.next();
    const Placement p = resolve_placement(s);
    CAPTURE(generator.name());
    Decode decode(s, p);
    for (const TokenCount at : {TokenCount{2}, late_position(s)}) {
      const double tolerance = contends(s, p, at) ? kLeadUsedUp : kRounding;
      const Seconds bound = lower_bound(s, token_step(s, p, decode.model.memory(), at));
      CHECK(decode.model.period(at).value >= bound.value * (1 - tolerance));
    }
    if (i % 4 != 0) continue;
    const PrefillForecast prefill = forecast_prefill(s, p, Fidelity::kFinal);
    // Use is summed over the GPUs, which may work on ubatches that follow each other at once.
    const double gpus = double(std::max<std::size_t>(1, s.rig.gpus.size()));
    auto busy = prefill.use.seconds;
    // A prompt's KV may still leave the GPU when its first token is there.
    if (s.kv.policy != KvPolicy::kVram) busy[std::size_t(Resource::kD2h)] = {};
    CHECK(prefill.total.value >= *std::ranges::max_element(busy) / gpus * (1 - kRounding));
    for (const Start start : {Start::kCold, Start::kWarm}) {
      const LoadForecast load = forecast_load(s, p, start);
      const auto& used = load.use.seconds;
      CHECK(load.total.value + kClock >= *std::ranges::max_element(used) * (1 - kRounding));
    }
  }
}
