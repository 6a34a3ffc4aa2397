#pragma once
// What every family's file describes, for the forward pass in float64.

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/kernels/ref/dequantize.hpp"
#include "tests/engine/architectures/double_forward.hpp"
#include "tests/engine/architectures/family_files.hpp"
#include "tests/engine/gguf/gguf_fixture.hpp"

namespace rigcast::engine::fixtures {

inline constexpr int kWindow = 48;      // of families' files
inline constexpr double kContext = 64;  // of yarn_keys()

inline std::function<double(int, int)> plain_rope(double base, int turned = 32) {
  return [=](int, int pair) { return std::pow(base, -2.0 * pair / turned); };
}

// YaRN as its paper has it: a share of each of the two frequencies, by a ramp over the pairs.
inline double yarn_frequency(double base, int pair, double factor, double fast, double slow) {
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

inline std::function<double(int, int)> yarn_rope(double base, double fast = 32) {
  return [=](int, int pair) { return yarn_frequency(base, pair, 8, fast, 1); };
}

inline double tanh_gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

// Of the numbers that synth writes: both alphas 0.8, beta 0.5, epsilon -1e-6.
inline double xielu_of_trained(double x) {
  const double alpha = std::log(1 + std::exp(double(0.8f)));
  if (x > 0) return alpha * x * x + 0.5 * x;
  return (0.5 + alpha) * (std::exp(std::min(x, double(-1e-6f))) - 1 - x) + 0.5 * x;
}

inline bool sees_all(int layer, int every) { return (layer + 1) % every == 0; }

/// What `architecture` does, stated here once more.
inline Described plain(const std::string& architecture) {
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
      {"phimoe", [&] { rope(true, 1e4, 1e-5); }},
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
      {"falcon-h1",
       [&] {
         rope(true, 1e11, 1e-5);
         d.mixer = Described::kMamba;
         d.mixer_sizes = {8, 2, 128};
         d.recurrent = [](int) { return true; };
         d.mixes_beside = true;
       }},
      {"nemotron_h",
       [&] {
         d.frequency = [](int, int) { return 0.0; };
         d.mixer = Described::kMamba;
         d.mixer_sizes = {8, 2, 128};
         d.recurrent = [](int layer) { return layer % 4 == 0; };
         d.attends = [](int layer) { return layer % 4 == 2; };
         d.has_ffn = [](int layer) { return layer % 2 == 1; };
         d.ffn_norm = "attn_norm";
         d.mlp = [](double x) { return x > 0 ? x * x : 0.0; };
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
       }},
  };
  if (architecture == "mistral4") return plain("deepseek2");
  if (architecture == "gemma2" || architecture == "gemma3" || architecture == "gemma4") {
    d = plain("gemma");
    d.norms_output = true;
    if (architecture != "gemma2") d.head_norm = Described::kEachHead;
    return d;
  }
  if (architecture == "qwen35moe" || architecture == "qwen3next") {
    d = plain("qwen35");
    d.mixer_sizes.neighbours = architecture == "qwen3next";
    return d;
  }
  if (architecture == "nemotron_h_moe") {
    d = plain("nemotron_h");
    d.sigmoids = true;
    d.expert_scale = 2.5;
    return d;
  }
  if (architecture == "lfm2moe") {
    d = plain("lfm2");
    d.sigmoids = true;
    return d;
  }
  all.at(architecture)();
  return d;
}

// Layers of Gemma 4 that see all tokens have wider heads, whose pairs turn by factors.
inline void describe_gemma4(bool small, Described& d) {
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

inline void describe_variants(const std::string& name, Described& d) {
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
  } else if (name == "phimoe") {
    d.frequency = [](int, int pair) {
      return std::pow(1e4, -2.0 * pair / 32) / (1 + double(0.1f) * pair);
    };
  } else if (name.starts_with("gemma4")) {
    describe_gemma4(name == "gemma4-small", d);
    d.experts_beside = name == "gemma4-experts";
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

/// What the file describes.
inline Described described(const FamilyFile& f) {
  Described d = plain(f.traits.architecture);
  d.layers = f.traits.layers;
  d.heads = f.traits.heads;
  d.hidden = int(f.traits.hidden);
  if (f.traits.architecture.starts_with("gemma")) d.embedding_scale = std::sqrt(double(d.hidden));
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
  if (f.traits.experts_used == f.traits.experts) d.groups_used = d.groups;
  return d;
}

/// All tensors of a file, as its blocks state them.
inline std::map<std::string, Doubles> doubles_of(const std::string& bytes) {
  const auto file = file_of(bytes);
  std::map<std::string, Doubles> out;
  for (const TensorInfo& t : file->tensors()) {
    std::vector<float> values(std::size_t(t.elements()));
    ref::dequantize(*t.type->format, t.data, values);
    out.emplace(t.name, Doubles(values.begin(), values.end()));
  }
  return out;
}

}  // namespace rigcast::engine::fixtures
