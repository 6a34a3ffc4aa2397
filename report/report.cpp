#include "report/report.hpp"

namespace rigcast {

const std::optional<TtftBreakdown>& Report::ttft() const {
  switch (scenario ? scenario->workload.start : Start::kResident) {
    case Start::kResident: return resident;
    case Start::kWarm: return warm ? warm : cold;
    case Start::kCold: return cold;
  }
  return resident;
}

}  // namespace rigcast
