#include "sim/prefill.hpp"

#include <algorithm>
#include <cmath>

#include "perfmodel/cost/operation.hpp"
#include "perfmodel/memory.hpp"
#include "perfmodel/request_batches.hpp"
#include "perfmodel/serial_time.hpp"
#include "sim/step_graph.hpp"

namespace rigcast::sim {
namespace {

// Prompts of up to kMaxExactUbatches ubatches are simulated completely; longer ones are sampled at
// kSamples ubatches.
constexpr std::int64_t kMaxExactUbatches = 12;
constexpr std::int64_t kSamples = 7;

// Under pressure, what RAM holds depends on how long the cache is.
TokenCount cached_by(const Scenario& s) {
  return s.memory ? s.workload.depth + s.workload.prompt_tokens : s.workload.context;
}

class Prompt {
 public:
  Prompt(const Scenario& s, const Placement& p, Fidelity fidelity)
      : s_(s),
        batches_(s, s.workload),
        p_(p),
        memory_(plan_memory(s, p, cached_by(s))),
        grouping_(grouping_of(fidelity)),
        count_(batches_.ubatch_count()) {}

  // Time from the end of ubatch first - 1 to the end of ubatch last - 1.
  double span(std::int64_t first, std::int64_t last) {
    const std::int64_t from = std::max<std::int64_t>(0, first - 1);
    const std::int64_t to = std::min(count_, last + 1);
    std::vector<Step> steps;
    for (std::int64_t i = from; i < to; ++i) steps.push_back(step(i, grouping_));
    StepGraph graph(s_, std::ranges::any_of(steps, overlaps));
    std::vector<NodeId> ends;
    for (const Step& step : steps) ends.push_back(graph.append(step, Phase::kPrefill, from));
    graph.run();
    const double end = graph.finish(ends[std::size_t(last - 1 - from)]).value;
    return first == 0 ? end : end - graph.finish(ends[std::size_t(first - 1 - from)]).value;
  }

  // Time of all ubatches: all but the last by sampling, the last simulated.
  double sampled() {
    const std::vector<std::int64_t> at = batches_.sampled_ubatches(kSamples);
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

  ResourceUse use() const {
    ResourceUse sum;
    const std::int64_t stride = std::max<std::int64_t>(1, count_ / kMaxExactUbatches);
    for (std::int64_t i = 0; i < count_; i += stride) {
      ResourceUse use = resource_use(s_, step(i, grouping_));
      const double weight = double(std::min(stride, count_ - i));
      for (std::size_t r = 0; r < use.seconds.size(); ++r) {
        use.seconds[r] *= weight;
        use.bytes[r] *= weight;
      }
      sum += use;
    }
    return sum;
  }

  // Time that several GPUs save when they work on consecutive ubatches at the same time, in closed
  // form: the simulation runs steps one after the other. Of `total`, the time of the thread that
  // prepares all steps remains.
  Seconds saved_by_pipeline(Seconds total) const {
    if (s_.rig.gpus.size() < 2 || count_ < 2) return {};
    // Time grows on a line from the first ubatch to the one before the last, which may be shorter.
    const double count = double(count_);
    const std::pair<std::int64_t, double> weights[] = {
        {0, (count - 1) / 2}, {count_ - 2, (count - 1) / 2}, {count_ - 1, 1.0}};
    std::vector<double> by_device(s_.rig.gpus.size());
    Seconds thread;
    for (const auto& [i, weight] : weights) {
      const Step one = step(i, {});
      thread += one.beside * weight;
      for (const StepOp& op : one.ops)
        if (op.device != kHost)
          by_device[std::size_t(op.device)] += weight / count * time_alone(s_, op).value;
    }
    return std::min(pipeline_saving(s_, by_device, count), std::max(Seconds{}, total - thread));
  }

 private:
  Step step(std::int64_t ubatch, StepGrouping grouping) const {
    return prefill_step(s_, p_, memory_, batches_.ubatch(ubatch), batches_.is_last(ubatch),
                        grouping);
  }

  const StepContext s_;
  const RequestBatches batches_;
  const Placement& p_;
  MemoryPlan memory_;
  StepGrouping grouping_;
  std::int64_t count_;
};

}  // namespace

PrefillForecast forecast_prefill(const Scenario& s, const Placement& p, Fidelity fidelity) {
  Prompt prompt(s, p, fidelity);
  const bool whole = fidelity == Fidelity::kExact || prompt.count() <= kMaxExactUbatches;
  PrefillForecast out;
  const Seconds one_by_one{whole ? prompt.whole() : prompt.sampled()};
  out.total = one_by_one - prompt.saved_by_pipeline(one_by_one);
  out.sample = s.runtime.decode.sample.value;
  out.use = prompt.use();
  return out;
}

}  // namespace rigcast::sim
