#include "report/report.hpp"

namespace rigcast {

Report::Report() = default;
Report::Report(const Report&) = default;
Report::Report(Report&&) noexcept = default;
Report& Report::operator=(const Report&) = default;
Report& Report::operator=(Report&&) noexcept = default;
Report::~Report() = default;

const std::optional<TtftBreakdown>& Report::ttft() const {
  switch (scenario ? scenario->workload.start : Start::kResident) {
    case Start::kResident: return resident;
    case Start::kWarm: return warm ? warm : cold;
    case Start::kCold: return cold;
  }
  return resident;
}

}  // namespace rigcast
