#include "core/hardware/shared_layers.hpp"

namespace rigcast {
namespace {

double others(const SharedLayers& shared) { return double(shared.gpus - 1) / shared.gpus; }

}  // namespace

Seconds all_reduce_time(const SharedLayers& shared, Bytes bytes) {
  if (shared.gpus <= 1) return {};
  return shared.exchange.latency.value + bytes * (2 * others(shared)) / shared.exchange.bus.value;
}

Seconds gather_time(const SharedLayers& shared, Bytes bytes) {
  if (shared.gpus <= 1) return {};
  return shared.exchange.latency.value + bytes * others(shared) / shared.exchange.bus.value;
}

}  // namespace rigcast
