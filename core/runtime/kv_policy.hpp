#pragma once
// Where keys and values live, and who attends to them.

#include <optional>
#include <string_view>

namespace rigcast {

enum class KvPolicy { kVram, kRam, kStream, kPaged, kCombined, kSpill };
std::string_view name(KvPolicy policy);
std::optional<KvPolicy> kv_policy_from(std::string_view text);

/// As memory fills, the cache's older blocks leave VRAM.
bool evicts(KvPolicy policy);
/// All of the cache is in host memory from the start.
bool keeps_cache_in_ram(KvPolicy policy);
/// The CPU attends to what of the cache is in host memory.
bool host_attends(KvPolicy policy);

}  // namespace rigcast
