#include "report/serving/serving_figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

namespace rigcast {
namespace {

constexpr std::size_t kForP99 = 1000;

// The smallest value up to which there is this share of them.
double quantile(const std::vector<double>& sorted, double share) {
  const auto rank = std::size_t(std::ceil(share * double(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

Percentiles percentiles_of(const std::vector<double>& values, std::size_t requests) {
  Percentiles p;
  if (values.empty()) return p;
  p.mean = std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
  p.p50 = quantile(values, 0.5);
  p.p90 = quantile(values, 0.9);
  p.p95 = quantile(values, 0.95);
  if (requests >= kForP99) p.p99 = quantile(values, 0.99);
  return p;
}

Percentiles percentiles_of(const GapHistogram& gaps, std::size_t requests) {
  Percentiles p{gaps.mean(), gaps.quantile(0.5), gaps.quantile(0.9), gaps.quantile(0.95), {}};
  if (requests >= kForP99) p.p99 = gaps.quantile(0.99);
  return p;
}

// The number of values to leave out at the beginning, at most half: that which makes the error of
// the mean of the others, of batches of five, the least.
std::size_t warm_up(const std::vector<double>& values) {
  constexpr std::size_t kBatch = 5;
  const std::size_t batches = values.size() / kBatch;
  double sum = 0, squares = 0, least = 0;
  std::size_t best = 0;
  for (std::size_t left = 1; left <= batches; ++left) {
    const std::size_t at = batches - left;
    const double mean = std::accumulate(values.begin() + std::ptrdiff_t(at * kBatch),
                                        values.begin() + std::ptrdiff_t((at + 1) * kBatch), 0.0) /
                        double(kBatch);
    sum += mean;
    squares += mean * mean;
    if (at > batches / 2) continue;
    const double n = double(left);
    const double error = (squares - sum * sum / n) / (n * n);
    if (at == batches / 2 || error <= least) {
      least = error;
      best = at;
    }
  }
  return best * kBatch;
}

// A request's latencies in seconds.
struct Latencies {
  double ttft, e2e;
  std::optional<double> tpot;  // of two tokens or more
};

Latencies latencies_of(const ServedLoad& s, std::size_t id) {
  const ServedRequest& r = s.run.load[id];
  const ServedTimes& t = s.run.requests[id];
  const double before = s.before_scheduling.value - r.arrival.value;
  Latencies l{t.first_token.value + before, t.last_token.value + before, {}};
  if (r.output > 1) l.tpot = (t.last_token - t.first_token).value / double(r.output - 1);
  return l;
}

bool is_within(const Slo& slo, const Latencies& l) {
  const auto meets = [](const std::optional<LatencyLimit>& limit, double seconds) {
    return !limit || seconds <= limit->limit.value;
  };
  return meets(slo.ttft, l.ttft) && meets(slo.e2e, l.e2e) && (!l.tpot || meets(slo.tpot, *l.tpot));
}

struct SloCheck {
  std::string broken;      // the first limit that is not met; empty: none
  double most_of_limit{};  // the highest of the latencies over their limits
};

SloCheck check(const Slo& slo, const std::vector<double>& ttft, const std::vector<double>& tpot,
               const std::vector<double>& e2e, const GapHistogram& gaps) {
  SloCheck out;
  const auto add = [&](const char* metric, const std::optional<LatencyLimit>& limit, auto at) {
    if (!limit) return;
    const double share = at(limit->percentile / 100) / limit->limit.value;
    out.most_of_limit = std::max(out.most_of_limit, share);
    if (share > 1 && out.broken.empty())
      out.broken = fmt::format("{} p{:g}", metric, limit->percentile);
  };
  const auto of = [](const std::vector<double>& sorted) {
    return [&](double share) { return sorted.empty() ? 0.0 : quantile(sorted, share); };
  };
  add("TTFT", slo.ttft, of(ttft));
  if (slo.tpot && tpot.empty() && out.broken.empty())
    out.broken = "TPOT, which answers of one token do not have";
  add("TPOT", slo.tpot, of(tpot));
  add("ITL", slo.itl, [&](double share) { return gaps.quantile(share); });
  add("E2E", slo.e2e, of(e2e));
  return out;
}

void count_tokens(const ServedLoad& s, ServingFigures& f) {
  double prompts = 0, outputs = 0;
  for (const ServedRequest& r : s.run.load) {
    prompts += double(r.prompt);
    outputs += double(r.output);
  }
  const double seconds = f.duration.value;
  f.requests_per_s = double(f.requests) / seconds;
  f.prompt_tokens_per_s = prompts / seconds;
  f.output_tokens_per_s = outputs / seconds;
  double hits = 0;  // at the first admission of each
  for (const ServedTimes& t : s.run.requests) hits += double(t.hit);
  f.cache.hit_rate = hits / prompts;
  f.refused = s.run.beyond_queue;
  f.cache.restore = s.run.restore;
  if (s.disk.value > 0) {
    double disk_hits = 0;
    for (const ServedTimes& t : s.run.requests) disk_hits += double(t.disk_hit);
    f.cache.disk = {s.disk, disk_hits / prompts, s.run.to_disk, s.run.from_disk};
  }
  if (s.ram.value <= 0) return;
  double ram_hits = 0;
  for (const ServedTimes& t : s.run.requests) ram_hits += double(t.ram_hit);
  const auto share_of_time = [&](Seconds busy) {
    return s.run.copies_are_timed ? std::optional(busy.value / seconds) : std::nullopt;
  };
  f.cache.ram = {.capacity = s.ram,
                 .hit_rate = ram_hits / prompts,
                 .to_ram = s.run.to_ram,
                 .to_gpu = s.run.to_gpu,
                 .to_ram_share = share_of_time(s.run.to_ram_busy),
                 .to_gpu_share = share_of_time(s.run.to_gpu_busy),
                 .waits = s.run.copy_full.value / seconds};
}

void average_over_time(const ServedLoad& s, ServingFigures& f) {
  const ServingRun& run = s.run;
  const double seconds = f.duration.value;
  f.waiting = run.waiting / seconds;
  f.running = run.running / seconds;
  f.peak_running = run.peak_running;
  f.busy = run.busy.value / seconds;
  f.with_prompts = run.with_prompts / run.busy;
  f.sequences_full = run.sequences_full.value / seconds;
  f.cache_full = run.cache_full.value / seconds;
  f.step_full = run.step_full.value / seconds;
  f.cache.capacity = s.cache_tokens;
  f.cache.capacity_without_windows = s.whole_cache_tokens;
  f.cache.mean = run.blocks / seconds / double(s.cache_units);
  f.cache.peak = double(run.peak_blocks) / double(s.cache_units);
  f.cache.recomputed_tokens = run.lost_tokens;
  for (const ServedTimes& t : run.requests) f.cache.preemptions += t.preemptions;
}

}  // namespace

ServingState state_of(const ServingRun& run) {
  const std::size_t n = run.load.size();
  std::array<double, 4> waited{};
  std::size_t left_waiting = 0;
  for (std::size_t i = 0; i < n; ++i) {
    waited[4 * i / n] += (run.requests[i].scheduled - run.load[i].arrival).value;
    if (run.requests[i].scheduled > run.load.back().arrival) ++left_waiting;
  }
  const bool rises = std::ranges::is_sorted(waited) && waited[3] > waited[0];
  const bool falls_behind = double(left_waiting) > std::sqrt(double(n));
  if (rises && falls_behind) return ServingState::kOverloaded;
  return falls_behind ? ServingState::kBacklogged : ServingState::kStable;
}

ServingFigures figures_of(const ServedLoad& s) {
  ServingFigures f;
  f.requests = s.run.load.size();
  f.duration = s.run.end - (s.run.load.front().arrival - s.before_scheduling);
  count_tokens(s, f);
  average_over_time(s, f);
  std::vector<Latencies> all;
  std::vector<double> ttft, tpot, e2e;
  for (std::size_t id = 0; id < f.requests; ++id) {
    all.push_back(latencies_of(s, id));
    ttft.push_back(all.back().ttft);
  }
  f.left_out = warm_up(ttft);
  ttft.erase(ttft.begin(), ttft.begin() + std::ptrdiff_t(f.left_out));
  std::size_t within = 0;
  for (std::size_t id = f.left_out; id < f.requests; ++id) {
    e2e.push_back(all[id].e2e);
    if (all[id].tpot) tpot.push_back(*all[id].tpot);
    if (is_within(s.slo, all[id])) ++within;
  }
  const double counted = double(f.requests - f.left_out);
  for (std::vector<double>* values : {&ttft, &tpot, &e2e}) std::ranges::sort(*values);
  f.ttft = percentiles_of(ttft, f.requests);
  f.tpot = percentiles_of(tpot, f.requests);
  f.e2e = percentiles_of(e2e, f.requests);
  f.itl = percentiles_of(s.run.gaps, f.requests);
  if (!s.slo.empty()) {
    // Gaps are of all requests together: which of them a long one belongs to is not kept.
    if (!s.slo.itl) f.share_in_slo = double(within) / counted;
    if (!s.slo.itl) f.goodput = f.requests_per_s * *f.share_in_slo;
    const SloCheck checked = check(s.slo, ttft, tpot, e2e, s.run.gaps);
    f.broken = checked.broken;
    f.most_of_limit = checked.most_of_limit;
  }
  f.shortened = s.shortened;
  f.cache.slots = s.slots;
  constexpr double kOften = 0.5;
  const bool saturated = f.sequences_full + f.cache_full > kOften;
  f.state = s.is_open   ? state_of(s.run)
            : saturated ? ServingState::kSaturated
                        : ServingState::kStable;
  return f;
}

}  // namespace rigcast
