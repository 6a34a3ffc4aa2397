#pragma once
// Tables of a profile about kernels.

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/hardware/gpu_architecture.hpp"
#include "core/runtime/gpu_efficiency.hpp"
#include "core/runtime/runtime_profile.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {

inline constexpr double kMaxScale = 100.0;

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

inline std::vector<std::string> read_architectures(const TomlTable& t, const char* key) {
  std::vector<std::string> all = t.texts(key);
  for (const std::string& name : all)
    if (!gpu_architecture(name)) t.refuse(key, fmt::format("no architecture named \"{}\"", name));
  return all;
}

inline std::optional<BlockEfficiency> read_blocks(const TomlTable& t) {
  if (t.keys().empty()) return std::nullopt;
  BlockEfficiency b;
  b.architectures = read_architectures(t, "architectures");
  b.writes_out = read_architectures(t, "writes_out");
  b.gemm_tile = t.number_figure("gemm_tile", 8, 4096);
  b.tile_rows = t.number_figure("tile_rows", 1, 4096);
  b.tile_tokens = t.number_figure("tile_tokens", 1, 4096);
  b.tile_start = duration(t, "tile_start");
  b.expert_half_rate_batch = t.find_number_figure("expert_half_rate_batch", 0, 1e6);
  b.other_tiles = t.find_number_figure("other_tiles", 0.01, 4);
  b.half_rate_flops = t.find_number_figure("half_rate_flops", 1, 1e6);
  b.fp16_from_batch = t.number_figure("fp16_from_batch", 1, 1e6);
  read_kinds_of_blocks(t, b);
  b.token_rows = t.number_figure("token_rows", 1, 4096);
  b.fifth_block_bits = t.find_number_figure("fifth_block_bits", 0, 32).value_or(b.fifth_block_bits);
  b.token_idle = t.number_figure("token_idle", 0, 1);
  b.launch = t.number_figure("launch", 0.1, kMaxScale);
  b.gap = t.number_figure("gap", 0.01, kMaxScale);
  b.tile_read = t.number_figure("tile_read", 0.01, 1);
  b.vector_bytes = t.number_figure("vector_bytes", 0, 1000);
  b.attention_rows = t.number_figure("attention_rows", 1, 65536);
  b.attention_split_keys =
      t.find_number_figure("attention_split_keys", 0, 1e6).value_or(Sourced<double>{});
  b.latent_heads = t.find_number_figure("latent_heads", 1, 1024);
  if (t.has("latent_key")) b.latent_key = duration(t, "latent_key");
  if (b.latent_key && !b.latent_heads)
    t.refuse("latent_key", "latent_key is the time of a block of heads", "state latent_heads");
  b.scan_cycles = t.find_number_figure("scan_cycles", 0, 1000).value_or(Sourced<double>{});
  b.attention_key = duration(t, "attention_key");
  b.attention_step = duration(t, "attention_step");
  for (const auto& [key, to] : {std::pair{"scan_step", &b.scan_step},
                                {"router_column", &b.router_column},
                                {"choice_round", &b.choice_round},
                                {"sorted_choice", &b.sorted_choice}})
    if (t.has(key)) *to = duration(t, key);
  if (t.has("single_start")) b.single_start = duration(t, "single_start");
  b.quantized_start = duration(t, "quantized_start");
  b.quantized_cache = t.number_figure("quantized_cache", 0.01, 4);
  if (t.has("quantized_key")) b.quantized_key = duration(t, "quantized_key");
  t.finish();
  return b;
}

}  // namespace rigcast
