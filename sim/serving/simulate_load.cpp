#include "sim/serving/simulate_load.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/text/unit_text.hpp"
#include "load/offered_load.hpp"
#include "perfmodel/memory.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "report/report_words.hpp"
#include "sim/serving/scenario_ram.hpp"
#include "sim/serving/scenario_room.hpp"

namespace rigcast {
namespace {

// Requests reach the scheduler when the server has read them.
class AcceptedRequests : public Arrivals {
 public:
  AcceptedRequests(Arrivals& sent, Seconds reading, const LoadSimulation::Watch& watch)
      : sent_(sent), reading_(reading), watch_(watch) {}
  [[nodiscard]] std::optional<Seconds> next() const override {
    const auto sent = sent_.next();
    return sent ? std::optional(*sent + reading_) : std::nullopt;
  }
  ServedRequest take() override {
    ServedRequest request = sent_.take();
    request.arrival += reading_;
    if (watch_) watch_(++taken_);
    return request;
  }
  void ended(std::size_t request, Seconds at) override { sent_.ended(request, at); }

 private:
  Arrivals& sent_;
  Seconds reading_;
  const LoadSimulation::Watch& watch_;
  std::size_t taken_ = 0;
};

// As many requests as it takes until what runs and waits is what would run and wait later, too: ten
// of each user; of an open load eight times as many as run at once, and all that arrive while three
// conversations of the mean length go on.
Load long_enough(Load load, const SchedulerPolicy& policy) {
  if (load.arrival == ArrivalProcess::kBurst || load.arrival == ArrivalProcess::kTrace) return load;
  constexpr std::int64_t kOfUser = 10, kOfSequence = 8;
  constexpr double kConversations = 3;
  if (!load.is_open()) {
    load.requests = std::max(load.requests, kOfUser * load.users);
    return load;
  }
  const double conversation = load.think_time.value.value * load.turns.value;  // seconds
  const auto meanwhile = std::int64_t(std::min(1e6, kConversations * conversation * load.rate));
  load.requests =
      std::max({load.requests, kOfSequence * std::int64_t(policy.sequences), meanwhile});
  return load;
}

// One engine's share of a load, and how many times as much all have. Requests go to the engine with
// the fewest that wait and run (vllm/v1/engine/core_client.py, get_core_engine_for_request()), or
// to one after the other: of users, an engine has as many as another, or one more.
struct EngineShare {
  Load load;
  double times = 1;
};
EngineShare share_of_one(Load load, int engines) {
  if (engines == 1) return {std::move(load)};
  const auto divided = [&](auto amount) { return (amount + engines - 1) / engines; };
  double times = engines;
  if (load.arrival == ArrivalProcess::kBurst) {
    times = double(load.requests) / double(divided(load.requests));
    load.requests = divided(load.requests);
  } else if (!load.is_open()) {
    times = double(load.users) / double(divided(load.users));
    load.users = divided(load.users);
  }
  load.rate /= engines;
  return {std::move(load), times};
}

// The figures of all engines, of one's: those of a cache stay one's.
void multiply(ServingFigures& f, double times, int engines) {
  if (engines == 1) return;
  for (double* figure :
       {&f.requests_per_s, &f.output_tokens_per_s, &f.prompt_tokens_per_s, &f.waiting, &f.running})
    *figure *= times;
  if (f.goodput) *f.goodput *= times;
  const auto scale = [times](auto& count) {
    count = std::decay_t<decltype(count)>(std::llround(double(count) * times));
  };
  scale(f.requests);
  scale(f.left_out);
  scale(f.peak_running);
  scale(f.shortened);
  scale(f.refused);
  scale(f.cache.preemptions);
  scale(f.cache.recomputed_tokens);
  f.shortened_is_about = true;
}

}  // namespace

Result<LoadSimulation> LoadSimulation::make(const Scenario& s) {
  if (!s.runtime.server || !s.scheduler)
    return bad_input(fmt::format("{} serves one request at a time", s.runtime.name),
                     "choose --runtime llama.cpp");
  Placement placement = resolve_placement(s);
  MemoryPlan memory = plan_memory(s, placement, s.workload.context);
  if (!memory.fits())
    return Error{ErrorKind::kDoesNotFit, shortage_text(memory),
                 "fewer --slots, a shorter --context, a smaller --kv-type "
                 "or --quant"};
  const CacheRoom room = cache_room_of(s, placement, memory);
  const TokenCount tokens = tokens_of_long_requests(s, room);
  if (tokens < s.workload.context)
    return Error{ErrorKind::kDoesNotFit,
                 fmt::format("the KV cache has room for {} tokens, a request may have {}",
                             text_count(tokens), text_count(s.workload.context)),
                 "a shorter --context, a smaller --kv-type or --quant"};
  auto ram = ram_tier_of(s, placement, memory.devices.back().free() + memory.ram_cache);
  if (!ram) return ram.error();
  return LoadSimulation(s, std::move(placement), std::move(memory), room, *std::move(ram));
}

LoadSimulation::LoadSimulation(const Scenario& s, Placement placement, MemoryPlan memory,
                               const CacheRoom& room, RamTier ram)
    : scenario_(&s),
      placement_(std::move(placement)),
      memory_(std::move(memory)),
      room_(room),
      ram_(std::move(ram)),
      cost_(s, placement_, memory_) {
  const Regime regime = regime_of(s, placement_);
  decode_ = profile_interval(s, SpeedMetric::kDecode, regime);
  prompt_ = profile_interval(s, SpeedMetric::kPrefill, regime);
}

TokenCount LoadSimulation::cache_tokens() const {
  return tokens_of_long_requests(*scenario_, room_);
}

std::size_t LoadSimulation::cache_units() const {
  const SchedulerPolicy& policy = *scenario_->scheduler;
  return policy.layout == KvLayout::kSlots ? policy.sequences
                                           : std::size_t(room_.tokens / policy.block_tokens);
}

Result<ServingFigures> LoadSimulation::figures(const Load& stated, MachineSpeed speed,
                                               ServingWatch* events) {
  const Scenario& s = *scenario_;
  const int engines = s.placement.groups.data;
  const EngineShare share_of_load = share_of_one(stated, engines);
  const Load load = long_enough(share_of_load.load, *s.scheduler);
  const auto offered = offer(load, s.workload.context, engines);
  if (!offered) return offered.error();
  const Seconds reading = s.runtime.server->request.value;
  AcceptedRequests accepted(**offered, reading, watch_);
  const auto share = [speed](const ProfileInterval& interval) {
    if (speed == MachineSpeed::kForecast) return 1.0;
    return speed == MachineSpeed::kFastest ? interval.high : interval.low;
  };
  const double decodes = 1 / share(decode_), prompts = 1 / share(prompt_);
  Paged paged;
  const StepTime time = [&](const StepWork& work) {
    const sim::StepUse use = cost_(work);
    ++paged.steps;
    if (use.paged.value > 0) ++paged.short_of_memory;
    paged.bytes += use.paged;
    paged.full = paged.full || use.full;
    return use * (work.prompts.empty() ? decodes : prompts);
  };
  const auto run = serve(accepted, *s.scheduler, room_, time, ram_, events);
  if (!run) return run.error();
  if (run->load.empty())
    return bad_input("no request arrives", "a longer duration, or a higher rate");
  const ServedLoad served{.run = *run,
                          .cache_tokens = cache_tokens(),
                          .whole_cache_tokens = tokens_of_short_requests(s, room_),
                          .cache_units = cache_units(),
                          .ram = ram_.capacity,
                          .disk = ram_.disk,
                          .before_scheduling = reading,
                          .is_open = load.is_open() && load.arrival != ArrivalProcess::kBurst,
                          .slots = s.scheduler->layout == KvLayout::kSlots,
                          .shortened = (*offered)->shortened(),
                          .slo = load.slo};
  if (paged.full)
    return Error{
        ErrorKind::kDoesNotFit,
        "memory and swap together are too small for what is served at once: the system ends "
        "the server",
        "more swap or a larger limit, fewer sequences at once, a smaller --kv-type",
        {}};
  if (speed == MachineSpeed::kForecast) paged_ = paged;
  if (served_ && speed == MachineSpeed::kForecast) served_(served);
  ServingFigures figures = figures_of(served);
  // Of a trace, the requests of all engines are known.
  const auto all = (*offered)->all_engines();
  multiply(figures, all ? double(all->requests) / double(run->load.size()) : share_of_load.times,
           engines);
  if (all) {
    figures.shortened = all->shortened;
    figures.shortened_is_about = false;
  }
  return figures;
}

std::string LoadSimulation::paging_note() const {
  if (paged_.short_of_memory == 0) return {};
  const double share = 100 * double(paged_.short_of_memory) / double(paged_.steps);
  return fmt::format(
      "memory is short in {} % of the steps: {} come back for each of these, from the disk or "
      "from swap",
      share < 1 ? "less than 1" : fmt::format("{:.0f}", share),
      text_gb(paged_.bytes / double(paged_.short_of_memory)));
}

Result<ServingReport> LoadSimulation::report(const Load& load, ServingWatch* events) {
  auto forecast = figures(load, MachineSpeed::kForecast, events);
  if (!forecast) return forecast.error();
  ServingReport out{text(load), *std::move(forecast), {}, {}};
  if (auto fastest = figures(load, MachineSpeed::kFastest)) out.fastest = *std::move(fastest);
  if (auto slowest = figures(load, MachineSpeed::kSlowest)) out.slowest = *std::move(slowest);
  return out;
}

}  // namespace rigcast
