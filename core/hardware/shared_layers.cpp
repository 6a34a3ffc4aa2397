#include "core/hardware/shared_layers.hpp"

namespace rigcast {
namespace {

double others(const SharedLayers& shared) { return double(shared.gpus - 1) / shared.gpus; }

}  // namespace

Bytes all_reduce_bytes(const SharedLayers& shared, Bytes bytes) {
  return bytes * (2 * others(shared));
}

Bytes gather_bytes(const SharedLayers& shared, Bytes bytes) { return bytes * others(shared); }

Seconds all_reduce_time(const SharedLayers& shared, Bytes bytes) {
  if (shared.gpus <= 1) return {};
  return shared.exchange.latency.value +
         all_reduce_bytes(shared, bytes) / shared.exchange.bus.value;
}

Seconds gather_time(const SharedLayers& shared, Bytes bytes) {
  if (shared.gpus <= 1) return {};
  return shared.exchange.latency.value + gather_bytes(shared, bytes) / shared.exchange.bus.value;
}

}  // namespace rigcast
