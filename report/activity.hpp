#pragma once
// The vocabulary in which simulator and engine record what they do: same phases, same kinds, same
// names, so that a forecast and a run can be laid side by side.

#include <cstdint>
#include <string_view>

namespace rigcast {

enum class Phase : std::uint8_t { kLoad, kTokenize, kPrefill, kDecode };

enum class ActivityKind : std::uint8_t {
  kReadFile,  // SSD to page cache
  kStage,     // page cache to pinned buffer
  kUpload,    // host to GPU, weights at load
  kTokenize,
  kEmbedding,       // row lookup and transfer of the hidden state
  kAttention,       // norm, projections and attention over the cache
  kCacheAttention,  // attention over the cache alone
  kFfn,
  kExperts,
  kHead,
  kFetchWeights,  // host to GPU, streamed weights
  kFetchKv,       // host to GPU, streamed KV
  kStoreKv,       // GPU to host, evicted or written KV
  kHandoff,       // hidden state between devices
  kSample,
  kHostWork,  // per-token work of the runtime
  kSwapIn,    // swap device to RAM
};
inline constexpr int kActivityKindCount = 17;

std::string_view name(Phase phase);
std::string_view name(ActivityKind kind);

/// The resources of a machine on which time is spent.
enum class Resource : std::uint8_t {
  kSsd,
  kRam,
  kCpu,
  kH2d,
  kD2h,
  kVram,
  kGpu,
  kLaunch,
  kHandoff,
  kHostWork,
};
inline constexpr int kResourceCount = 10;

std::string_view name(Resource resource);      // "VRAM bandwidth"
std::string_view json_key(Resource resource);  // "vram"

}  // namespace rigcast
