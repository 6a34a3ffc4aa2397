#pragma once
// Where keys and values live, and which device attends to them.

#include <optional>
#include <string_view>

namespace rigcast {

enum class KvPolicy { kVram, kRam, kStream, kPaged, kCombined, kSpill };
std::string_view name(KvPolicy policy);
std::optional<KvPolicy> kv_policy_from(std::string_view text);

/// True if older blocks of the cache are evicted from VRAM as it fills.
bool evicts(KvPolicy policy);
/// True if the whole cache is in host memory from the start.
bool keeps_cache_in_ram(KvPolicy policy);
/// True if the CPU attends to the part of the cache that is in host memory.
bool host_attends(KvPolicy policy);

}  // namespace rigcast
