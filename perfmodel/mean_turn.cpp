#include "perfmodel/mean_turn.hpp"

#include "perfmodel/serial_time.hpp"

namespace rigcast {

Seconds mean_turn(const Scenario& s) {
  const Seconds middle = SerialForecast(s).request();
  if (!s.workload.fills_context) return middle;
  const auto turn_at = [&](TokenCount depth) {
    Workload turn = s.workload;
    turn.depth = depth;
    return SerialForecast(s, turn).request();
  };
  return (turn_at(0) + 4.0 * middle + turn_at(2 * s.workload.depth)) / 6.0;
}

}  // namespace rigcast
