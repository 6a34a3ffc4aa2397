#include "core/model/quant_mix.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "core/text/nearest_name.hpp"

namespace rigcast {
namespace {

using enum QuantFormat;

// The layers in which a tensor gets another format than the base.
enum class Where : std::uint8_t {
  kNowhere,
  kEverywhere,
  kMoreBits,  // the first and last eighth, and every third layer between
  kFirstTwo,
  kFirstFour,
  kFirstEighth,
  kFirstSixteenth,
  kGroupedByFour,  // everywhere, if four or more query heads share a KV head
};

struct FormatUpgrade {
  Where where = Where::kNowhere;
  QuantFormat format = kF32;
};
using FormatUpgrades = std::array<FormatUpgrade, 2>;  // the first that applies counts

}  // namespace

struct MixRule {
  std::string_view name;
  QuantFormat base;
  FormatUpgrades value{};
  FormatUpgrades down{};
  FormatUpgrades attention_output{};
  FormatUpgrades fused_qkv{};
  FormatUpgrades falcon_down = down;
  bool five_bit_output_of_eight_experts = false;
};

namespace {

constexpr FormatUpgrades always(QuantFormat f) { return {FormatUpgrade{Where::kEverywhere, f}}; }
constexpr FormatUpgrades in(Where where, QuantFormat f) { return {FormatUpgrade{where, f}}; }
constexpr FormatUpgrades in(Where where, QuantFormat f, QuantFormat otherwise) {
  return {FormatUpgrade{where, f}, FormatUpgrade{Where::kEverywhere, otherwise}};
}

// llama.cpp's file types, in falling size. What is not named here has the base format.
constexpr MixRule kMixes[] = {
    {"F32", kF32},
    {"F16", kF16},
    {"BF16", kBF16},
    {"Q8_0", kQ8_0},
    {"Q6_K", kQ6_K},
    {.name = "Q5_K_M",
     .base = kQ5_K,
     .value = in(Where::kMoreBits, kQ6_K),
     .down = in(Where::kMoreBits, kQ6_K),
     .fused_qkv = always(kQ6_K)},
    {"Q5_K_S", kQ5_K},
    {"Q5_1", kQ5_1},
    {"Q5_0", kQ5_0},
    {.name = "Q4_K_M",
     .base = kQ4_K,
     .value = in(Where::kMoreBits, kQ6_K),
     .down = in(Where::kMoreBits, kQ6_K),
     .fused_qkv = always(kQ5_K),
     .falcon_down = {FormatUpgrade{Where::kFirstSixteenth, kQ6_K},
                     FormatUpgrade{Where::kMoreBits, kQ5_K}},
     .five_bit_output_of_eight_experts = true},
    {.name = "Q4_K_S",
     .base = kQ4_K,
     .value = in(Where::kFirstFour, kQ5_K),
     .down = in(Where::kFirstEighth, kQ5_K),
     .falcon_down = {},
     .five_bit_output_of_eight_experts = true},
    {"Q4_1", kQ4_1},
    {"Q4_0", kQ4_0},
    {.name = "IQ4_NL",
     .base = kIQ4_NL,
     .value = in(Where::kGroupedByFour, kQ5_K),
     .down = in(Where::kFirstEighth, kQ5_K),
     .five_bit_output_of_eight_experts = true},
    {.name = "IQ4_XS",
     .base = kIQ4_XS,
     .value = in(Where::kGroupedByFour, kQ5_K),
     .down = in(Where::kFirstEighth, kQ5_K),
     .five_bit_output_of_eight_experts = true},
    {"MXFP4", kMXFP4},
    {.name = "Q3_K_L",
     .base = kQ3_K,
     .value = always(kQ5_K),
     .down = always(kQ5_K),
     .attention_output = always(kQ5_K),
     .fused_qkv = always(kQ4_K),
     .falcon_down = always(kQ4_K)},
    {.name = "Q3_K_M",
     .base = kQ3_K,
     .value = in(Where::kFirstTwo, kQ5_K, kQ4_K),
     .down = in(Where::kFirstSixteenth, kQ5_K, kQ4_K),
     .attention_output = always(kQ4_K),
     .fused_qkv = always(kQ4_K),
     .falcon_down = {FormatUpgrade{Where::kFirstSixteenth, kQ5_K},
                     FormatUpgrade{Where::kMoreBits, kQ4_K}},
     .five_bit_output_of_eight_experts = true},
    {.name = "Q3_K_S", .base = kQ3_K, .five_bit_output_of_eight_experts = true},
    {.name = "Q2_K",
     .base = kQ2_K,
     .value = in(Where::kGroupedByFour, kQ4_K, kQ3_K),
     .down = always(kQ3_K),
     .attention_output = always(kQ3_K),
     .five_bit_output_of_eight_experts = true},
    {.name = "Q2_K_S",
     .base = kQ2_K,
     .value = in(Where::kGroupedByFour, kQ4_K),
     .down = in(Where::kFirstEighth, kQ4_K)},
};

// llama.cpp's and Unsloth's mixes without a rule here, and the nearest that has one.
constexpr std::array<std::string_view, 2> kWithoutRule[] = {
    {"IQ1_S", "Q2_K_S"},   {"IQ1_M", "Q2_K_S"},  {"IQ2_XXS", "Q2_K_S"}, {"IQ2_XS", "Q2_K_S"},
    {"IQ2_S", "Q2_K_S"},   {"IQ2_M", "Q2_K"},    {"IQ3_XXS", "Q3_K_S"}, {"IQ3_XS", "Q3_K_S"},
    {"IQ3_S", "Q3_K_S"},   {"IQ3_M", "Q3_K_M"},  {"TQ1_0", "Q2_K_S"},   {"TQ2_0", "Q2_K_S"},
    {"Q2_K_L", "Q2_K"},    {"Q2_K_XL", "Q2_K"},  {"Q3_K_XL", "Q3_K_L"}, {"Q4_K_L", "Q4_K_M"},
    {"Q4_K_XL", "Q4_K_M"}, {"Q5_K_L", "Q5_K_M"}, {"Q5_K_XL", "Q5_K_M"}, {"Q6_K_L", "Q6_K"},
    {"Q6_K_XL", "Q6_K"},   {"Q8_K_XL", "Q8_0"},
};

constexpr std::array<std::array<std::string_view, 2>, 4> kAliases = {{
    {"Q3_K", "Q3_K_M"},
    {"Q4_K", "Q4_K_M"},
    {"Q5_K", "Q5_K_M"},
    {"MXFP4_MOE", "MXFP4"},
}};

// "q4-k-m" and "Q4_K_M" are the same key.
std::string key_of(std::string_view name) {
  std::string key;
  for (const char c : name)
    if (c != '-' && c != '_') key += char(std::toupper(static_cast<unsigned char>(c)));
  return key;
}

const MixRule* find_mix(std::string_view name) {
  std::string key = key_of(name);
  for (const auto& [alias, full] : kAliases)
    if (key_of(alias) == key) key = key_of(full);
  for (const MixRule& rule : kMixes)
    if (key_of(rule.name) == key) return &rule;
  return nullptr;
}

// A tensor's place among its like: the quantiser counts attn_v tensors, and blocks for the rest.
// Blocks that only speculate count as well.
struct Place {
  int index = 0;
  int count = 0;
};

Place place_of_block(const ModelSpec& model, int layer) {
  return {layer, model.layers + model.nextn_layers};
}

Place place_of_attention(const ModelSpec& model, int layer) {
  if (!model.recurrent) return place_of_block(model, layer);
  Place place{std::max(layer - model.layers, 0), model.nextn_layers};
  for (int i = 0; i < model.layers; ++i) {
    if (!model.has_attention(i)) continue;
    place.index += i < layer;
    ++place.count;
  }
  return place;
}

// Integer division throughout, as the quantiser has it: 36 layers have an eighth of 4.
bool is_upgraded(Place p) {
  const int eighth = p.count / 8;
  return p.index < eighth || p.index >= 7 * p.count / 8 || (p.index - eighth) % 3 == 2;
}

bool applies(Where where, const ModelSpec& model, Place p) {
  switch (where) {
    case Where::kNowhere: return false;
    case Where::kEverywhere: return true;
    case Where::kMoreBits: return is_upgraded(p);
    case Where::kFirstTwo: return p.index < 2;
    case Where::kFirstFour: return p.index < 4;
    case Where::kFirstEighth: return p.index < p.count / 8;
    case Where::kFirstSixteenth: return p.index < p.count / 16;
    case Where::kGroupedByFour: return model.heads / model.kv_heads >= 4;
  }
  return false;
}

QuantFormat upgraded(const FormatUpgrades& raises, QuantFormat base, const ModelSpec& model,
                     Place p) {
  for (const FormatUpgrade& r : raises)
    if (applies(r.where, model, p)) return r.format;
  return base;
}

bool is_falcon(const ModelSpec& model) { return model.architecture == "falcon"; }
bool has_eight_experts(const ModelSpec& model) { return model.moe && model.moe->experts == 8; }

// The quantiser's "70B" type: 80 layers whose value matrices are small beside the queries.
bool is_70b_shape(const ModelSpec& model) {
  return model.layers == 80 && model.kv_heads < model.heads;
}

QuantFormat head_format(const MixRule& rule, const ModelSpec& model, std::uint64_t row) {
  if (info(rule.base).bits_per_weight() >= 8.0) return rule.base;
  if (is_falcon(model) || row % info(rule.base).block_elements != 0) return kQ8_0;
  return kQ6_K;
}

QuantFormat value_format(const MixRule& rule, const ModelSpec& model, int layer) {
  // Eight experts share one small attention: 8 bits cost next to nothing there.
  if (has_eight_experts(model)) return kQ8_0;
  const QuantFormat f = upgraded(rule.value, rule.base, model, place_of_attention(model, layer));
  return is_70b_shape(model) && (f == kQ3_K || f == kQ4_K) ? kQ5_K : f;
}

QuantFormat attention_output_format(const MixRule& rule, const ModelSpec& model, Place p) {
  if (is_falcon(model)) return rule.name == "Q3_K_L" ? kQ4_K : rule.base;
  if (has_eight_experts(model)) return rule.five_bit_output_of_eight_experts ? kQ5_K : rule.base;
  return upgraded(rule.attention_output, rule.base, model, p);
}

bool is_expert(TensorRole role) {
  return role == TensorRole::kExpertGate || role == TensorRole::kExpertUp ||
         role == TensorRole::kExpertDown;
}

bool is_f32(TensorRole role) {
  return role == TensorRole::kNorm || role == TensorRole::kRouter || role == TensorRole::kBias ||
         role == TensorRole::kRope;
}

QuantFormat wanted_format(const MixRule& rule, const ModelSpec& model, TensorRole role, int layer,
                          std::uint64_t row) {
  const Place place = place_of_block(model, layer);
  switch (role) {
    case TensorRole::kOutput: return head_format(rule, model, row);
    case TensorRole::kTokenEmbedding:
      return model.tied_embeddings ? head_format(rule, model, row) : rule.base;
    case TensorRole::kAttentionK: return has_eight_experts(model) ? kQ8_0 : rule.base;
    case TensorRole::kAttentionV: return value_format(rule, model, layer);
    case TensorRole::kAttentionQKV: return upgraded(rule.fused_qkv, rule.base, model, place);
    case TensorRole::kAttentionOutput: return attention_output_format(rule, model, place);
    case TensorRole::kFfnDown:
    case TensorRole::kExpertDown:
    case TensorRole::kSharedDown:
      return upgraded(is_falcon(model) ? rule.falcon_down : rule.down, rule.base, model, place);
    default: return rule.base;
  }
}

bool divides(QuantFormat f, std::uint64_t row) { return row % info(f).block_elements == 0; }

// Super-blocks are of 256 weights; a row that is no multiple gets the closest block of 32.
QuantFormat fallback(QuantFormat f) {
  switch (f) {
    case kQ2_K:
    case kQ3_K:
    case kIQ4_XS: return kIQ4_NL;
    case kQ4_K: return kQ5_0;
    case kQ5_K: return kQ5_1;
    case kQ6_K: return kQ8_0;
    default: return kF16;
  }
}

QuantFormat held_by(QuantFormat wanted, std::uint64_t row) {
  if (divides(wanted, row)) return wanted;
  const QuantFormat smaller_block = fallback(wanted);
  return divides(smaller_block, row) ? smaller_block : kF16;
}

}  // namespace

QuantMix::QuantMix(const MixRule& rule) : rule_(&rule), name_(rule.name), base_(rule.base) {}

Result<QuantMix> QuantMix::from_name(std::string_view name) {
  if (const MixRule* rule = find_mix(name)) return QuantMix(*rule);
  std::string key = key_of(name);
  if (key.starts_with("UD")) key.erase(0, 2);
  for (const auto& [exists, nearest] : kWithoutRule)
    if (key_of(exists) == key)
      return bad_input("the quant mix " + std::string(exists) + " has no rule here",
                       "give the nearest, and the size of the file: --quant " +
                           std::string(nearest) + " --model-size \"2.4 GB\"");
  std::string upper(name);
  std::ranges::transform(upper, upper.begin(),
                         [](unsigned char c) { return char(std::toupper(c)); });
  std::string hint = did_you_mean(upper, names());
  if (hint.empty()) hint = "rigcast list quants shows all";
  return bad_input("unknown quant mix \"" + std::string(name) + "\"", std::move(hint));
}

std::span<const std::string> QuantMix::names() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> list;
    for (const MixRule& rule : kMixes) list.emplace_back(rule.name);
    return list;
  }();
  return all;
}

std::span<const std::array<std::string_view, 2>> QuantMix::without_rule() { return kWithoutRule; }

QuantFormat QuantMix::format_of(const ModelSpec& model, TensorRole role, int layer,
                                std::uint64_t row_elements) const {
  if (is_f32(role)) return kF32;
  // gpt-oss was published in MXFP4: every file of it keeps its experts so, whatever its mix.
  if (is_expert(role) && model.architecture == "gpt-oss") return held_by(kMXFP4, row_elements);
  if (base_ == kMXFP4) return held_by(is_expert(role) ? kMXFP4 : kQ8_0, row_elements);
  if (info(base_).block_elements == 1) return base_;
  return held_by(wanted_format(*rule_, model, role, layer, row_elements), row_elements);
}

}  // namespace rigcast
