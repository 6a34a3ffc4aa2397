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
  kMiddle,                // without the first and the last eighth
  kGroupedByFour,         // everywhere, if four or more query heads share a KV head
  kGroupedOrExperts,      // everywhere, if they do or there are four or more experts
  kMoreBitsEightExperts,  // as kMoreBits, if there are eight experts
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
  QuantFormat embedding = base;  // where the head is another matrix
  QuantFormat head = kQ6_K;
  QuantFormat query_and_key = base;
  FormatUpgrades value{};
  FormatUpgrades gate_and_up{};
  FormatUpgrades down{};
  FormatUpgrades attention_output{};
  FormatUpgrades fused_qkv{};
  FormatUpgrades falcon_down = down;
  bool five_bit_output_of_eight_experts = false;
  bool two_bits = false;          // the quantiser has rules of its own for IQ1 and IQ2
  std::string_view plain = name;  // without its wider embedding and head
};

namespace {

constexpr FormatUpgrades always(QuantFormat f) { return {FormatUpgrade{Where::kEverywhere, f}}; }
constexpr FormatUpgrades in(Where where, QuantFormat f) { return {FormatUpgrade{where, f}}; }
constexpr FormatUpgrades in(Where where, QuantFormat f, QuantFormat otherwise) {
  return {FormatUpgrade{where, f}, FormatUpgrade{Where::kEverywhere, otherwise}};
}

constexpr MixRule kQ6 = {"Q6_K", kQ6_K};
constexpr MixRule kQ5KM = {.name = "Q5_K_M",
                           .base = kQ5_K,
                           .value = in(Where::kMoreBits, kQ6_K),
                           .down = in(Where::kMoreBits, kQ6_K),
                           .fused_qkv = always(kQ6_K)};
constexpr MixRule kQ4KM = {.name = "Q4_K_M",
                           .base = kQ4_K,
                           .value = in(Where::kMoreBits, kQ6_K),
                           .down = in(Where::kMoreBits, kQ6_K),
                           .fused_qkv = always(kQ5_K),
                           .falcon_down = {FormatUpgrade{Where::kFirstSixteenth, kQ6_K},
                                           FormatUpgrade{Where::kMoreBits, kQ5_K}},
                           .five_bit_output_of_eight_experts = true};
constexpr MixRule kQ3KL = {.name = "Q3_K_L",
                           .base = kQ3_K,
                           .value = always(kQ5_K),
                           .down = always(kQ5_K),
                           .attention_output = always(kQ5_K),
                           .fused_qkv = always(kQ4_K),
                           .falcon_down = always(kQ4_K)};
constexpr MixRule kQ2K = {.name = "Q2_K",
                          .base = kQ2_K,
                          .value = in(Where::kGroupedByFour, kQ4_K, kQ3_K),
                          .down = always(kQ3_K),
                          .attention_output = always(kQ3_K),
                          .five_bit_output_of_eight_experts = true};

// The larger mixes of bartowski's: another one with its embedding and head in Q8_0.
constexpr MixRule with_wide_ends(std::string_view name, const MixRule& plain) {
  MixRule rule = plain;
  rule.plain = rule.name;
  rule.name = name;
  rule.embedding = rule.head = kQ8_0;
  return rule;
}

// IQ1 and IQ2: `raised` is what values and the first downs get.
constexpr MixRule of_two_bits(std::string_view name, QuantFormat base, QuantFormat embedding,
                              QuantFormat raised, FormatUpgrades attention_output = {}) {
  MixRule rule{.name = name, .base = base};
  rule.embedding = embedding;
  rule.head = kQ5_K;
  rule.value = in(Where::kGroupedOrExperts, kQ4_K, raised);
  rule.down = in(Where::kFirstEighth, raised);
  rule.attention_output = attention_output;
  rule.five_bit_output_of_eight_experts = true;
  rule.two_bits = true;
  return rule;
}

// llama.cpp's file types, in falling size. What is not named here has the base format.
constexpr MixRule kMixes[] = {
    {"F32", kF32},
    {"F16", kF16},
    {"BF16", kBF16},
    {"Q8_0", kQ8_0},
    with_wide_ends("Q6_K_L", kQ6),
    kQ6,
    with_wide_ends("Q5_K_L", kQ5KM),
    kQ5KM,
    {"Q5_K_S", kQ5_K},
    {"Q5_1", kQ5_1},
    {"Q5_0", kQ5_0},
    with_wide_ends("Q4_K_L", kQ4KM),
    kQ4KM,
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
    with_wide_ends("Q3_K_XL", kQ3KL),
    kQ3KL,
    {.name = "Q3_K_M",
     .base = kQ3_K,
     .value = in(Where::kFirstTwo, kQ5_K, kQ4_K),
     .down = in(Where::kFirstSixteenth, kQ5_K, kQ4_K),
     .attention_output = always(kQ4_K),
     .fused_qkv = always(kQ4_K),
     .falcon_down = {FormatUpgrade{Where::kFirstSixteenth, kQ5_K},
                     FormatUpgrade{Where::kMoreBits, kQ4_K}},
     .five_bit_output_of_eight_experts = true},
    {.name = "IQ3_M",
     .base = kIQ3_S,
     .value = always(kQ4_K),
     .down = {FormatUpgrade{Where::kFirstEighth, kQ4_K},
              FormatUpgrade{Where::kMoreBitsEightExperts, kQ4_K}},
     .attention_output = always(kQ4_K),
     .fused_qkv = always(kQ4_K),
     .five_bit_output_of_eight_experts = true},
    {.name = "IQ3_S",
     .base = kIQ3_S,
     .value = in(Where::kGroupedByFour, kQ4_K),
     .five_bit_output_of_eight_experts = true},
    {.name = "Q3_K_S", .base = kQ3_K, .five_bit_output_of_eight_experts = true},
    {.name = "IQ3_XS",
     .base = kIQ3_S,
     .query_and_key = kIQ3_XXS,
     .value = in(Where::kGroupedByFour, kQ4_K),
     .gate_and_up = in(Where::kMiddle, kIQ3_XXS),
     .five_bit_output_of_eight_experts = true},
    with_wide_ends("Q2_K_L", kQ2K),
    {.name = "IQ3_XXS",
     .base = kIQ3_XXS,
     .embedding = kIQ3_S,
     .head = kQ5_K,
     .query_and_key = kIQ2_S,
     .value = in(Where::kGroupedByFour, kQ4_K),
     .attention_output = always(kIQ3_S),
     .five_bit_output_of_eight_experts = true},
    kQ2K,
    {.name = "Q2_K_S",
     .base = kQ2_K,
     .value = in(Where::kGroupedByFour, kQ4_K),
     .down = in(Where::kFirstEighth, kQ4_K)},
    of_two_bits("IQ2_M", kIQ2_S, kIQ3_S, kIQ3_S, always(kIQ3_S)),
    of_two_bits("IQ2_S", kIQ2_XS, kIQ3_S, kIQ3_S, always(kIQ3_S)),
    of_two_bits("IQ2_XS", kIQ2_XS, kQ2_K, kQ2_K),
    of_two_bits("IQ2_XXS", kIQ2_XXS, kQ2_K, kQ2_K),
    of_two_bits("IQ1_M", kIQ1_M, kQ2_K, kQ2_K, always(kIQ2_XXS)),
    of_two_bits("IQ1_S", kIQ1_S, kQ2_K, kQ2_K, always(kIQ2_XXS)),
};

// Of servers. NVIDIA's ModelOpt, llm-compressor, AutoAWQ and GPTQModel all leave embedding, head
// and router as they were published.
constexpr MixRule kServed[] = {{"FP8", kFP8}, {"INT8", kINT8}, {"NVFP4", kNVFP4}, {"INT4", kINT4}};

// llama.cpp's and Unsloth's mixes without a rule here, and the nearest that has one.
constexpr std::array<std::string_view, 2> kWithoutRule[] = {
    {"TQ1_0", "IQ1_M"},    {"TQ2_0", "IQ2_XXS"},  {"Q2_K_XL", "Q2_K_L"}, {"Q4_K_XL", "Q4_K_L"},
    {"Q5_K_XL", "Q5_K_L"}, {"Q6_K_XL", "Q6_K_L"}, {"Q8_K_XL", "Q8_0"},
};

constexpr std::array<std::array<std::string_view, 2>, 9> kAliases = {{
    {"W8A8", "INT8"},
    {"AWQ", "INT4"},
    {"GPTQ", "INT4"},
    {"W4A16", "INT4"},
    {"Q2_K_M", "Q2_K"},  // llama-bench's "Q2_K - Medium"
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
  for (const MixRule& rule : kServed)
    if (key_of(rule.name) == key) return &rule;
  return nullptr;
}

// Formats that people ask for, by the beginning of their names, and what is nearest here.
struct ForeignFormat {
  std::string_view begins;
  std::string_view hint;
};

constexpr ForeignFormat kForeign[] = {
    {"UD",
     "Unsloth's recipes differ from model to model: --quant Q4_K_M or another mix, with "
     "--model-size \"SIZE of the files\""},
    {"NVFP4", "with --runtime vllm: --quant NVFP4; of a GGUF file, name it (--model FILE.gguf)"},
    {"FP8", "with --runtime vllm: --quant FP8; Q8_0 has about its size"},
    {"W8A8", "with --runtime vllm: --quant INT8; Q8_0 has about its size"},
    {"INT8", "with --runtime vllm: --quant INT8; Q8_0 has about its size"},
    {"AWQ", "with --runtime vllm: --quant INT4; Q4_0 has about its size"},
    {"GPTQ", "with --runtime vllm: --quant INT4; Q4_0 has about its size"},
    {"W4A16", "with --runtime vllm: --quant INT4; Q4_0 has about its size"},
    {"INT4", "with --runtime vllm: --quant INT4; Q4_0 has about its size"},
    {"EXL",
     "a format of ExLlama's, which is not modelled: the mix with as many bits per weight "
     "(rigcast list quants), with --model-size \"SIZE of the files\""},
    {"MLX",
     "a format of MLX's, which is not modelled: Q4_K_M or another mix, with --model-size "
     "\"SIZE of the files\""},
};

std::string_view why_no_mix(std::string_view name) {
  const std::string key = key_of(name);
  for (const ForeignFormat& f : kForeign)
    if (key.starts_with(f.begins)) return f.hint;
  return {};
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

bool is_grouped_by_four(const ModelSpec& model) { return model.heads / model.kv_heads >= 4; }
bool has_eight_experts(const ModelSpec& model) { return model.moe && model.moe->experts == 8; }

bool applies(Where where, const ModelSpec& model, Place p) {
  const int eighth = p.count / 8;
  switch (where) {
    case Where::kNowhere: return false;
    case Where::kEverywhere: return true;
    case Where::kMoreBits: return is_upgraded(p);
    case Where::kFirstTwo: return p.index < 2;
    case Where::kFirstFour: return p.index < 4;
    case Where::kFirstEighth: return p.index < eighth;
    case Where::kFirstSixteenth: return p.index < p.count / 16;
    case Where::kMiddle: return p.index >= eighth && p.index < 7 * p.count / 8;
    case Where::kGroupedByFour: return is_grouped_by_four(model);
    case Where::kGroupedOrExperts:
      return is_grouped_by_four(model) || (model.moe && model.moe->experts >= 4);
    case Where::kMoreBitsEightExperts: return has_eight_experts(model) && is_upgraded(p);
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

// The quantiser's "70B" type: 80 layers whose value matrices are small beside the queries.
bool is_70b_shape(const ModelSpec& model) {
  return model.layers == 80 && model.kv_heads < model.heads;
}

QuantFormat head_format(const MixRule& rule, const ModelSpec& model, std::uint64_t row) {
  if (info(rule.base).bits_per_weight() >= 8.0) return rule.base;
  if (is_falcon(model) || row % info(rule.base).block_elements != 0) return kQ8_0;
  return rule.head;
}

QuantFormat value_format(const MixRule& rule, const ModelSpec& model, int layer) {
  const QuantFormat f = upgraded(rule.value, rule.base, model, place_of_attention(model, layer));
  if (rule.two_bits) return f;
  // Eight experts share one small attention: 8 bits cost next to nothing there.
  if (has_eight_experts(model)) return kQ8_0;
  return is_70b_shape(model) && (f == kQ3_K || f == kQ4_K) ? kQ5_K : f;
}

QuantFormat key_format(const MixRule& rule, const ModelSpec& model) {
  if (has_eight_experts(model)) return rule.two_bits ? kQ4_K : kQ8_0;
  return rule.query_and_key;
}

QuantFormat attention_output_format(const MixRule& rule, const ModelSpec& model, Place p) {
  if (is_falcon(model) && !rule.two_bits)
    return rule.name == kQ3KL.name || rule.name == "Q3_K_XL" ? kQ4_K : rule.base;
  if (has_eight_experts(model)) return rule.five_bit_output_of_eight_experts ? kQ5_K : rule.base;
  return upgraded(rule.attention_output, rule.base, model, p);
}

// For IQ1 and IQ2 the quantiser counts the down matrices that came before, not the blocks: a shared
// expert's own as well.
Place place_of_down(const ModelSpec& model, TensorRole role, int layer) {
  const bool shares = model.moe && model.moe->shared_ffn > 0;
  int index = role == TensorRole::kSharedDown ? 1 : 0;
  for (int i = 0; i < std::min(layer, model.layers); ++i)
    if (model.has_ffn(i)) index += shares && model.is_moe_layer(i) ? 2 : 1;
  return {index, model.layers + model.nextn_layers};
}

QuantFormat down_format(const MixRule& rule, const ModelSpec& model, TensorRole role, int layer) {
  if (is_falcon(model) && !rule.two_bits)
    return upgraded(rule.falcon_down, rule.base, model, place_of_block(model, layer));
  const Place place =
      rule.two_bits ? place_of_down(model, role, layer) : place_of_block(model, layer);
  return upgraded(rule.down, rule.base, model, place);
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
      return model.tied_embeddings ? head_format(rule, model, row) : rule.embedding;
    case TensorRole::kAttentionQ: return rule.query_and_key;
    case TensorRole::kAttentionK: return key_format(rule, model);
    case TensorRole::kAttentionV: return value_format(rule, model, layer);
    case TensorRole::kAttentionQKV: return upgraded(rule.fused_qkv, rule.base, model, place);
    case TensorRole::kAttentionOutput: return attention_output_format(rule, model, place);
    case TensorRole::kFfnGate:
    case TensorRole::kFfnUp:
    case TensorRole::kExpertGate:
    case TensorRole::kExpertUp:
    case TensorRole::kSharedGate:
    case TensorRole::kSharedUp: return upgraded(rule.gate_and_up, rule.base, model, place);
    case TensorRole::kFfnDown:
    case TensorRole::kExpertDown:
    case TensorRole::kSharedDown: return down_format(rule, model, role, layer);
    default: return rule.base;
  }
}

bool divides(QuantFormat f, std::uint64_t row) { return row % info(f).block_elements == 0; }

// Super-blocks are of 256 weights; a row that is no multiple gets the closest block of 32.
QuantFormat fallback(QuantFormat f) {
  switch (f) {
    case kIQ1_S:
    case kIQ1_M:
    case kIQ2_XXS:
    case kIQ2_XS:
    case kIQ2_S:
    case kIQ3_XXS:
    case kIQ3_S:
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

std::string_view QuantMix::plain_name() const { return rule_->plain; }

std::optional<QuantMix> QuantMix::nearest_to_recipe(std::string_view name) {
  std::string key = key_of(name);
  if (!key.starts_with("UD")) return std::nullopt;
  key.erase(0, 2);
  if (key == "TQ10") key = "IQ1S";
  if (key == "Q8KXL") key = "Q80";
  if (key.ends_with("XL")) key.erase(key.size() - 2);
  const MixRule* const rule = find_mix(key);
  return rule ? std::optional(QuantMix(*rule)) : std::nullopt;
}

bool is_same_quant(std::string_view a, std::string_view b) { return key_of(a) == key_of(b); }

Result<QuantMix> QuantMix::from_name(std::string_view name) {
  if (const MixRule* rule = find_mix(name)) return QuantMix(*rule);
  if (const std::string_view why = why_no_mix(name); !why.empty())
    return bad_input("\"" + std::string(name) + "\" is no quant mix of llama.cpp's",
                     std::string(why));
  const std::string key = key_of(name);
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

std::span<const std::string> QuantMix::served_names() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> list;
    for (const MixRule& rule : kServed) list.emplace_back(rule.name);
    return list;
  }();
  return all;
}

bool QuantMix::is_served() const {
  return std::ranges::find(served_names(), name_) != served_names().end();
}

std::span<const std::array<std::string_view, 2>> QuantMix::without_rule() { return kWithoutRule; }

QuantFormat QuantMix::format_of(const ModelSpec& model, TensorRole role, int layer,
                                std::uint64_t row_elements) const {
  if (is_f32(role)) return kF32;
  if (role == TensorRole::kUnquantized)
    return info(base_).block_elements == 1 && !is_served() ? base_ : kBF16;
  // gpt-oss was published in MXFP4: every file of it keeps its experts so, whatever its mix.
  if (is_expert(role) && model.architecture == "gpt-oss") return held_by(kMXFP4, row_elements);
  if (is_served()) {
    const bool end = role == TensorRole::kOutput || role == TensorRole::kTokenEmbedding;
    return end ? kBF16 : held_by(base_, row_elements);
  }
  if (base_ == kMXFP4) return held_by(is_expert(role) ? kMXFP4 : kQ8_0, row_elements);
  if (info(base_).block_elements == 1) return base_;
  return held_by(wanted_format(*rule_, model, role, layer, row_elements), row_elements);
}

}  // namespace rigcast
