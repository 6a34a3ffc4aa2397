#include "report/serving/request_csv.hpp"

#include <fmt/format.h>

namespace rigcast {

std::string request_csv(const ServedLoad& served) {
  std::string out =
      "request,arrival_s,queued_s,scheduled_s,first_token_s,last_token_s,prompt_tokens,"
      "output_tokens,cached_tokens,ram_tokens,disk_tokens,preemptions\n";
  for (std::size_t i = 0; i < served.run.load.size(); ++i) {
    const ServedRequest& r = served.run.load[i];
    const ServedTimes& t = served.run.requests[i];
    out += fmt::format("{},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f},{},{},{},{},{},{}\n", i + 1,
                       (r.arrival - served.before_scheduling).value, t.queued.value,
                       t.scheduled.value, t.first_token.value, t.last_token.value, r.prompt,
                       r.output, t.hit, t.ram_hit, t.disk_hit, t.preemptions);
  }
  return out;
}

}  // namespace rigcast
