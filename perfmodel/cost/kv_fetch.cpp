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

}  // namespace rigcast
