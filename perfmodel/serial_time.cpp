#include "perfmodel/serial_time.hpp"

#include <algorithm>
#include <numeric>

#include "perfmodel/cost/attention_mask.hpp"
#include "perfmodel/cost/last_level_cache.hpp"
#include "perfmodel/memory.hpp"
#include "perfmodel/overlap.hpp"
#include "perfmodel/pressure/paging_time.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "perfmodel/runtimes/runtime_models.hpp"

namespace rigcast {
namespace {

// The number of ubatches of a long prompt that are computed; time in between is interpolated
// linearly.
constexpr std::int64_t kTimedUbatches = 5;
// The number of output tokens of a long answer that are computed.
constexpr TokenCount kTimedCells = 4;

}  // namespace

SerialForecast::LayerClasses::LayerClasses(std::vector<int> alike)
    : first(std::move(alike)), sizes(first.size()) {
  for (const int l : first) ++sizes[std::size_t(l)];
}

SerialForecast::SerialForecast(const Scenario& scenario, const Workload& workload)
    : s_(scenario),
      memory_context_(scenario),
      batches_(scenario, workload),
      output_tokens_(workload.output_tokens),
      placement_(resolve_placement(scenario)),
      memory_(plan_memory(scenario, placement_, scenario.workload.context)),
      token_layers_(alike_layers(s_, placement_, Phase::kDecode)),
      prompt_layers_(alike_layers(s_, placement_, Phase::kPrefill)) {
  plan_tokens(workload);
  plan_ubatches();
}

SerialForecast::Handoffs SerialForecast::count_handoffs(const Step& step) const {
  Handoffs sum;
  for (const StepOp& op : step.ops) {
    if (op.handoffs <= 0) continue;
    const bool between_gpus = op.from != kHost && op.device != kHost;
    (between_gpus ? sum.gpu : sum.host) += op.handoffs;
    sum.copies +=
        handoff_time(s_, op) - crossing_time(s_.runtime, op.from, op.device) * op.handoffs;
  }
  if (step.logits.value > 0) sum.copies += copy_out_time(s_, step.logits_from, step.logits);
  return sum;
}

Seconds SerialForecast::time_of(const Handoffs& h) const {
  return s_.runtime.decode.crossing.value * h.host + s_.runtime.decode.gpu_crossing.value * h.gpu +
         h.copies;
}

SerialForecast::Pass SerialForecast::pass_of(Step step, Phase phase, TokenCount tokens,
                                             double weight) const {
  Pass pass;
  pass.phase = phase;
  pass.tokens = tokens;
  pass.weight = weight;
  pass.handoffs = count_handoffs(step);
  pass.page_in = step.page_in;
  const LayerClasses& classes = phase == Phase::kDecode ? token_layers_ : prompt_layers_;
  for (const StepOp& op : step.ops) {
    const auto layer = std::size_t(op.layer);
    if (op.layer >= 0 && classes.first[layer] != op.layer) continue;
    pass.ops.push_back(op);
    pass.counts.push_back(op.layer < 0 ? 1.0 : classes.sizes[layer]);
  }
  if (std::ranges::any_of(step.ops, &StepOp::prefetches)) pass.overlapping = std::move(step);
  return pass;
}

SerialForecast::Pass SerialForecast::decode_pass(TokenCount cached, double weight) const {
  // Under pressure, what RAM holds depends on how long the cache is.
  const MemoryPlan memory = s_.memory ? plan_memory(memory_context_, placement_, cached) : memory_;
  Pass pass = pass_of(decode_step(s_, placement_, memory, batches_.token(cached)), Phase::kDecode,
                      1, weight);
  pass.mask_pairs = mask_pairs(s_, batches_.token(cached));
  pass.sampled_rows = 1;
  pass.sampled_on = placement_.head_on;
  return pass;
}

SerialForecast::Pass SerialForecast::prefill_pass(std::int64_t ubatch, double weight) const {
  const Batch batch = batches_.ubatch(ubatch);
  const bool last = batches_.is_last(ubatch);
  Pass pass = pass_of(prefill_step(s_, placement_, memory_, batch, last), Phase::kPrefill,
                      batch.tokens(), weight);
  pass.mask_pairs = mask_pairs(s_, batch);
  pass.waits = waits_for_host(pass.ops, batch, Phase::kPrefill);
  if (last) pass.sampled_rows = 1;
  pass.sampled_on = runtime_model(s_.runtime).prompt_head(placement_);
  return pass;
}

std::vector<StepOp> SerialForecast::priced(std::vector<StepOp> ops, Phase phase,
                                           const std::vector<double>& counts) const {
  for (StepOp& op : ops) price(s_, op);
  if (phase == Phase::kDecode) apply_last_level_cache(s_, ops, counts);
  return ops;
}

Seconds SerialForecast::time_of(const Pass& pass, std::vector<double>* by_device,
                                Seconds* by_thread) const {
  const std::vector<StepOp> ops = priced(pass.ops, pass.phase, pass.counts);
  const Seconds mask = mask_time(s_, pass.mask_pairs);
  const Seconds before = pass.waits ? mask : Seconds{};
  const bool ends_prompt = pass.phase == Phase::kPrefill && pass.sampled_rows > 0;
  const Seconds host = host_time(s_, placement_, pass.phase, pass.tokens, 1) +
                       (ends_prompt ? prompt_start(s_) : Seconds{});
  const Seconds beside = pass.waits ? Seconds{} : time_beside_gpus(mask, host, ops, pass.counts);
  if (by_thread) *by_thread += beside * pass.weight;
  Seconds t = host + before + time_of(pass.handoffs) +
              sample_time(s_, pass.sampled_on, pass.sampled_rows) + page_in_time(s_, pass.page_in);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Seconds one = time_alone(s_, ops[i]) * pass.counts[i];
    if (by_device && ops[i].device != kHost)
      (*by_device)[std::size_t(ops[i].device)] += pass.weight * one.value;
    t += one;
  }
  if (!pass.overlapping) return std::max(t, beside);
  Step step = *pass.overlapping;
  step.ops = priced(std::move(step.ops), pass.phase, {});
  step.host_work = host + before;
  step.beside = beside;
  step.sample = sample_time(s_, pass.sampled_on, pass.sampled_rows);
  return pass.first ? first_period(s_, step) : steady_period(s_, step);
}

