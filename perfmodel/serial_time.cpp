#include "perfmodel/serial_time.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "perfmodel/memory.hpp"

namespace rigcast {
namespace {

// Of a longer prompt, so many ubatches are timed; between them time grows on a straight line.
constexpr std::int64_t kTimedUbatches = 5;
// Of a longer answer, only some tokens.
constexpr TokenCount kTimedCells = 4;

}  // namespace

SerialForecast::SerialForecast(const Scenario& scenario)
    : s_(scenario),
      placement_(resolve_placement(s_)),
      memory_(plan_memory(s_, placement_, s_.workload.context)) {
  const std::vector<int> alike = alike_layers(s_, placement_);
  std::map<int, int> count;
  for (const int l : alike) ++count[l];
  classes_.assign(count.begin(), count.end());
  plan_tokens();
  plan_ubatches();
}

SerialForecast::Handoffs SerialForecast::count_handoffs(const Step& step) const {
  Handoffs sum;
  for (const StepOp& op : step.ops) {
    if (op.handoffs <= 0) continue;
    const bool gpus = op.from != kHost && op.device != kHost;
    (gpus ? sum.gpu : sum.host) += op.handoffs;
    if (op.handoff_bytes.value <= 0 || s_.rig.unified()) continue;
    if (op.from != kHost)
      sum.copies += op.handoff_bytes / s_.rig.links[std::size_t(op.from)].d2h.value;
    if (op.device != kHost)
      sum.copies += op.handoff_bytes / s_.rig.links[std::size_t(op.device)].h2d.value;
  }
  if (step.logits.value > 0)
    sum.copies += step.logits / s_.rig.links[std::size_t(step.logits_from)].d2h.value;
  return sum;
}

Seconds SerialForecast::time_of(const Handoffs& h) const {
  return s_.runtime.decode.crossing.value * h.host + s_.runtime.decode.gpu_crossing.value * h.gpu +
         h.copies;
}

SerialForecast::Pass SerialForecast::pass(Phase phase, BatchShape batch, bool last,
                                          double weight) const {
  Pass pass;
  pass.weight = weight;
  pass.samples = last;
  for (const auto& [layer, count] : classes_)
    for (StepOp& op : layer_operations(s_, placement_, memory_, batch, phase, layer))
      pass.items.push_back({std::move(op), batch.tokens, double(count)});
  if (!last) return pass;
  const bool decode = phase == Phase::kDecode;
  const bool all_rows = !decode && s_.runtime.memory.logits == LogitsRows::kPrompt;
  const TokenCount rows = all_rows ? batch.tokens : 1;
  const DeviceIndex device = decode ? placement_.head_on : placement_.head;
  pass.items.push_back(
      {head_operation(s_, placement_, memory_, batch, phase, device, rows), rows, 1.0});
  return pass;
}

Seconds SerialForecast::time_of(const Item& item) const {
  const StepOp& op = item.op;
  const OpCost cost = operation_cost(s_, op.device, op.traffic, item.tokens, op.launches);
  Seconds t = time_alone(s_, cost, op.device);
  if (op.fetch) {
    const HostLink& link = s_.rig.links[std::size_t(op.device)];
    // What came with the weights is cache, which is not in a mapped file.
    const bool weights = op.fetch->kind == ActivityKind::kFetchWeights;
    const Bytes of_weights{weights ? op.traffic.weight_bytes() : 0.0};
    const Bytes charged = charged_weights(s_, of_weights, op.fetch->mapped) +
                          (op.fetch->bytes - of_weights) / s_.runtime.decode.stream_share.value;
    t += op.fetch->start + charged / (op.fetch->pageable ? link.pageable : link.h2d).value;
  }
  if (op.host_part) t = std::max(t, time_alone(s_, *op.host_part, kHost));
  return t * item.count;
}

Seconds SerialForecast::time_of(const Pass& pass, std::vector<double>* by_device) const {
  Seconds t = s_.runtime.decode.token.value + time_of(pass.handoffs);
  if (pass.samples) t += s_.runtime.decode.sample.value;
  for (const Item& item : pass.items) {
    const Seconds one = time_of(item);
    if (by_device && item.op.device != kHost)
      (*by_device)[std::size_t(item.op.device)] += pass.weight * one.value;
    t += one;
  }
  return t;
}

Seconds SerialForecast::token(TokenCount cached) const {
  const BatchShape batch{cached - 1, 1, s_.runtime.memory.kv_padding};
  Pass one = pass(Phase::kDecode, batch, true, 1.0);
  one.handoffs = tokens_.front().handoffs;
  return time_of(one, nullptr);
}

void SerialForecast::plan_tokens() {
  const TokenCount first = s_.workload.depth + s_.workload.prompt_tokens + 1;
  const TokenCount last = std::max(first, s_.workload.last_position());
  const auto add = [&](TokenCount cached, double weight) {
    const BatchShape batch{cached - 1, 1, s_.runtime.memory.kv_padding};
    tokens_.push_back(pass(Phase::kDecode, batch, true, weight));
    tokens_.back().handoffs = count_handoffs(decode_step(s_, placement_, memory_, cached));
  };
  // Within a cell of the cache reads are constant; products grow a little, on a straight line.
  const TokenCount cell = s_.runtime.memory.kv_padding;
  if ((last - 1) / cell - (first - 1) / cell < kTimedCells) {
    for (TokenCount at = first; at <= last;) {
      const TokenCount end = std::min(last, ((at - 1) / cell + 1) * cell);
      add((at + end) / 2, double(end - at + 1) / double(last - first + 1));
      at = end + 1;
    }
    return;
  }
  // Close to a straight line in the position, with a bend where reading overtakes computing.
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
  const TokenCount prompt = s_.workload.prompt_tokens;
  const TokenCount size = std::min<TokenCount>(s_.settings.ubatch, prompt);
  const std::int64_t count = (prompt + size - 1) / size;
  const auto add = [&](std::int64_t index, double weight) {
    const TokenCount done = index * size, cached = s_.workload.depth + done;
    const TokenCount tokens = std::min(size, prompt - done);
    const bool last = index + 1 == count;
    const BatchShape batch{cached, tokens, s_.runtime.memory.kv_padding};
    ubatches_.push_back(pass(Phase::kPrefill, batch, last, weight));
    ubatches_.back().handoffs =
        count_handoffs(prefill_step(s_, placement_, memory_, cached, tokens, last));
  };
  // All but the last, which has the head and may be shorter.
  const std::int64_t most = std::min(count - 1, kTimedUbatches);
  std::set<std::int64_t> at;
  for (std::int64_t k = 0; k < most; ++k)
    at.insert(count - 1 <= kTimedUbatches ? k : (count - 2) * k / (kTimedUbatches - 1));
  // A window that fills up bends the line.
  if (s_.model.window && count - 1 > kTimedUbatches) {
    const std::int64_t full = (s_.model.window->tokens - s_.workload.depth) / size;
    for (const std::int64_t i : {full - 1, full, full + 1})
      if (i > 0 && i < count - 2) at.insert(i);
  }
  // What a straight line between two of them gives those in between.
  for (auto it = at.begin(); it != at.end(); ++it) {
    double weight = it == at.begin() ? 1.0 : double(*it - *std::prev(it) + 1) / 2.0;
    if (std::next(it) != at.end()) weight += double(*std::next(it) - *it - 1) / 2.0;
    add(*it, weight);
  }
  add(count - 1, 1.0);
}

Seconds SerialForecast::prompt() const {
  std::vector<double> by_device(s_.rig.gpus.size());
  Seconds sum;
  double count = 0;
  for (const Pass& p : ubatches_) {
    sum += time_of(p, &by_device) * p.weight;
    count += p.weight;
  }
  for (double& seconds : by_device) seconds /= std::max(count, 1.0);
  return sum - pipeline_saving(s_, by_device, count);
}

Seconds pipeline_saving(const Scenario& s, const std::vector<double>& by_device, double ubatches) {
  if (by_device.size() < 2 || ubatches < 2) return {};
  const double all = std::accumulate(by_device.begin(), by_device.end(), 0.0);
  const double busiest = *std::ranges::max_element(by_device);
  return Seconds{s.runtime.batch.pipeline.value * (ubatches - 1.0) * (all - busiest)};
}

}  // namespace rigcast
