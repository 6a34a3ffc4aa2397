#include "core/runtime/runtime_profile.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace rigcast {
namespace {

const RuntimeProfile::Spread* spread_of(const std::vector<RuntimeProfile::Spread>& spreads,
                                        SpeedMetric metric, std::string_view regime) {
  const RuntimeProfile::Spread* of_all = nullptr;
  for (const RuntimeProfile::Spread& s : spreads) {
    if (s.metric != metric) continue;
    if (s.regime == regime) return &s;
    if (s.regime == "all") of_all = &s;
  }
  return of_all;
}

}  // namespace

RuntimeProfile::RuntimeProfile() = default;
RuntimeProfile::RuntimeProfile(const RuntimeProfile&) = default;
RuntimeProfile::RuntimeProfile(RuntimeProfile&&) noexcept = default;
RuntimeProfile& RuntimeProfile::operator=(const RuntimeProfile&) = default;
RuntimeProfile& RuntimeProfile::operator=(RuntimeProfile&&) noexcept = default;
RuntimeProfile::~RuntimeProfile() = default;

std::string_view name(RuntimeRules rules) {
  switch (rules) {
    case RuntimeRules::kLlamaCpp: return "llama.cpp";
    case RuntimeRules::kPagedServer: return "paged-server";
    case RuntimeRules::kTransformers: return "transformers";
    case RuntimeRules::kRigcast: return "rigcast";
  }
  return "";
}

const FormatEfficiency& RuntimeProfile::format(QuantFormat f) const {
  const FormatGroup group = format_group(f);
  const bool as_q4 = group == FormatGroup::kQ5 && !has_q5_figures;
  return formats[std::size_t(as_q4 ? FormatGroup::kQ4 : group)];
}

LogitsRows RuntimeProfile::logits_at(std::optional<double> year) const {
  const auto& since = memory.last_logits_since;
  return since && year && *year < since->value ? LogitsRows::kPrompt : memory.logits;
}

const GpuEfficiency& RuntimeProfile::gpu_efficiency(const GpuPart& part) const {
  const auto own = gpu.find(part.architecture);
  return own != gpu.end() ? own->second : gpu.at("default");
}

const RuntimeProfile::Spread* RuntimeProfile::spread(SpeedMetric metric,
                                                     std::string_view regime) const {
  return spread_of(spreads, metric, regime);
}

const RuntimeProfile::Spread* RuntimeProfile::family_spread(SpeedMetric metric,
                                                            std::string_view regime) const {
  return spread_of(family_spreads, metric, regime);
}

bool RuntimeProfile::has_measured(std::string_view family, bool slow_host,
                                  SpeedMetric metric) const {
  const auto tells = [&](const MeasuredFamily& m) {
    const int rows = metric == SpeedMetric::kDecode ? m.decode_rows : m.prefill_rows;
    return m.family == family && m.slow_host == slow_host && rows > 0;
  };
  return measured_families.empty() || std::ranges::any_of(measured_families, tells);
}

bool RuntimeProfile::has(KvPolicy policy) const {
  return std::ranges::find(kv_policies, policy) != kv_policies.end();
}

std::string RuntimeProfile::kv_policy_names() const {
  std::vector<std::string_view> names;
  for (const KvPolicy policy : kv_policies) names.push_back(rigcast::name(policy));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace rigcast
