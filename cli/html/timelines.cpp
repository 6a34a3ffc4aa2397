#include <memory>
#include <string>
#include <vector>

#include "cli/html/page_output.hpp"
#include "report/html/timeline.hpp"
#include "sim/simulate.hpp"

namespace rigcast::cli {
namespace {

// Empty: there is no such start.
std::string timeline_of(Scenario s, Start start) {
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
  return report.fits && is_there ? timeline_json(events, name(start)) : std::string();
}

}  // namespace

std::vector<std::string> forecast_timelines(const std::shared_ptr<const Scenario>& scenario) {
  std::vector<Start> starts = {scenario->workload.start};
  if (starts.front() != Start::kCold) starts.push_back(Start::kCold);
  std::vector<std::string> out;
  for (const Start start : starts)
    if (std::string timeline = timeline_of(*scenario, start); !timeline.empty())
      out.push_back(std::move(timeline));
  return out;
}

}  // namespace rigcast::cli
