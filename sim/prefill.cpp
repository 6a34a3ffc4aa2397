#include "sim/prefill.hpp"

#include <algorithm>
#include <cmath>

#include "perfmodel/cost/operation.hpp"
#include "perfmodel/memory.hpp"
#include "perfmodel/serial_time.hpp"
#include "perfmodel/ubatches.hpp"

namespace rigcast::sim {
namespace {

// Prompts of up to kMaxExactTokens ubatches are simulated completely; longer ones are sampled at
// kSamples ubatches.
constexpr std::int64_t kMaxExactTokens = 12;
constexpr std::int64_t kSamples = 7;

class Prompt {
 public:
  Prompt(const Scenario& s, const Placement& p, Fidelity fidelity)
      : s_(s),
        p_(p),
        memory_(plan_memory(s, p, s.workload.context)),
        grouping_(grouping_of(fidelity)),
        count_(ubatch_count(s)) {}

  // Time from the end of ubatch first - 1 to the end of ubatch last - 1.
  double span(std::int64_t first, std::int64_t last) {
    const std::int64_t from = std::max<std::int64_t>(0, first - 1);
    const std::int64_t to = std::min(count_, last + 1);
    const auto steps = prefill_steps(s_, p_, memory_, grouping_, from, to);
    StepGraph graph(s_, std::ranges::any_of(steps, overlaps));
    std::vector<NodeId> ends;
    for (const Step& step : steps) ends.push_back(graph.append(step, Phase::kPrefill, from));
    graph.run();
    const double end = graph.finish(ends[std::size_t(last - 1 - from)]).value;
    return first == 0 ? end : end - graph.finish(ends[std::size_t(first - 1 - from)]).value;
  }

  // Time of all ubatches: all but the last by sampling, the last simulated.
  double sampled() {
    const std::vector<std::int64_t> at = sampled_ubatches(s_, count_, kSamples);
    std::vector<double> time;
    for (const std::int64_t i : at) time.push_back(span(i, i + 1));
    double sum = time.front();
    for (std::size_t k = 0; k + 1 < at.size(); ++k)
      for (std::int64_t i = at[k] + 1; i <= at[k + 1]; ++i)
        sum += time[k] + (time[k + 1] - time[k]) * double(i - at[k]) / double(at[k + 1] - at[k]);
    return sum + span(count_ - 1, count_);
  }

  double whole() { return span(0, count_); }
  std::int64_t count() const { return count_; }
  const MemoryPlan& memory() const { return memory_; }

  ResourceUse use() const {
    ResourceUse sum;
    const std::int64_t stride = std::max<std::int64_t>(1, count_ / kMaxExactTokens);
    for (std::int64_t i = 0; i < count_; i += stride) {
      const auto step = prefill_steps(s_, p_, memory_, grouping_, i, i + 1);
      ResourceUse use = resource_use(s_, step.front());
      const double weight = double(std::min(stride, count_ - i));
      for (std::size_t r = 0; r < use.seconds.size(); ++r) {
        use.seconds[r] *= weight;
        use.bytes[r] *= weight;
      }
      sum += use;
    }
    return sum;
  }

 private:
  const Scenario& s_;
  const Placement& p_;
  MemoryPlan memory_;
  StepGrouping grouping_;
  std::int64_t count_;
};

// Time that several GPUs save when they work on consecutive ubatches at the same time, in closed
// form: the simulation runs steps one after the other.
Seconds saved_by_pipeline(const Scenario& s, const Placement& p, const Prompt& prompt) {
  if (s.rig.gpus.size() < 2 || prompt.count() < 2) return {};
  // Time grows on a line from the first ubatch to the one before the last, which may be shorter.
  const double count = double(prompt.count());
  const std::pair<std::int64_t, double> weights[] = {
      {0, (count - 1) / 2}, {prompt.count() - 2, (count - 1) / 2}, {prompt.count() - 1, 1.0}};
  std::vector<double> by_device(s.rig.gpus.size());
  for (const auto& [i, weight] : weights) {
    const std::vector<Step> steps = prefill_steps(s, p, prompt.memory(), {}, i, i + 1);
    for (const StepOp& op : steps.front().ops)
      if (op.device != kHost)
        by_device[std::size_t(op.device)] += weight / count * time_alone(s, op).value;
  }
  return pipeline_saving(s, by_device, double(prompt.count()));
}

}  // namespace

std::vector<Step> prefill_steps(const Scenario& s, const Placement& p, const MemoryPlan& memory,
                                StepGrouping grouping, std::int64_t first, std::int64_t last) {
  std::vector<Step> steps;
  const std::int64_t count = ubatch_count(s);
  for (std::int64_t i = first; i < last; ++i) {
    const TokenCount done = i * s.settings.ubatch;
    const TokenCount tokens =
        std::min<TokenCount>(s.settings.ubatch, s.workload.prompt_tokens - done);
    steps.push_back(
        prefill_step(s, p, memory, s.workload.depth + done, tokens, i + 1 == count, grouping));
  }
  return steps;
}

PrefillForecast forecast_prefill(const Scenario& s, const Placement& p, Fidelity fidelity) {
  Prompt prompt(s, p, fidelity);
  const bool whole = fidelity == Fidelity::kExact || prompt.count() <= kMaxExactTokens;
  PrefillForecast out;
  out.total = Seconds{whole ? prompt.whole() : prompt.sampled()} - saved_by_pipeline(s, p, prompt);
  out.sample = s.runtime.decode.sample.value;
  out.use = prompt.use();
  return out;
}

}  // namespace rigcast::sim
