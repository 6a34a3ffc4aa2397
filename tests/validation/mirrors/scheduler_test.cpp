// The engine's scheduler decides as the simulator's does by the same rules.

#include "engine/serve/scheduler.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "sim/serving/serve.hpp"
#include "tests/catch.hpp"

using namespace rigcast;

namespace {

// What each step computes: request and tokens, in their order.
struct Schedule {
  std::vector<std::vector<std::pair<std::size_t, TokenCount>>> steps;
  std::vector<std::size_t> preempted;
  TokenCount hits = 0, host_hits = 0, disk_hits = 0;
  std::int64_t computed_anew = 0;  // of what was found, by measured rates
};

// Bytes a second by which both decide what comes back; of prompts each measures its own.
struct TierRates {
  double from_ram = 1, from_disk = 1;
};

// "3:12 5:1": 12 tokens of request 3, and one of request 5.
std::vector<std::string> texts_of(const Schedule& schedule) {
  std::vector<std::string> out;
  for (const auto& step : schedule.steps) {
    std::string& text = out.emplace_back();
    for (const auto& [request, tokens] : step) text += fmt::format(" {}:{}", request, tokens);
  }
  return out;
}

constexpr std::size_t kBlocks = 40, kHostBlocks = 60, kDiskBlocks = 110;

// All at once, some of which begin like others.
std::vector<ServedRequest> random_load(std::mt19937& random, std::size_t requests) {
  std::vector<ServedRequest> load;
  for (std::size_t i = 0; i < requests; ++i) {
    ServedRequest r{{}, TokenCount(1 + random() % 90), TokenCount(1 + random() % 40), {}, 0};
    if (i > 0 && random() % 3 == 0) {
      const std::size_t before = random() % i;
      r.continues = before;
      r.shared = TokenCount(1 + random() % std::size_t(load[before].prompt));
      r.prompt = r.shared + TokenCount(1 + random() % 30);
    }
    load.push_back(r);
  }
  return load;
}

class ScheduleWatch : public ServingWatch {
 public:
  void arrived(RequestId, Seconds) override {}
  void loads(RequestId, Seconds) override {}
  void scheduled(RequestId, Seconds, std::optional<std::size_t>) override {}
  void computed(const ComputedPart& part) override {
    if (out.steps.empty() || part.begin != last_) out.steps.emplace_back();
    last_ = part.begin;
    out.steps.back().push_back({part.request, part.tokens});
  }
  void preempted(RequestId request, Seconds) override { out.preempted.push_back(request); }
  void ended(RequestId, Seconds) override {}
  void copied(CopyDirection, Seconds, Seconds, Bytes) override {}
  void levels(Seconds, std::size_t, std::size_t, std::size_t) override {}
  Schedule out;

 private:
  Seconds last_{};
};

// Copies take no time, so that both know at once what is back.
RamTier tier_of(const SchedulerPolicy& policy, const TierRates& rates) {
  RamTier tier;
  tier.capacity = policy.ram_cache;
  tier.disk = policy.disk_cache;
  tier.bytes_of = [](TokenCount tokens) { return Bytes{double(tokens)}; };
  tier.to_ram = tier.to_gpu = tier.from_disk = BytesPerSecond{1e300};
  tier.restore = {policy.restore, BytesPerSecond{rates.from_ram}, BytesPerSecond{rates.from_disk}};
  return tier;
}

Schedule simulated(const std::vector<ServedRequest>& load, const SchedulerPolicy& policy,
                   const TierRates& rates) {
  ScheduleWatch watch;
  const auto run = serve(
      load, policy, TokenCount(kBlocks) * policy.block_tokens,
      [](const StepWork&) { return sim::StepUse{Seconds{1}}; }, tier_of(policy, rates), &watch);
  if (!run) FAIL(run.error().text());
  for (const ServedTimes& t : run->requests) {
    watch.out.hits += t.hit;
    watch.out.host_hits += t.ram_hit;
    watch.out.disk_hits += t.disk_hit;
  }
  if (run->restore) watch.out.computed_anew = run->restore->computed_anew;
  return watch.out;
}

// Prompts of the load, of which two have in common what it says.
std::vector<std::vector<std::int32_t>> prompts_of(const std::vector<ServedRequest>& load) {
  std::vector<std::vector<std::int32_t>> out;
  std::int32_t next = 0;
  for (const ServedRequest& r : load) {
    std::vector<std::int32_t> ids;
    if (r.continues)
      ids.assign(out[*r.continues].begin(), out[*r.continues].begin() + std::ptrdiff_t(r.shared));
    while (TokenCount(ids.size()) < r.prompt) ids.push_back(next++);
    out.push_back(ids);
  }
  return out;
}

engine::BatchLimits limits_of(const SchedulerPolicy& policy) {
  return {.block_tokens = policy.block_tokens,
          .blocks = int(kBlocks),
          .host_blocks = policy.ram_cache.value > 0 ? int(kHostBlocks) : 0,
          .step_tokens = policy.step_tokens,
          .step_sequences = int(policy.sequences)};
}

// The engine's decisions, with steps of a second and copies that take no time.
class Engine {
 public:
  Engine(const std::vector<ServedRequest>& load, const SchedulerPolicy& policy,
         const TierRates& rates)
      : policy_(policy),
        pool_(limits_of(policy), policy.prefix_cache,
              policy.disk_cache.value > 0 ? int(kDiskBlocks) : 0),
        scheduler_(policy, limits_of(policy), pool_, rates_, Bytes{double(policy.block_tokens)}) {
    rates_.copied(engine::KvTier::kHost, Bytes{rates.from_ram}, Seconds{1});
    rates_.copied(engine::KvTier::kDisk, Bytes{rates.from_disk}, Seconds{1});
    rates_.computed(policy.step_tokens, Seconds{1});
    const auto prompts = prompts_of(load);
    for (std::size_t i = 0; i < load.size(); ++i) {
      sequences_.push_back(std::make_unique<engine::Sequence>(
          i, engine::CompletionRequest{prompts[i], load[i].output}));
      scheduler_.arrive(*sequences_.back());
    }
  }

