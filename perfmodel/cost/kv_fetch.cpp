#include "perfmodel/cost/kv_fetch.hpp"

namespace rigcast {

Fetch kv_fetch(const StepContext& s, double bytes) {
  Fetch f;
  f.kind = ActivityKind::kFetchKv;
  f.bytes = {bytes};
  f.equivalent_bytes = f.bytes / s.runtime.decode.stream_share.value;
  f.early = s.kv.prefetch && s.runtime.decode.prefetch_depth > 0;
  return f;
}

Fetch ram_cache_fetch(const StepContext& s, double bytes) {
  Fetch f = kv_fetch(s, bytes);
  if (!s.runtime.copies_ram_cache) return f;
  f.copied_cache = f.pageable = true;
  f.equivalent_bytes = copied_cache_bytes(s, f.bytes);
  f.start = s.runtime.decode.crossing.value;
  return f;
}

}  // namespace rigcast
