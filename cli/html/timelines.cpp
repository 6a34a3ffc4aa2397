#include <memory>
#include <string>
#include <vector>

#include "cli/html/page_output.hpp"
#include "report/html/timeline.hpp"
#include "sim/simulate.hpp"

namespace rigcast::cli {
namespace {

// Empty: there is no such start.
std::vector<TraceEvent> events_of(Scenario s, Start start) {
  s.workload.start = start;
  sim::SimulateOptions how;
  how.cliffs = false;
  how.positions = {s.workload.depth + s.workload.prompt_tokens};
  std::vector<TraceEvent> events;
  how.trace = &events;
  const Report report = sim::simulate(std::make_shared<const Scenario>(std::move(s)), how);
  const bool is_there = start == Start::kCold   ? report.cold.has_value()
                        : start == Start::kWarm ? report.warm.has_value()
                                                : report.resident.has_value();
  return report.fits && is_there ? events : std::vector<TraceEvent>();
}

void add(std::vector<std::string>& out, const std::vector<TraceEvent>& events,
         std::string_view start) {
  if (std::string timeline = timeline_json(events, start); !timeline.empty())
    out.push_back(std::move(timeline));
}

}  // namespace

std::vector<std::string> timelines_of(const std::vector<TraceEvent>& events, Start start) {
  std::vector<std::string> out;
  add(out, events, name(start));
  add(out, decode_step_of(events), "token");
  return out;
}

std::vector<std::string> forecast_timelines(const std::shared_ptr<const Scenario>& scenario) {
  const Start start = scenario->workload.start;
  const std::vector<TraceEvent> events = events_of(*scenario, start);
  const std::vector<TraceEvent> cold =
      start == Start::kCold ? events : events_of(*scenario, Start::kCold);
  std::vector<std::string> out;
  add(out, events, name(start));
  // A token's step is the same from any start that there is.
  add(out, decode_step_of(events.empty() ? cold : events), "token");
  if (start != Start::kCold) add(out, cold, name(Start::kCold));
  return out;
}

}  // namespace rigcast::cli
