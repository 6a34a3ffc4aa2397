#include "core/runtime/kv_policy.hpp"

#include <utility>

namespace rigcast {
namespace {

constexpr std::pair<std::string_view, KvPolicy> kPolicies[] = {
    {"vram", KvPolicy::kVram},   {"ram", KvPolicy::kRam},           {"stream", KvPolicy::kStream},
    {"paged", KvPolicy::kPaged}, {"combined", KvPolicy::kCombined}, {"spill", KvPolicy::kSpill},
};

}  // namespace

std::string_view name(KvPolicy policy) { return kPolicies[std::size_t(policy)].first; }

std::optional<KvPolicy> kv_policy_from(std::string_view text) {
  for (const auto& [name, policy] : kPolicies)
    if (name == text) return policy;
  return std::nullopt;
}

bool evicts(KvPolicy policy) { return policy == KvPolicy::kPaged || policy == KvPolicy::kCombined; }

bool keeps_cache_in_ram(KvPolicy policy) {
  return policy == KvPolicy::kRam || policy == KvPolicy::kStream;
}

bool host_attends(KvPolicy policy) {
  return policy == KvPolicy::kRam || policy == KvPolicy::kCombined;
}

}  // namespace rigcast
