#pragma once
// Tables of a profile about kernels.

#include <optional>
#include <string_view>

#include "core/runtime/gpu_efficiency.hpp"
#include "core/runtime/runtime_profile.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {

inline Sourced<Seconds> duration(const TomlTable& t, std::string_view key) {
  return t.figure<Seconds>(key, Seconds{0}, Seconds{10});
}

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

/// The tiles of `[blocks.wide]`; nullopt if there is no such table.
inline std::optional<WideTiles> read_wide_tiles(const TomlTable& t) {
  if (t.keys().empty()) return std::nullopt;
  WideTiles w;
  w.until_batch = t.number_figure("until_batch", 1, 1e6);
  w.rows = t.number_figure("rows", 1, 4096);
  w.tokens = t.number_figure("tokens", 2, 4096);
  w.start = duration(t, "start");
  w.rate = t.number_figure("rate", 0.01, 2);
  w.half_rate = t.number_figure("half_rate", 0.01, 2);
  w.single_rate = t.find_number_figure("single_rate", 0.01, 2).value_or(w.half_rate);
  if (t.has("sharing")) w.sharing = duration(t, "sharing");
  t.finish();
  return w;
}

/// `[blocks.wide_head_attention]`; nullopt if there is no such table.
inline std::optional<WideHeadAttention> read_wide_head_attention(const TomlTable& t) {
  if (t.keys().empty()) return std::nullopt;
  WideHeadAttention w;
  w.above = t.number_figure("above", 1, 4096);
  w.rows = t.number_figure("rows", 1, 65536);
  w.values = t.number_figure("values", 1, 4096);
  t.finish();
  return w;
}

/// `[blocks.warpgroup_attention]`; nullopt if there is no such table.
inline std::optional<WarpgroupAttention> read_warpgroup_attention(const TomlTable& t) {
  if (t.keys().empty()) return std::nullopt;
  WarpgroupAttention w;
  w.max_dim = t.number_figure("max_dim", 1, 4096);
  w.min_keys = t.number_figure("min_keys", 0, 1e6);
  w.key = duration(t, "key");
  w.step = duration(t, "step");
  if (t.has("convert")) w.convert = duration(t, "convert");
  t.finish();
  return w;
}

/// The tables of `[blocks]` about blocks of other shapes.
inline void read_kinds_of_blocks(const TomlTable& t, BlockEfficiency& b) {
  b.wide = read_wide_tiles(t.table("wide"));
  b.wide_head_attention = read_wide_head_attention(t.table("wide_head_attention"));
  b.warpgroup_attention = read_warpgroup_attention(t.table("warpgroup_attention"));
}

}  // namespace rigcast
