#include "engine/serve/http/metrics.hpp"

#include <fmt/format.h>

#include <iterator>
#include <string_view>

namespace rigcast::engine {
namespace {

class Page {
 public:
  template <class T>
  void one(std::string_view name, std::string_view type, std::string_view help, T value) {
    begin(name, type, help);
    fmt::format_to(std::back_inserter(text_), "rigcast_{} {}\n", name, value);
  }

  void begin(std::string_view name, std::string_view type, std::string_view help) {
    fmt::format_to(std::back_inserter(text_), "# HELP rigcast_{0} {1}\n# TYPE rigcast_{0} {2}\n",
                   name, help, type);
  }

  template <class K, class V>
  void labelled(std::string_view name, std::string_view label, const K& key, V value) {
    fmt::format_to(std::back_inserter(text_), "rigcast_{}{{{}=\"{}\"}} {}\n", name, label, key,
                   value);
  }

  void histogram(std::string_view name, std::string_view help, const DurationHistogram& durations) {
    begin(name, "histogram", help);
    const std::string bucket = fmt::format("{}_bucket", name);
    for (std::size_t i = 0; i < DurationHistogram::kBounds_s.size(); ++i)
      labelled(bucket, "le", DurationHistogram::kBounds_s[i], durations.up_to()[i]);
    labelled(bucket, "le", "+Inf", durations.count());
    fmt::format_to(std::back_inserter(text_), "rigcast_{0}_sum {1}\nrigcast_{0}_count {2}\n", name,
                   durations.sum().value, durations.count());
  }

  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace

void DurationHistogram::add(Seconds duration, std::uint64_t times) {
  for (std::size_t i = 0; i < kBounds_s.size(); ++i)
    if (duration.value <= kBounds_s[i]) up_to_[i] += times;
  count_ += times;
  sum_.value += duration.value * double(times);
}

std::string metrics_text(const CompletionsState& state, const HttpCounts& http,
                         const TokenDurations& durations) {
  Page page;
  page.one("requests_running", "gauge", "Requests that the engine computes.", state.running);
  page.one("requests_waiting", "gauge", "Requests in the queue.", state.waiting);
  page.one("kv_blocks", "gauge", "Blocks of the KV cache.", state.blocks);
  page.one("kv_blocks_used", "gauge", "Blocks of the KV cache that requests use.",
           state.blocks_used);
  page.one("kv_disk_writes", "gauge", "Blocks that wait to be written to the disk.",
           state.disk_writes);
  page.begin("requests_total", "counter", "Requests by how they ended.");
  page.labelled("requests_total", "outcome", "completed", state.completed);
  page.labelled("requests_total", "outcome", "cancelled", state.cancelled);
  page.labelled("requests_total", "outcome", "failed", state.failed);
  page.labelled("requests_total", "outcome", "refused", state.refused);
  page.one("preemptions_total", "counter", "Requests that gave up their blocks for others.",
           state.preempted);
  page.one("prompt_tokens_total", "counter", "Tokens of prompts.", state.prompt_tokens);
  page.one("cached_prompt_tokens_total", "counter",
           "Tokens of prompts that were found in the cache.", state.cached_prompt_tokens);
  page.one("disk_prompt_tokens_total", "counter",
           "Tokens of prompts that came back from the cache on disk.", state.disk_prompt_tokens);
  page.one("output_tokens_total", "counter", "Tokens of answers.", state.output_tokens);
  page.one("steps_total", "counter", "Steps of the engine.", state.steps);
  page.one("http_connections", "gauge", "Open connections.", http.connections);
  page.begin("http_responses_total", "counter", "Responses by status.");
  for (const auto& [status, count] : http.responses)
    page.labelled("http_responses_total", "code", status, count);
  page.begin("http_dropped_total", "counter", "Connections that ended before their answers.");
  page.labelled("http_dropped_total", "cause", "slow", http.dropped_slow);
  page.labelled("http_dropped_total", "cause", "disconnected", http.dropped_disconnected);
  page.histogram("time_to_first_token_seconds", "From a whole request to its first token.",
                 durations.first);
  page.histogram("inter_token_seconds", "Between the tokens of one answer.", durations.next);
  return page.take();
}

}  // namespace rigcast::engine
