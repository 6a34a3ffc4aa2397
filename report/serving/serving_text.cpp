#include "report/serving/serving_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text/unit_text.hpp"
#include "report/terminal/text_style.hpp"

namespace rigcast {
namespace {

// Where a server does not keep up, latencies are those of the requests that were simulated: with
// more of them they would grow without an end.
constexpr std::string_view kEndless = "overloaded: waits grow as long as the load goes on";

std::string with_interval(double seconds, const ServingReport& s, double Percentiles::*which,
                          Percentiles ServingFigures::*of) {
  const std::string text = time_text(Seconds{seconds});
  if (!s.fastest || !s.slowest) return text;
  // Users of a slower server ask less often, so that a latency may be lower there.
  const double a = (*s.fastest).*of.*which, b = (*s.slowest).*of.*which;
  const double low = std::min({a, b, seconds}), high = std::max({a, b, seconds});
  const bool waits = of != &ServingFigures::tpot;
  if (waits && s.slowest->state == ServingState::kOverloaded)
    return text + fmt::format(" ({} to overloaded)", time_text(Seconds{low}));
  return text + time_interval_text(Seconds{seconds}, low, high);
}

std::string latency_text(const ServingReport& s, Percentiles ServingFigures::*of) {
  const Percentiles& p = s.figures.*of;
  return fmt::format("{:<29} {:<29} {}", "p50 " + with_interval(p.p50, s, &Percentiles::p50, of),
                     "p95 " + with_interval(p.p95, s, &Percentiles::p95, of),
                     p.p99 ? "p99 " + time_text(Seconds{*p.p99}) : "p99 too few");
}

std::string served_text(const ServingReport& s) {
  const ServingFigures& f = s.figures;
  return fmt::format("{} requests/s   {} of answers, {} of prompts", three_digits(f.requests_per_s),
                     rate_text(f.output_tokens_per_s), rate_text(f.prompt_tokens_per_s));
}

// Of several engines one is simulated: the shares are those of its cache.
std::string cache_text(const ServingFigures& f, int engines) {
  const std::string capacity = text_count(f.cache.capacity);
  const char* whose = engines > 1 ? "each engine's " : "";
  std::string text =
      f.cache.slots
          ? fmt::format("{}{} tokens; {} of the slots in use in the mean, {} at most", whose,
                        capacity, share_text(f.cache.mean), share_text(f.cache.peak))
          : fmt::format("{} full in the mean, {} at most, of {}{} tokens", share_text(f.cache.mean),
                        share_text(f.cache.peak), whose, capacity);
  if (f.cache.hit_rate > 0)
    text += fmt::format("; {} of prompts were in it", share_text(f.cache.hit_rate));
  if (f.cache.preemptions > 0)
    text += fmt::format("; {} preemptions", text_count(f.cache.preemptions));
  return text;
}

// "7.4 GiB; 31 % of prompts were in it; 12.3 GB copied there, 4.2 GB back: 3 % and 1 % of the
// time".
std::string ram_text(const ServingFigures::Cache::Ram& r) {
  const std::string text =
      fmt::format("{}; {} of prompts were in it; {} copied there, {} back", text_gib(r.capacity),
                  share_text(r.hit_rate), text_gib(r.to_ram), text_gib(r.to_gpu));
  if (!r.to_ram_share || !r.to_gpu_share) return text;
  return text + fmt::format(", {} and {} of the time", share_text(*r.to_ram_share),
                            share_text(*r.to_gpu_share));
}

// "32.0 GiB; 31 % of prompts came from there; 12.3 GiB written, 4.2 GiB read".
std::string disk_text(const ServingFigures::Cache::Disk& d) {
  return fmt::format("{}; {} of prompts came from there; {} written, {} read", text_gib(d.capacity),
                     share_text(d.hit_rate), text_gib(d.to_disk), text_gib(d.from_disk));
}

// "from RAM at 9.8 GB/s, from disk at 2.1 GB/s; prompts at 1,200 tok/s: 3,072 tokens computed
// anew".
std::string restore_text(const RestoreFigures& r) {
  std::string text;
  if (r.from_ram) text += fmt::format("from RAM at {}, ", rigcast::text(*r.from_ram));
  if (r.from_disk) text += fmt::format("from disk at {}, ", rigcast::text(*r.from_disk));
  text += fmt::format("prompts are computed at {}", rate_text(r.prompt_tokens_per_s));
  if (r.computed_anew == 0) return text + ": all that was found came back";
  return text + fmt::format(": {} tokens that were found are computed anew, which is faster",
                            text_count(r.computed_anew));
}

}  // namespace

std::string limit_text(const ServingFigures& f) {
  std::string text = fmt::format("busy {} of the time, of which prompts {}", share_text(f.busy),
                                 share_text(f.with_prompts));
  const auto add = [&](const char* what, double share) {
    constexpr double kShown = 0.005;  // else it would be 0 %
    if (share >= kShown) text += fmt::format("; {} {}", what, share_text(share));
  };
  add("requests wait for a slot", f.sequences_full);
  add("for KV cache", f.cache_full);
  add("for a step", f.step_full);
  if (f.cache.ram) add("for copies from and to RAM", f.cache.ram->waits);
  return text;
}

std::string shortened_text(const ServingFigures& f) {
  if (f.shortened == 0) return {};
  return fmt::format(
      "{}{} of {} requests were cut to the context, or ended their conversation because it was "
      "full: a longer --context serves what the load says",
      f.shortened_is_about ? "about " : "", text_count(std::int64_t(f.shortened)),
      text_count(std::int64_t(f.requests)));
}

std::vector<ServingLine> serving_lines(const ServingReport& s, const Slo& slo, int engines) {
  const ServingFigures& f = s.figures;
  std::vector<ServingLine> lines;
  const bool endless = f.state == ServingState::kOverloaded;
  lines.push_back({"first token",
                   endless ? std::string(kEndless) : latency_text(s, &ServingFigures::ttft),
                   {}});
  if (f.tpot.p50 > 0) lines.push_back({"per token", latency_text(s, &ServingFigures::tpot), {}});
  if (!endless) lines.push_back({"answer", latency_text(s, &ServingFigures::e2e), {}});
  if (f.share_in_slo)
    lines.push_back({"within SLO",
                     fmt::format("{} of requests ({})", share_text(*f.share_in_slo), text(slo)),
                     fmt::format("goodput {} requests/s", three_digits(*f.goodput))});
  lines.push_back({"served", served_text(s), std::string(name(f.state))});
  lines.push_back({"at once",
                   fmt::format("{} requests run, {} wait in the mean; at most {} run",
                               three_digits(f.running), three_digits(f.waiting), f.peak_running),
                   {}});
  lines.push_back({"KV cache", cache_text(f, engines), {}});
  if (f.cache.ram && f.cache.ram->to_ram.value + f.cache.ram->to_gpu.value > 0)
    lines.push_back({"KV in RAM", ram_text(*f.cache.ram), {}});
  if (f.cache.disk) lines.push_back({"KV on disk", disk_text(*f.cache.disk), {}});
  if (f.cache.restore && (f.cache.restore->from_ram || f.cache.restore->from_disk))
    lines.push_back({"restored", restore_text(*f.cache.restore), {}});
  if (f.refused > 0)
    lines.push_back({"refused",
                     fmt::format("{} requests find the queue full, and are refused; a forecast "
                                 "serves them all the same",
                                 text_count(std::int64_t(f.refused))),
                     {}});
  lines.push_back({"limit", limit_text(f), {}});
  return lines;
}

}  // namespace rigcast
