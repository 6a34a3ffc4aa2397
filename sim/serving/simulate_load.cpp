#include "sim/serving/simulate_load.hpp"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "perfmodel/memory.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "report/report_words.hpp"
#include "sim/serving/offered_load.hpp"
#include "sim/serving/serving_figures.hpp"

namespace rigcast {
namespace {

// Requests reach the scheduler when the server has read them.
class AcceptedRequests : public Arrivals {
 public:
  AcceptedRequests(Arrivals& sent, Seconds reading) : sent_(sent), reading_(reading) {}
  [[nodiscard]] std::optional<Seconds> next() const override {
    const auto sent = sent_.next();
    return sent ? std::optional(*sent + reading_) : std::nullopt;
  }
  ServedRequest take() override {
    ServedRequest request = sent_.take();
    request.arrival += reading_;
    return request;
  }
  void ended(std::size_t request, Seconds at) override { sent_.ended(request, at); }

 private:
  Arrivals& sent_;
  Seconds reading_;
};

}  // namespace

Result<LoadSimulation> LoadSimulation::make(const Scenario& s) {
  if (!s.runtime.server || !s.scheduler)
    return bad_input(fmt::format("{} serves one request at a time", s.runtime.name),
                     "choose --runtime llama.cpp");
  Placement placement = resolve_placement(s);
  MemoryPlan memory = plan_memory(s, placement, s.workload.context);
  if (!memory.fits())
    return Error{ErrorKind::kDoesNotFit, shortage_text(memory),
                 "fewer slots (--set scheduler.slots=N), a shorter --context, a smaller --kv-type "
                 "or --quant"};
  const TokenCount tokens = TokenCount(s.scheduler->sequences) * s.workload.context;
  return LoadSimulation(s, std::move(placement), std::move(memory), tokens);
}

LoadSimulation::LoadSimulation(const Scenario& s, Placement placement, MemoryPlan memory,
                               TokenCount cache_tokens)
    : scenario_(&s),
      placement_(std::move(placement)),
      memory_(std::move(memory)),
      cache_tokens_(cache_tokens),
      cost_(s, placement_, memory_) {
  const Regime regime = regime_of(s, placement_);
  decode_ = profile_interval(s, SpeedMetric::kDecode, regime);
  prompt_ = profile_interval(s, SpeedMetric::kPrefill, regime);
}

Result<ServingFigures> LoadSimulation::figures(const Load& load, MachineSpeed speed) {
  const Scenario& s = *scenario_;
  const auto offered = offer(load, s.workload.context);
  if (!offered) return offered.error();
  const Seconds reading = s.runtime.server->request.value;
  AcceptedRequests accepted(**offered, reading);
  const auto share = [speed](const ProfileInterval& interval) {
    if (speed == MachineSpeed::kForecast) return 1.0;
    return speed == MachineSpeed::kFastest ? interval.high : interval.low;
  };
  const double decodes = 1 / share(decode_), prompts = 1 / share(prompt_);
  const StepTime time = [&](const StepWork& work) {
    return cost_(work) * (work.prompts.empty() ? decodes : prompts);
  };
  const auto run = serve(accepted, *s.scheduler, cache_tokens_, time);
  if (!run) return run.error();
  if (run->load.empty())
    return bad_input("no request arrives", "a longer duration, or a higher rate");
  const bool slots = s.scheduler->layout == KvLayout::kSlots;
  const std::size_t units =
      slots ? s.scheduler->sequences : std::size_t(cache_tokens_ / s.scheduler->block_tokens);
  return figures_of({.run = *run,
                     .cache_tokens = cache_tokens_,
                     .cache_units = units,
                     .before_scheduling = reading,
                     .is_open = load.is_open() && load.arrival != ArrivalProcess::kBurst,
                     .slo = load.slo});
}

Result<ServingReport> LoadSimulation::report(const Load& load) {
  auto forecast = figures(load);
  if (!forecast) return forecast.error();
  ServingReport out{text(load), *std::move(forecast), {}, {}};
  if (auto fastest = figures(load, MachineSpeed::kFastest)) out.fastest = *std::move(fastest);
  if (auto slowest = figures(load, MachineSpeed::kSlowest)) out.slowest = *std::move(slowest);
  return out;
}

}  // namespace rigcast
