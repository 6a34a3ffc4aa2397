#include "perfmodel/cost/kernel_cost.hpp"

#include "perfmodel/cost/correction.hpp"

namespace rigcast {

// Where grouped queries are expanded, K and V are read, written once for every query head, and read
// again.
double cache_bytes(const StepContext& s, const OpTraffic& t) {
  const double kv = t.kv_read_bytes + t.kv_write_bytes;
  if (!s.runtime.decode.expands_kv) return kv;
  return kv + 2.0 * (double(s.model.heads) / s.model.kv_heads) * t.kv_read_bytes;
}

OpCost corrected(const StepContext& s, OpCost cost, TokenCount tokens) {
  const double speed = device_speed(s, tokens);
  cost.overhead = cost.overhead / speed;
  cost.serial = cost.serial / speed;
  cost.compute = cost.compute / speed;
  cost.equivalent_bytes = cost.equivalent_bytes / speed;
  return cost;
}

}  // namespace rigcast
