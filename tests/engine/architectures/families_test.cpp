// Every family of architectures, from a file: the reference beside an independent float64 forward
// pass, and the CPU beside the reference.

#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/architectures/architecture.hpp"
#include "engine/backends/cpu/batch/cpu_batch_executor.hpp"
#include "engine/backends/cpu/cpu_executor.hpp"
#include "engine/gguf/model/read_model.hpp"
#include "tests/catch.hpp"
#include "tests/engine/architectures/double_forward.hpp"
#include "tests/engine/architectures/family_files.hpp"
#include "tests/engine/executor_fixture.hpp"
#include "tests/engine/gguf/gguf_fixture.hpp"
#include "tests/engine/logits_compare.hpp"

namespace rigcast::engine {
namespace {

using namespace fixtures;

// Longer than windows and than the contexts that YaRN and temperatures begin at.
constexpr std::size_t kTokens = 150;
constexpr double kContext = 64;  // of yarn_keys()

// A file in memory and the model in it.
struct Loaded {
  std::string bytes;
  Model model;
};

std::shared_ptr<Loaded> loaded(const FamilyFile& family) {
  auto out = std::make_shared<Loaded>();
  out->bytes = fixtures::bytes_of(family);
  const auto file = file_of(out->bytes);
  REQUIRE(file.ok());
  auto model = load_model(*file);
  INFO(family.name << ": " << error_of(model));
  REQUIRE(model.ok());
  out->model = *std::move(model);
  choose_rope_factors(out->model, 0);
  return out;
}

std::function<double(int, int)> plain_rope(double base, int turned = 32) {
  return [=](int, int pair) { return std::pow(base, -2.0 * pair / turned); };
}

// YaRN as its paper has it: a share of each of the two frequencies, by a ramp over the pairs.
double yarn_frequency(double base, int pair, double factor, double fast, double slow) {
  const double dims = 32, tau = 2 * std::acos(-1.0);
  const auto pair_of = [&](double rotations) {
    return dims * std::log(kContext / (rotations * tau)) / (2 * std::log(base));
  };
  const double low = std::max(std::floor(pair_of(fast)), 0.0),
               high = std::min(std::ceil(pair_of(slow)), dims - 1);
  const double ramp = std::min(std::max((pair - low) / (high - low), 0.0), 1.0);
  const double own = std::pow(base, -2.0 * pair / dims);
  return own / factor * ramp + own * (1 - ramp);
}

std::function<double(int, int)> yarn_rope(double base, double fast = 32) {
  return [=](int, int pair) { return yarn_frequency(base, pair, 8, fast, 1); };
}

double tanh_gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

// Of the numbers that synth writes: both alphas 0.8, beta 0.5, epsilon -1e-6.
double xielu_of_trained(double x) {
  const double alpha = std::log(1 + std::exp(double(0.8f)));
  if (x > 0) return alpha * x * x + 0.5 * x;
  return (0.5 + alpha) * (std::exp(std::min(x, double(-1e-6f))) - 1 - x) + 0.5 * x;
}

constexpr int kWindow = 48;
bool sees_all(int layer, int every) { return (layer + 1) % every == 0; }

// What `architecture` does, stated here once more.
Described plain(const std::string& architecture) {
  Described d;
  const auto rope = [&](bool halves, double base, double eps, int turned = 32) {
    d.halves = halves;
    d.turned = turned;
    d.frequency = plain_rope(base, turned);
    d.eps = eps;
  };
  const std::map<std::string, std::function<void()>> all = {
      {"llama", [&] { rope(false, 1e6, 1e-5); }},
      {"llama4",
       [&] {
         rope(false, 5e5, 1e-5);
         d.chunked = d.sigmoids = d.weighs_input = true;
         const auto turns = d.frequency;
         d.frequency = [turns](int layer, int pair) {
           return sees_all(layer, 4) ? 0.0 : turns(layer, pair);
         };
       }},
      {"qwen2", [&] { rope(true, 1e6, 1e-6); }},
      {"qwen2vl", [&] { rope(true, 1e6, 1e-6); }},
      {"qwen3", [&] { rope(true, 1e6, 1e-6), d.head_norm = Described::kEachHead; }},
      {"qwen3vl", [&] { rope(true, 5e6, 1e-6), d.head_norm = Described::kEachHead; }},
      {"qwen3moe", [&] { rope(true, 1e6, 1e-6), d.head_norm = Described::kEachHead; }},
      {"qwen3vlmoe", [&] { rope(true, 5e6, 1e-6), d.head_norm = Described::kEachHead; }},
      {"granite",
       [&] {
         rope(false, 1e7, 1e-5);
         d.embedding_scale = 12;
         d.residual_scale = 0.22;
         d.score_scale = 1.0 / 32;
         d.logit_divisor = 8;
       }},
      {"smollm3",
       [&] {
         rope(false, 5e6, 1e-6);
         const auto turns = d.frequency;
         d.frequency = [turns](int layer, int pair) { return layer == 3 ? 0.0 : turns(0, pair); };
       }},
      {"seed_oss", [&] { rope(true, 1e7, 1e-6), d.ffn_norm = "post_attention_norm"; }},
      {"ernie4_5", [&] { rope(false, 5e5, 1e-5); }},
      {"glm4",
       [&] {
         rope(false, 1e4, 1e-5, 16);
         d.norms_output = d.fused_gate_up = true;
       }},
      {"phi3", [&] { rope(true, 1e4, 1e-5), d.fused_qkv = d.fused_gate_up = true; }},
      {"mistral3", [&] { rope(false, 1e6, 1e-5); }},
      {"phi2",
       [&] {
         rope(true, 1e4, 1e-5, 12);
         d.means = d.beside = d.fused_qkv = true;
         d.mlp = tanh_gelu;
       }},
      {"falcon",
       [&] {
         rope(true, 1e4, 1e-5);
         d.means = d.beside = d.fused_qkv = true;
         d.mlp = tanh_gelu;
       }},
      {"apertus",
       [&] {
         rope(true, 1.2e7, 1e-5);
         d.head_norm = Described::kEachHead;
         d.mlp = xielu_of_trained;
       }},
      {"command-r",
       [&] {
         rope(false, 4e6, 1e-5);
         d.means = d.beside = d.tied = true;
         d.logit_divisor = 16;
       }},
      {"cohere2",
       [&] {
         rope(false, 5e4, 1e-5);
         d.means = d.beside = d.tied = true;
         d.logit_divisor = 4;
       }},
      {"gpt-oss",
       [&] {
         rope(true, 1.5e5, 1e-5);
         d.ffn_norm = "post_attention_norm";
         d.clamped = true;
       }},
      {"qwen2moe", [&] { rope(true, 1e6, 1e-6), d.renormalised = false; }},
      {"glm4moe",
       [&] {
         rope(true, 1e6, 1e-5, 16);
         d.ffn_norm = "post_attention_norm";
         d.sigmoids = true;
       }},
      {"minimax-m2",
       [&] {
         rope(true, 5e6, 1e-6, 16);
         d.head_norm = Described::kAllHeads;
         d.sigmoids = true;
       }},
      {"ernie4_5-moe", [&] { rope(false, 5e5, 1e-5); }},
      {"hunyuan-moe",
       [&] {
         rope(true, 11'158'840, 1e-5);
         d.head_norm = Described::kEachHead;
         d.turns_before_norms = true;
       }},
      {"bailingmoe2",
       [&] {
         rope(true, 6e5, 1e-6, 16);
         d.head_norm = Described::kEachHead;
         d.fused_qkv = d.sigmoids = true;
         d.groups = 4;
         d.groups_used = 2;
         d.expert_scale = 2.5;
       }},
      {"dots1",
       [&] {
         rope(true, 1e7, 1e-5);
         d.head_norm = Described::kEachHead;
         d.sigmoids = true;
         d.expert_scale = 2.5;
       }},
      {"exaone-moe",
       [&] {
         rope(true, 1e6, 1e-5);
         d.head_norm = Described::kEachHead;
         d.sigmoids = true;
         d.expert_scale = 2.5;
       }},
      {"hy_v3",
       [&] {
         rope(true, 11'158'840, 1e-5);
         d.head_norm = Described::kEachHead;
         d.sigmoids = true;
         d.expert_scale = double(2.826f);
       }},
      {"deepseek2",
       [&] {
         rope(false, 1e4, 1e-6);
         d.rank = 64;
         d.plain = 32;
         d.value = 64;
         d.score_scale = 1 / std::sqrt(64.0);
         d.renormalised = false;
       }},
      {"olmoe",
       [&] {
         rope(true, 1e4, 1e-5);
         d.head_norm = Described::kAllHeads;
         d.renormalised = false;
       }},
      {"olmo2",
       [&] {
         rope(true, 5e5, 1e-6);
         d.head_norm = Described::kAllHeads;
         d.norms_input = false;
         d.norms_output = true;
       }},
      {"exaone4",
       [&] {
         rope(true, 1e6, 1e-5);
         d.head_norm = Described::kEachHead;
         d.norms_input = false;
         d.norms_output = true;
       }},
      {"qwen35",
       [&] {
         rope(true, 1e7, 1e-6, 8);
         d.head_norm = Described::kEachHead;
         d.ffn_norm = "post_attention_norm";
         d.gated_attention = true;
         d.mixer = Described::kDeltaNet;
         d.recurrent = [](int layer) { return layer != 3; };
       }},
      {"granitehybrid",
       [&] {
         d.frequency = [](int, int) { return 0.0; };
         d.embedding_scale = 12;
         d.residual_scale = 0.22;
         d.score_scale = 1.0 / 32;
         d.logit_divisor = 8;
         d.mixer = Described::kMamba;
         d.mixer_sizes = {8, 2, 128};
         d.recurrent = [](int layer) { return layer % 2 == 0; };
       }},
      {"lfm2",
       [&] {
         rope(true, 1e6, 1e-5);
         d.head_norm = Described::kEachHead;
         d.mixer = Described::kShortConvolution;
         d.recurrent = [](int layer) { return layer % 2 == 0; };
         d.final_norm = "token_embd_norm";
       }},
      {"gemma",
       [&] {
         rope(true, 1e4, 1e-6);
         d.gelu = d.tied = true;
         d.embedding_scale = std::sqrt(128.0);
       }},
  };
  if (architecture == "mistral4") return plain("deepseek2");
  if (architecture == "gemma2" || architecture == "gemma3" || architecture == "gemma4") {
    d = plain("gemma");
    d.norms_output = true;
    if (architecture != "gemma2") d.head_norm = Described::kEachHead;
    return d;
  }
  if (architecture == "qwen35moe") return plain("qwen35");
  if (architecture == "lfm2moe") {
    d = plain("lfm2");
    d.sigmoids = true;
    return d;
  }
  all.at(architecture)();
  return d;
}

// Layers of Gemma 4 that see all tokens have wider heads, whose pairs turn by factors.
void describe_gemma4(bool small, Described& d) {
  const auto all = [](int layer) { return sees_all(layer, 3); };
  d.window = [=](int layer) { return all(layer) ? 0 : kWindow; };
  d.own_head_dim = [=](int layer) { return all(layer) ? 64 : 0; };
  d.frequency = [=](int layer, int pair) {
    return all(layer) ? std::pow(1e6, -2.0 * pair / 64) / (1 + 0.25 * pair)
                      : std::pow(1e4, -2.0 * pair / 32);
  };
  d.score_scale = 1;
  d.logit_cap = 30;
  d.norms_values = true;
  if (small) {
    d.input_width = 32;
    d.cache_of = [=](int layer) { return layer < 3 ? layer : all(layer) ? 2 : 1; };
  } else {
    d.own_kv_heads = [=](int layer) { return all(layer) ? 1 : 0; };
    d.keys_are_values = all;
  }
}

void describe_variants(const std::string& name, Described& d) {
  const auto windows = [&](int every) {
    d.window = [=](int layer) { return sees_all(layer, every) ? 0 : kWindow; };
  };
  const double yarn_magnitude = 1 + 0.1 * std::log(8.0);
  if (name == "llama-yarn" || name == "qwen3-yarn") {
    d.frequency = yarn_rope(1e6);
    d.magnitude = [=](int) { return yarn_magnitude; };
  } else if (name == "gpt-oss") {
    windows(2);
    d.frequency = yarn_rope(1.5e5);
    d.magnitude = [=](int) { return yarn_magnitude; };
  } else if (name == "deepseek-v3" || name == "deepseek-v2" || name == "mistral4") {
    d.frequency = yarn_rope(1e4);
    const double multiplier = name == "deepseek-v2" ? 10 * double(0.0707f) : 10 * double(0.1f);
    d.score_scale *= std::pow(1 + 0.1 * multiplier * std::log(8.0), 2);
    if (name == "deepseek-v3") {
      d.sigmoids = d.renormalised = true;
      d.expert_scale = 2.5;
      d.groups = 4;
      d.groups_used = 2;
    }
  } else if (name == "mistral-large-3") {
    d.frequency = yarn_rope(1e4);
    d.magnitude = [=](int) { return yarn_magnitude; };
    d.score_scale *= yarn_magnitude * yarn_magnitude;
    d.query_scale = [](int p) { return 1 + 0.5 * std::log(1 + std::floor(p / kContext)); };
  } else if (name == "mistral3") {
    d.frequency = yarn_rope(1e6, 16);
    d.query_scale = [](int p) { return 1 + 0.5 * std::log(1 + std::floor(p / kContext)); };
  } else if (name == "phi3-shortrope" || name == "phi3-longrope") {
    const bool is_long = name == "phi3-longrope";
    d.turned = 24;
    d.frequency = [=](int, int pair) {
      return std::pow(1e4, -2.0 * pair / 24) / (1 + (is_long ? 3.0 : double(0.1f)) * pair);
    };
    if (is_long) d.magnitude = [](int) { return std::sqrt(1 + std::log(2.0) / std::log(4096.0)); };
  } else if (name == "gemma4" || name == "gemma4-small") {
    describe_gemma4(name == "gemma4-small", d);
  } else if (d.chunked) {
    const int chunk = name == "llama4-chunks" ? kWindow : 8192;
    d.window = [=](int layer) { return sees_all(layer, 4) ? 0 : chunk; };
    if (name == "llama4-128") return;
    d.norms_turned = true;
    const auto turns = d.frequency;
    d.frequency = [=](int layer, int pair) { return turns(layer, pair) / (1 + 0.25 * pair); };
  } else if (name == "command-r-norms") {
    d.frequency = plain_rope(7.5e7);
    d.head_norm = Described::kEachHead;
    d.logit_divisor = 1 / double(0.8333333f);
  } else if (name == "cohere2") {
    windows(4);
    const auto turns = d.frequency;
    d.frequency = [=](int layer, int pair) { return sees_all(layer, 4) ? 0 : turns(layer, pair); };
  } else if (name == "olmo3") {
    windows(4);
  } else if (name == "olmo3-yarn") {
    windows(4);
    const auto local = d.frequency;
    d.frequency = [=](int layer, int pair) {
      return sees_all(layer, 4) ? yarn_frequency(5e5, pair, 8, 32, 1) : local(layer, pair);
    };
    d.magnitude = [=](int layer) { return sees_all(layer, 4) ? yarn_magnitude : 1; };
  } else if (name == "exaone4-windows" || name == "exaone-moe") {
    windows(4);
    const auto turns = d.frequency;
    d.frequency = [=](int layer, int pair) { return sees_all(layer, 4) ? 0 : turns(layer, pair); };
  } else if (name == "gemma2") {
    windows(2);
    d.score_cap = 50;
    d.logit_cap = 30;
  } else if (name == "gemma3") {
    windows(6);
    d.frequency = [](int layer, int pair) {
      const bool all = sees_all(layer, 6);
      return std::pow(all ? 1e6 : 1e4, -2.0 * pair / 32) / (all ? 8 : 1);
    };
  }
}

Described described(const FamilyFile& f) {
  Described d = plain(f.traits.architecture);
  d.layers = f.traits.layers;
  d.kv_heads = f.traits.kv_heads;
  d.experts = f.traits.experts;
  d.experts_used = f.traits.experts_used;
  d.dense_layers = f.traits.dense_layers;
  d.every = f.traits.every;
  if (f.name == "glm4moe-norms") {
    d.head_norm = Described::kEachHead;
    d.expert_scale = 2.5;
  }
  describe_variants(f.name, d);
  return d;
}

// All tensors of an F32 file.
std::map<std::string, Doubles> doubles_of(const std::string& bytes) {
  const auto file = file_of(bytes);
  std::map<std::string, Doubles> out;
  for (const TensorInfo& t : file->tensors()) {
    std::vector<float> values(std::size_t(t.elements()));
    std::memcpy(values.data(), t.data, values.size() * sizeof(float));
    out.emplace(t.name, Doubles(values.begin(), values.end()));
  }
  return out;
}

std::vector<float> flat(const std::vector<std::vector<float>>& rows) {
  std::vector<float> out;
  for (const auto& row : rows) out.insert(out.end(), row.begin(), row.end());
  return out;
}

// A prompt in batches of 64, then token by token.
std::vector<float> cpu_logits(const std::shared_ptr<Loaded>& file, KvTypes types,
                              const std::vector<std::int32_t>& tokens, std::size_t prompt) {
  CpuExecutor executor(std::shared_ptr<const Model>(file, &file->model),
                       CpuOptions{2, types, 16, 64});
  std::vector<float> out;
  const auto step = [&](std::size_t first, std::size_t count) {
    const auto logits = executor.forward(std::span(tokens).subspan(first, count), Logits::kAll);
    out.insert(out.end(), logits.begin(), logits.end());
  };
  if (prompt > 0) step(0, prompt);
  for (std::size_t i = prompt; i < tokens.size(); ++i) step(i, 1);
  return out;
}

constexpr KvTypes kExact{QuantFormat::kF32, QuantFormat::kF32};

}  // namespace

TEST_CASE("The reference computes what publishers describe, in float64", "[engine][families]") {
  for (const FamilyFile& family : family_files()) {
    // Many layers take long, and are variants of a family whose contexts are here in full.
    const auto tokens = prompt_of(family.traits.layers > 8 ? 24 : kTokens, 200);
    const auto file = loaded(family);
    const auto want = DoubleModel(described(family), doubles_of(file->bytes)).forward(tokens);
    std::vector<std::vector<float>> rounded;
    for (const Doubles& row : want) rounded.emplace_back(row.begin(), row.end());
    const Agreement a = compare(flat(ref::forward(file->model, tokens)), rounded);
    // The reference rounds some ten vectors of a layer to F32, each by 2^-24 / sqrt 3 of a value.
    // A score's rounding is one of its exponential, too.
    const double bound = 100 * family.traits.layers * std::pow(2.0, -48) / 3 *
                         family.largest_score * family.largest_score;
    CAPTURE(family.name, a.nmse / bound, a.mean_kl);
    CHECK(a.nmse <= bound);
  }
}

TEST_CASE("Every architecture that is executed has a family's file", "[engine][families]") {
  std::set<std::string> tested, executed;
  for (const FamilyFile& f : family_files()) tested.insert(f.traits.architecture);
  for (const Architecture& a : architectures()) executed.emplace(a.name);
  CHECK(tested == executed);
}

TEST_CASE("The CPU gives the reference's logits for every family", "[engine][families]") {
  const auto tokens = prompt_of(kTokens, 200);
  for (FamilyFile family : family_files()) {
    const auto file = loaded(family);
    const auto want = ref::forward(file->model, tokens);
    for (const std::size_t prompt : {std::size_t(0), std::size_t(130)}) {
      const Agreement a = compare(cpu_logits(file, kExact, tokens, prompt), want);
      CAPTURE(family.name, prompt, a.nmse, a.mean_kl);
      CHECK(a.nmse <= 1e-9);
      CHECK(a.mean_kl <= 1e-8);
    }
  }
}

TEST_CASE("Quantized weights and caches stay close to the reference in every family",
          "[engine][families]") {
  const auto tokens = prompt_of(kTokens, 200);
  for (FamilyFile family : family_files()) {
    // Routers of random weights have near ties, which rounding decides.
    if (family.traits.experts > 0) continue;
    if (family.largest_score > 1) family.vectors.clear();
    if (family.traits.layers > 8) family.traits.layers = 8;
    const auto exact = loaded(family);
    const auto want = ref::forward(exact->model, tokens);
    const auto kl = [&](QuantFormat type) {
      return compare(cpu_logits(exact, {type, type}, tokens, 120), want).mean_kl;
    };
    const double f16 = kl(QuantFormat::kF16), q8 = kl(QuantFormat::kQ8_0),
                 q4 = kl(QuantFormat::kQ4_0);
    CAPTURE(family.name, f16, q8, q4);
    CHECK(f16 <= 1e-6);
    CHECK(q8 <= 1e-3);
    CHECK(q4 <= 5e-2);
    family.mix = "Q8_0";
    const auto file = loaded(family);
    const Agreement a =
        compare(cpu_logits(file, kExact, tokens, 120), ref::forward(file->model, tokens));
    CAPTURE(a.nmse, rounding_bound(family.traits));
    CHECK(a.nmse <= rounding_bound(family.traits));
  }
}

// States of recurrent layers cannot be cut: they are kept after a prompt, or computed anew.
TEST_CASE("Truncation leaves the reference's logits in every family", "[engine][families]") {
  const auto tokens = prompt_of(60, 200);
  for (const FamilyFile& family : family_files()) {
    if (family.traits.layers > 8) continue;  // a variant of a family that is here
    const auto file = loaded(family);
    const auto want = ref::forward(file->model, tokens);
    CpuExecutor executor(std::shared_ptr<const Model>(file, &file->model),
                         CpuOptions{2, kExact, 16, 16});
    const std::vector<std::int32_t> others = prompt_of(20, 31);
    const auto check = [&](TokenCount from) {
      const auto rest = std::span(tokens).subspan(std::size_t(from));
      const auto got = executor.forward(rest, Logits::kAll);
      const std::vector<float> all(got.begin(), got.end());
      const Agreement a = compare(
          all, std::vector<std::vector<float>>(want.begin() + std::ptrdiff_t(from), want.end()));
      CAPTURE(family.name, from, a.nmse);
      CHECK(a.nmse <= 1e-9);
    };
    executor.forward(std::span(tokens).first(40), Logits::kNone);
    for (const std::int32_t other : others) executor.forward({&other, 1}, Logits::kNone);
    executor.truncate(40);  // to the end of a prompt
    check(40);
    executor.truncate(50);  // after it; then before it
    check(50);
    executor.truncate(17);
    executor.forward(others, Logits::kNone);
    executor.truncate(17);
    check(17);
    executor.truncate(0);
    check(0);
  }
}

// A prompt in chunks beside one that decodes, in steps of both.
TEST_CASE("Steps of several sequences give the reference's logits in every family",
          "[engine][families]") {
  const auto first = prompt_of(100, 200), second = prompt_of(80, 200);
  const std::vector<int> first_blocks = {0, 2, 4, 6, 8, 10, 12}, second_blocks = {1, 3, 5, 7, 9};
  for (const FamilyFile& family : family_files()) {
    if (family.traits.layers > 8) continue;  // a variant of a family that is here
    const auto file = loaded(family);
    const auto want = ref::forward(file->model, first);
    CpuBatchExecutor executor(std::shared_ptr<const Model>(file, &file->model),
                              CpuOptions{2, kExact}, BatchLimits{16, 16, 4, 64, 4});
    std::vector<float> got;
    std::vector<std::vector<float>> expected;
    const auto step = [&](std::size_t at, std::size_t count, std::size_t other,
                          std::size_t others) {
      std::vector<SequenceStep> steps = {
          {std::span(first).subspan(at, count), TokenCount(at), first_blocks}};
      if (others > 0)
        steps.push_back({std::span(second).subspan(other, others), TokenCount(other), second_blocks,
                         nullptr, 1});
      const auto logits = executor.logits(steps);
      got.insert(got.end(), logits.begin(), logits.begin() + 200);
      expected.push_back(want[at + count - 1]);
    };
    step(0, 40, 0, 0);
    step(40, 20, 0, 30);
    for (std::size_t i = 60; i < 100; ++i) step(i, 1, i - 30, 1);
    const Agreement a = compare(got, expected);
    CAPTURE(family.name, a.nmse);
    CHECK(a.nmse <= 1e-9);
  }
}

}  // namespace rigcast::engine