Seconds SerialForecast::token(TokenCount cached) const {
  return time_of(decode_pass(cached, 1.0), nullptr);
}

void SerialForecast::plan_tokens(const Workload& workload) {
  const TokenCount first = workload.depth + workload.prompt_tokens + 1;
  const TokenCount last = std::max(first, workload.last_position());
  const auto add = [&](TokenCount cached, double weight) {
    tokens_.push_back(decode_pass(cached, weight));
  };
  // Reads are constant within a cell of the cache; products grow a little, and linearly.
  const TokenCount cell = s_.runtime.memory.kv_padding;
  if ((last - 1) / cell - (first - 1) / cell < kTimedCells) {
    for (TokenCount at = first; at <= last;) {
      const TokenCount end = std::min(last, ((at - 1) / cell + 1) * cell);
      add((at + end) / 2, double(end - at + 1) / double(last - first + 1));
      at = end + 1;
    }
    return;
  }
  // Time is nearly linear in the position, with a bend where reading overtakes computing.
  const TokenCount middle = (first + last) / 2;
  add(first, 1.0 / 12);
  add((first + middle) / 2, 4.0 / 12);
  add(middle, 2.0 / 12);
  add((middle + last) / 2, 4.0 / 12);
  add(last, 1.0 / 12);
}

Seconds SerialForecast::mean_token() const {
  Seconds sum;
  for (const Pass& p : tokens_) sum += time_of(p, nullptr) * p.weight;
  return sum;
}

void SerialForecast::plan_ubatches() {
  const auto add = [&](std::int64_t index, double weight) {
    ubatches_.push_back(prefill_pass(index, weight));
    ubatches_.back().first = ubatches_.size() == 1;
  };
  const std::vector<std::int64_t> at = batches_.sampled_ubatches(kTimedUbatches);
  // Linear interpolation weights: each computed ubatch also stands for its neighbours. The first,
  // before which no copy is prefetched, stands for itself.
  for (auto it = at.begin(); it != at.end(); ++it) {
    double weight = it == at.begin() ? 1.0 : double(*it - *std::prev(it) + 1) / 2.0;
    if (std::next(it) != at.end()) weight += double(*std::next(it) - *it - 1) / 2.0;
    const bool first = *it == 0 && weight > 1;
    if (first) add(0, 1.0);
    add(*it, first ? weight - 1 : weight);
  }
  add(batches_.ubatch_count() - 1, 1.0);
}

Seconds SerialForecast::prompt() const {
  std::vector<double> by_device(s_.rig.gpus.size());
  Seconds sum, thread;
  double count = 0;
  for (const Pass& p : ubatches_) {
    sum += time_of(p, &by_device, &thread) * p.weight;
    count += p.weight;
  }
  for (double& seconds : by_device) seconds /= std::max(count, 1.0);
  // One thread prepares the ubatches of all GPUs.
  return std::max(thread, sum - pipeline_saving(s_, by_device, count));
}

Seconds pipeline_saving(const StepContext& s, const std::vector<double>& by_device,
                        double ubatches) {
  if (by_device.size() < 2 || ubatches < 2) return {};
  const double all = std::accumulate(by_device.begin(), by_device.end(), 0.0);
  const double busiest = *std::ranges::max_element(by_device);
  // The stages of a paged server compute the pieces of a prompt so as those of a load.
  const double share = s.placement.groups.pipeline > 1 ? 1.0 : s.runtime.batch.pipeline.value;
  return Seconds{share * (ubatches - 1.0) * (all - busiest)};
}

}  // namespace rigcast
