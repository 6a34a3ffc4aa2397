#pragma once
// The table [kernels] of a profile.

#include "core/runtime/runtime_profile.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {

inline RuntimeProfile::Kernels read_kernels(const TomlTable& t) {
  RuntimeProfile::Kernels k;
  k.attention = t.number_figure("attention", 0, 10'000);
  k.latent = t.find_number_figure("latent", 0, 10'000).value_or(k.attention);
  k.recurrent = t.number_figure("recurrent", 0, 10'000);
  k.ffn = t.number_figure("ffn", 0, 10'000);
  k.moe = t.number_figure("moe", 0, 10'000);
  k.head = t.number_figure("head", 0, 10'000);
  const Sourced<double> none{0.0, SourceKind::kAssumed, {}};
  k.mamba = t.find_number_figure("mamba", 0, 10'000);
  k.short_convolution = t.find_number_figure("short_convolution", 0, 10'000);
  k.norm = t.find_number_figure("norm", 0, 100).value_or(none);
  k.layer_norm = t.find_number_figure("layer_norm", 0, 100).value_or(k.norm);
  k.head_width = t.find_number_figure("head_width", 0, 100).value_or(none);
  k.token_attention = t.find_number_figure("token_attention", 0, 10'000);
  k.query_head = t.find_number_figure("query_head", 0, 100).value_or(none);
  k.token_moe = t.find_number_figure("token_moe", 0, 10'000);
  k.chosen_expert = t.find_number_figure("chosen_expert", 0, 100).value_or(none);
  k.offload = t.find_number_figure("offload", 0, 10'000).value_or(none);
  k.eager = t.flag("eager", false);
  t.finish();
  return k;
}

}  // namespace rigcast