  Schedule run() {
    while (scheduler_.running() + scheduler_.waiting() > 0) {
      for (engine::Sequence* s : std::exchange(restoring_, {})) scheduler_.end_disk_load(*s, true);
      const engine::StepPlan& plan = scheduler_.plan();
      note(plan);
      if (!plan.parts.empty()) step(plan);
    }
    CHECK(pool_.free_blocks() == pool_.blocks());
    CHECK(pool_.contradiction({}) == "");
    return std::move(out_);
  }

 private:
  void note(const engine::StepPlan& plan) {
    for (const auto& load : plan.loads)
      if (!load.copies.from_disk.empty()) restoring_.push_back(load.sequence);
    for (const auto& p : plan.preempted) out_.preempted.push_back(p.sequence->id);
    for (engine::Sequence* s : plan.admitted) {
      if (policy_.restore == KvRestore::kAuto) out_.computed_anew += s->left_in_tiers;
      if (s->was_scheduled) continue;
      s->was_scheduled = true;
      out_.hits += s->found_here;
      out_.host_hits += s->found_on_host;
      out_.disk_hits += s->found_on_disk;
    }
  }

  void step(const engine::StepPlan& plan) {
    auto& step = out_.steps.emplace_back();
    TokenCount of_prompts = 0;
    for (const auto& [s, tokens] : plan.parts)
      of_prompts += tokens > 1 || s->generated() == 0 ? tokens : 0;
    if (2 * of_prompts >= policy_.step_tokens) rates_.computed(of_prompts, Seconds{1});
    for (const auto& [s, tokens] : plan.parts) {
      step.push_back({s->id, tokens});
      s->computed += tokens;
      const bool ends = s->computed == s->known();
      if (ends) s->tokens.push_back(answer_++);
      for (const auto& copy : pool_.hold(s->own, s->computed_tokens()).to_disk)
        pool_.written(copy.to);
      if (ends && s->generated() == s->request.max_tokens) scheduler_.remove(*s);
    }
  }

  const SchedulerPolicy policy_;
  engine::RestoreRates rates_;
  engine::KvPool pool_;
  engine::Scheduler scheduler_;
  std::vector<std::unique_ptr<engine::Sequence>> sequences_;
  std::vector<engine::Sequence*> restoring_;
  std::int32_t answer_ = 1'000'000;  // tokens of answers are in no prompt
  Schedule out_;
};

}  // namespace

TEST_CASE("The engine's scheduler decides as the simulator's", "[validation][mirror]") {
  std::mt19937 random(2);
  SchedulerPolicy policy;
  policy.block_tokens = 4;
  policy.step_tokens = 32;
  policy.sequences = 6;
  policy.shares_in_step = false;
  std::size_t preempted = 0, hits = 0, host_hits = 0, disk_hits = 0, anew = 0;
  for (int i = 0; i < 60; ++i) {
    CAPTURE(i);
    policy.reserve = i % 3 == 0   ? KvReserve::kPrompt
                     : i % 3 == 1 ? KvReserve::kStep
                                  : KvReserve::kAnswers;
    policy.victim = i % 4 < 2 ? Victim::kLastAdmitted : Victim::kFewestGenerated;
    policy.requeue = i % 8 < 4 ? Requeue::kFirst : Requeue::kLast;
    policy.prefix_cache = i % 5 != 0;
    // Who reserves a step's tokens alone may find room when what it shares has left the pool for
    // RAM, which is between two decisions of the simulator.
    const bool has_host = i % 2 == 1 && policy.reserve != KvReserve::kStep;
    policy.ram_cache = has_host ? Bytes{double(kHostBlocks) * 4} : Bytes{};
    const bool has_disk = i % 4 >= 2 && policy.reserve != KvReserve::kStep;
    policy.disk_cache = has_disk ? Bytes{double(kDiskBlocks) * 4} : Bytes{};
    policy.restore = i % 7 < 4    ? KvRestore::kAuto
                     : i % 7 == 6 ? KvRestore::kRecompute
                                  : KvRestore::kAlways;
    // Prompts take an eighth of a second a block of four bytes where steps are full.
    const auto load = random_load(random, 24);
    const TierRates rates{4 / (0.02 + 0.0071 * double(i % 31)),
                          4 / (0.05 + 0.0093 * double(i % 37))};
    const Schedule forecast = simulated(load, policy, rates);
    const Schedule run = Engine(load, policy, rates).run();
    CHECK(forecast.preempted == run.preempted);
    CHECK(forecast.hits == run.hits);
    CHECK(forecast.host_hits == run.host_hits);
    CHECK(forecast.disk_hits == run.disk_hits);
    CHECK(forecast.computed_anew == run.computed_anew);
    REQUIRE(texts_of(forecast) == texts_of(run));
    if (policy.reserve == KvReserve::kAnswers) CHECK(run.preempted.empty());
    preempted += run.preempted.size();
    hits += std::size_t(run.hits);
    host_hits += std::size_t(run.host_hits);
    disk_hits += std::size_t(run.disk_hits);
    anew += std::size_t(run.computed_anew);
  }
  CHECK(preempted > 100);
  CHECK(hits > 1000);
  CHECK(host_hits > 100);
  CHECK(disk_hits > 100);
  CHECK(anew > 100);
}
