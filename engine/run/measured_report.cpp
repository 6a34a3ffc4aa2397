#include "engine/run/measured_report.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/knee.hpp"
#include "core/base/quantile.hpp"

namespace rigcast::engine {
namespace {

constexpr std::size_t kPositions = 8, kMaxPositions = 64;
constexpr std::size_t kTokensOfPosition = 64;  // tokens per reported position in long outputs

double median_or_zero(const std::vector<double>& values) {
  return values.empty() ? 0 : median(values);
}

std::optional<Interval> range(const std::vector<double>& values) {
  if (values.size() < 2) return std::nullopt;
  const auto [lo, hi] = std::ranges::minmax_element(values);
  return Interval{*lo, *hi};
}

template <class F>
std::vector<double> of_runs(const std::vector<RequestTimes>& runs, F figure) {
  std::vector<double> out;
  for (const RequestTimes& r : runs) out.push_back(figure(r));
  return out;
}

TtftBreakdown breakdown(Seconds load, Seconds tokenize, const RequestTimes& r) {
  return {load, tokenize, {}, r.prefill, r.sample};
}

// The rate at which decoding read one memory.
struct Reading {
  Resource memory = Resource::kRam;
  BytesPerSecond rate, ceiling;

  double share() const { return ceiling.value > 0 ? rate.value / ceiling.value : 0; }
};

// Bytes of host memory: all bytes without a GPU, the host's part with one.
double host_bytes(const MovedBytes& b, bool has_gpu) { return has_gpu ? b.on_host : b.total(); }

Reading reading_of(const MeasuredRuns& runs, Resource memory) {
  const bool has_gpu = !runs.gpus.empty(), host = memory == Resource::kRam;
  const auto rates = of_runs(runs.resident, [&](const RequestTimes& r) {
    const double time = r.tokens.at_s.back() - r.tokens.at_s.front();
    const double on_host = host_bytes(r.decode_bytes, has_gpu);
    return time > 0 ? (host ? on_host : r.decode_bytes.total() - on_host) / time : 0;
  });
  return {memory, BytesPerSecond{median_or_zero(rates)},
          host ? runs.dram_ceiling : runs.vram_ceiling};
}

struct Window {
  std::size_t begin = 0, end = 0;  // gaps between tokens
};

std::vector<Window> windows_of(std::size_t gaps) {
  const std::size_t wanted = std::clamp(gaps / kTokensOfPosition, kPositions, kMaxPositions);
  const std::size_t count = std::min(wanted, gaps);
  std::vector<Window> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back({gaps * i / count, gaps * (i + 1) / count});
  return out;
}

TokenCount middle_of(const Window& window, const Workload& w) {
  return w.depth + w.prompt_tokens + TokenCount((window.begin + window.end) / 2) + 1;
}

// The output in windows of equal length: the median gap of each over all runs, and its range.
void add_positions(Report& report, const MeasuredRuns& runs, Resource bound) {
  const Workload& w = report.scenario->workload;
  std::vector<std::vector<double>> gaps;
  for (const RequestTimes& r : runs.resident) gaps.push_back(token_gaps(r.tokens));
  for (const Window& window : windows_of(gaps.front().size())) {
    const auto [begin, end] = window;
    std::vector<double> all, each;
    for (const auto& own : gaps) {
      const std::vector<double> part(own.begin() + std::ptrdiff_t(std::min(begin, own.size())),
                                     own.begin() + std::ptrdiff_t(std::min(end, own.size())));
      if (part.empty()) continue;
      all.insert(all.end(), part.begin(), part.end());
      each.push_back(1.0 / median_or_zero(part));
    }
    const double gap = median_or_zero(all);
    report.by_position.push_back(
        {middle_of(window, w), 1.0 / gap, Seconds{gap}, bound, range(each)});
  }
}

// The bottleneck of decode: cores are busy unless memory holds them back. One token at a time is
// too little work for a GPU's multipliers: time in which no memory is read is lost between kernels.
Bottleneck decode_bound(const Reading& most, bool has_gpu) {
  constexpr double kBusy = 0.8;  // of the ceiling
  if (has_gpu && most.share() > 0 && most.memory == Resource::kVram)
    return most.share() >= 0.5 ? Bottleneck{most.memory, most.share()}
                               : Bottleneck{Resource::kLaunch, 1 - most.share()};
  if (most.share() >= (has_gpu ? 0.5 : kBusy)) return {most.memory, most.share()};
  return {has_gpu && most.memory == Resource::kVram ? Resource::kGpu : Resource::kCpu, 1.0};
}

// Adds the bottleneck of decode: the memory whose reads took the largest part of the time.
void add_readings(Report& report, const MeasuredRuns& runs) {
  const bool has_gpu = !runs.gpus.empty();
  Reading most = reading_of(runs, has_gpu ? Resource::kVram : Resource::kRam);
  report.utilisation[std::size_t(most.memory)] = most.share();
  if (const Reading host = reading_of(runs, Resource::kRam); has_gpu && host.rate.value > 0) {
    report.utilisation[std::size_t(host.memory)] = host.share();
    if (host.share() > most.share()) most = host;
  }
  report.measured = MeasuredFigures{int(runs.resident.size()), most.rate, most.ceiling};
  report.decode_bound = decode_bound(most, has_gpu);
  report.prefill_bound = {has_gpu ? Resource::kGpu : Resource::kCpu, 1.0};
}

// Adds the fall that begins where blocks of the cache are evicted, if speed falls within the run:
// what it has come to by the run's end.
void add_cliff(Report& report, const std::vector<double>& gaps) {
  const Scenario& s = *report.scenario;
  if (!evicts(s.kv.policy)) return;
  const auto knee = find_knee(gaps, std::size_t(s.kv.block_tokens / 4));
  if (!knee) return;
  Cliff cliff;
  cliff.at_tokens = s.workload.depth + s.workload.prompt_tokens + TokenCount(knee->at) + 1;
  cliff.before_tokens_per_s = 1.0 / knee->before.value;
  cliff.after_tokens_per_s = 1.0 / knee->after.value;
  cliff.until_tokens = s.workload.depth + s.workload.prompt_tokens + TokenCount(gaps.size());
  cliff.cause = "tokens took longer from here on";
  cliff.device = "GPU 0";
  cliff.tier = Tier::kVram;
  report.cliffs.push_back(std::move(cliff));
}

void add_traffic(Report& report, const RequestTimes& run, bool has_gpu) {
  MovedBytes all = run.prefill_bytes;
  all += run.decode_bytes;
  const double host = host_bytes(all, has_gpu);
  const auto add = [&](Resource resource, double bytes) {
    if (bytes > 0) report.traffic_bytes[std::size_t(resource)] = bytes;
  };
  add(Resource::kRam, host);
  add(Resource::kVram, all.total() - host);
  add(Resource::kH2d, all.to_gpu);
  add(Resource::kD2h, all.to_host);
}

}  // namespace

std::vector<TokenCount> reported_positions(const Workload& workload) {
  std::vector<TokenCount> out;
  const auto gaps = std::max<TokenCount>(0, workload.output_tokens - 1);
  for (const Window& window : windows_of(std::size_t(gaps)))
    out.push_back(middle_of(window, workload));
  return out;
}

namespace {

TokenPaging median_paging(const std::vector<TokenPaging>& runs) {
  std::vector<double> disk, swap;
  for (const TokenPaging& p : runs) {
    disk.push_back(p.disk.value);
    swap.push_back(p.swap.value);
  }
  TokenPaging out;
  out.disk = {median_or_zero(disk)};
  out.swap = {median_or_zero(swap)};
  return out;
}

}  // namespace

Report measured_report(std::shared_ptr<const Scenario> scenario, const Placement& placement,
                       const MeasuredRuns& runs) {
  Report report;
  report.origin = Origin::kMeasured;
  report.scenario = std::move(scenario);
  report.placement = placement;
  const double prompt = double(report.scenario->workload.prompt_tokens);

  const auto first = of_runs(
      runs.resident, [](const RequestTimes& r) { return time_to_first_token(r.tokens).value; });
  const auto prefill =
      of_runs(runs.resident, [&](const RequestTimes& r) { return prompt / r.prefill.value; });
  const auto speed =
      of_runs(runs.resident, [](const RequestTimes& r) { return tokens_per_second(r.tokens); });
  // The run of the median first token stands for its parts.
  const auto middle = std::ranges::min_element(runs.resident, {}, [&](const RequestTimes& r) {
    return std::fabs(time_to_first_token(r.tokens).value - median_or_zero(first));
  });
  report.resident = breakdown({}, runs.tokenize, *middle);
  if (runs.warm) report.warm = breakdown(runs.warm->load, runs.warm->tokenize, runs.warm->request);
  if (runs.cold) report.cold = breakdown(runs.cold->load, runs.cold->tokenize, runs.cold->request);
  report.prefill_tokens_per_s = median_or_zero(prefill);
  report.prefill_interval = range(prefill);
  report.decode_tokens_per_s = median_or_zero(speed);
  report.tokens_per_s_interval = range(speed);
  if (report.scenario->workload.start == Start::kResident) report.ttft_interval = range(first);

  std::vector<double> gaps;
  for (const RequestTimes& r : runs.resident)
    for (const double gap : token_gaps(r.tokens)) gaps.push_back(gap);
  report.tpot = summarize(gaps);

  add_readings(report, runs);
  report.measured->token_s = token_gaps(middle->tokens);
  add_cliff(report, report.measured->token_s);
  if (!gaps.empty()) add_positions(report, runs, report.decode_bound.resource);
  add_traffic(report, *middle, !runs.gpus.empty());
  report.memory.devices = runs.gpus;
  report.memory.devices.push_back(runs.host);
  for (const DeviceMemory& d : report.memory.devices)
    report.timeline.push_back({report.scenario->workload.last_position(), d.device, d.total()});
  report.max_context = report.scenario->workload.context;
  if (!runs.paging.empty()) report.paging = median_paging(runs.paging);
  return report;
}

}  // namespace rigcast::engine
