#include "engine/placement/check_placement.hpp"

namespace rigcast::engine {
namespace {

std::optional<Error> refuse(const LayerPlacement& l, bool on_host, bool cache_leaves) {
  for (const DeviceIndex d : {l.weights, l.experts, l.prefill_on, l.decode_on, l.kv})
    if (d > 0) return bad_input("only the first GPU executes", "--gpu with one");
  if (l.weights != kHost && l.decode_on == kHost && !on_host)
    return bad_input("weights on the GPU are computed there, or all by the host while decoding",
                     "leave out --decode-device, or --decode-device cpu");
  if (on_host && (l.decode_cache_on != kHost || l.kv != kHost))
    return bad_input("the host decodes with a cache of its own", "--kv vram, --kv ram");
  if (l.decode_on == kHost) return std::nullopt;
  if (l.kv == kHost && l.decode_cache_on != kHost && !cache_leaves)
    return bad_input("a cache in RAM that the GPU attends to has to leave the GPU", "--kv stream");
  if (l.decode_experts_on != kHost && l.experts != l.weights)
    return bad_input("experts are streamed with their layer, or computed where they are",
                     "leave out --decode-device");
  return std::nullopt;
}

}  // namespace

std::optional<Error> check_placement(const Placement& placement, bool cache_leaves) {
  const bool on_host = placement.host_decodes();
  if (on_host && cache_leaves)
    return bad_input("where the host decodes, the cache does not leave the GPU by parts",
                     "--kv vram, --kv ram");
  for (const LayerPlacement& l : placement.layers)
    if (auto error = refuse(l, on_host, cache_leaves)) return error;
  return std::nullopt;
}

}  // namespace rigcast::engine
