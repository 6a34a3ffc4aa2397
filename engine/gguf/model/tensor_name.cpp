#include "engine/gguf/model/tensor_name.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

namespace rigcast::engine {
namespace {

using Role = TensorRole;

constexpr auto kRoles = std::to_array<std::pair<std::string_view, Role>>({
    {"token_embd", Role::kTokenEmbedding},
    {"output", Role::kOutput},
    {"attn_q", Role::kAttentionQ},
    {"attn_k", Role::kAttentionK},
    {"attn_v", Role::kAttentionV},
    {"attn_qkv", Role::kAttentionQKV},
    {"attn_output", Role::kAttentionOutput},
    {"ffn_gate", Role::kFfnGate},
    {"ffn_up", Role::kFfnUp},
    {"ffn_down", Role::kFfnDown},
    {"ffn_gate_inp", Role::kRouter},
    {"ffn_gate_inp_shexp", Role::kRouter},
    {"ffn_gate_exps", Role::kExpertGate},
    {"ffn_up_exps", Role::kExpertUp},
    {"ffn_gate_up_exps", Role::kExpertUp},
    {"ffn_down_exps", Role::kExpertDown},
    {"ffn_gate_shexp", Role::kSharedGate},
    {"ffn_up_shexp", Role::kSharedUp},
    {"ffn_down_shexp", Role::kSharedDown},
    {"rope_freqs", Role::kRope},
    {"rope_factors_long", Role::kRope},
    {"rope_factors_short", Role::kRope},
    {"attn_sinks", Role::kBias},
    {"exp_probs_b", Role::kBias},
});

constexpr std::array<std::string_view, 4> kRecurrent = {"ssm_", "time_mix", "channel_mix",
                                                        "shortconv"};

std::optional<int> whole(std::string_view digits) {
  int value = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool plain = digits.size() == 1 || (!digits.empty() && digits[0] != '0');
  if (code != std::errc{} || end != digits.data() + digits.size() || value < 0 || !plain)
    return std::nullopt;
  return value;
}

}  // namespace

TensorName parse_tensor_name(std::string_view name) {
  TensorName out;
  constexpr std::string_view kBlock = "blk.";
  if (name.starts_with(kBlock)) {
    const std::string_view rest = name.substr(kBlock.size());
    const auto dot = rest.find('.');
    const auto layer = dot == std::string_view::npos ? std::nullopt : whole(rest.substr(0, dot));
    if (layer) {
      out.layer = *layer;
      name = rest.substr(dot + 1);
    }
  }
  out.stem = name;
  for (const std::string_view end : {"weight", "bias"}) {
    if (!name.ends_with(end) || name.size() < end.size() + 2) continue;
    if (name[name.size() - end.size() - 1] != '.') continue;
    out.stem = name.substr(0, name.size() - end.size() - 1);
    out.end = end;
  }
  return out;
}

TensorRole role_of(const TensorName& name, int dimensions) {
  if (name.end == "bias") return Role::kBias;
  const auto known =
      std::ranges::find(kRoles, name.stem, &std::pair<std::string_view, Role>::first);
  if (known != kRoles.end()) return known->second;
  for (const std::string_view beginning : kRecurrent)
    if (name.stem.starts_with(beginning)) return Role::kRecurrent;
  return dimensions > 1 ? Role::kProjection : Role::kNorm;
}

bool is_single_expert(const TensorName& name) {
  const auto dot = name.stem.rfind('.');
  return dot != std::string_view::npos && name.stem.starts_with("ffn_") &&
         whole(name.stem.substr(dot + 1)).has_value();
}

}  // namespace rigcast::engine
