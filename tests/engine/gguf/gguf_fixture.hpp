#pragma once
// GGUF files for tests: byte by byte, and whole models as converters write them.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/tensor_table.hpp"
#include "engine/gguf/file.hpp"
#include "engine/gguf/header.hpp"
#include "engine/gguf/part.hpp"
#include "tests/catch.hpp"
#include "tests/folder.hpp"

namespace rigcast::engine::fixtures {

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// Bytes in a row, little-endian.
class Raw {
 public:
  std::string bytes;

  template <class T>
  Raw& put(T number) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
    return *this;
  }
  Raw& u32(std::uint32_t n) { return put(n); }
  Raw& u64(std::uint64_t n) { return put(n); }
  Raw& text(std::string_view t) {
    u64(t.size());
    bytes += t;
    return *this;
  }
  Raw& raw(std::string_view t) {
    bytes += t;
    return *this;
  }
  /// Up to a multiple of `alignment`.
  Raw& pad(std::size_t alignment = 32) {
    bytes.resize((bytes.size() + alignment - 1) / alignment * alignment, '\0');
    return *this;
  }
  Raw& zeros(std::size_t count) {
    bytes.resize(bytes.size() + count, '\0');
    return *this;
  }
  /// Magic, version and counts.
  Raw& begin(std::uint64_t tensors, std::uint64_t entries, std::uint32_t version = 3) {
    return raw("GGUF").u32(version).u64(tensors).u64(entries);
  }
  Raw& tensor(std::string_view name, const std::vector<std::uint64_t>& shape, std::uint32_t type,
              std::uint64_t offset) {
    text(name).u32(std::uint32_t(shape.size()));
    for (const std::uint64_t width : shape) u64(width);
    return u32(type).u64(offset);
  }
};

inline Result<GgufPart> part_of(const std::string& bytes) {
  return read_part(bytes_of(bytes), "x.gguf");
}
inline Result<GgufFile> file_of(const std::string& bytes) {
  return GgufFile::from_bytes(bytes_of(bytes), "x.gguf");
}
/// The error's text, or nothing if there was none.
template <class T>
std::string error_of(const Result<T>& result) {
  return result ? "" : result.error().text();
}
inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The header and zeros for data: small floats of value 0.
inline std::string with_zeros(const GgufHeader& header) {
  std::string bytes = header.encode();
  bytes.resize(bytes.size() + std::size_t(header.data_bytes()), '\0');
  return bytes;
}

/// The header as a sparse file, whose data use no space on the disk.
inline void write_sparse(const GgufHeader& header, const std::filesystem::path& path) {
  const std::string bytes = header.encode();
  std::ofstream(path, std::ios::binary) << bytes;
  std::filesystem::resize_file(path, bytes.size() + header.data_bytes());
}

/// The keys that converters write for such a model.
inline void set_metadata(const ModelSpec& m, GgufHeader& header) {
  const auto key = [&](const char* end) { return m.architecture + "." + end; };
  header.set("general.architecture", m.architecture);
  header.set("general.name", m.name);
  header.set(key("block_count"), std::uint32_t(m.layers + m.nextn_layers));
  header.set(key("context_length"), std::uint32_t(m.context));
  header.set(key("embedding_length"), std::uint32_t(m.hidden));
  if (m.ffn > 0) header.set(key("feed_forward_length"), std::uint32_t(m.ffn));
  header.set(key("attention.head_count"), std::uint32_t(m.heads));
  header.set(key("attention.head_count_kv"), std::uint32_t(m.mla ? 1 : m.kv_heads));
  if (m.nextn_layers > 0) header.set(key("nextn_predict_layers"), std::uint32_t(m.nextn_layers));
  if (m.mla) {
    const LatentAttention& a = *m.mla;
    if (a.q_lora_rank > 0) header.set(key("attention.q_lora_rank"), std::uint32_t(a.q_lora_rank));
    header.set(key("attention.kv_lora_rank"), std::uint32_t(a.kv_lora_rank));
    header.set(key("attention.key_length"), std::uint32_t(a.kv_lora_rank + a.qk_rope_dim));
    header.set(key("attention.value_length"), std::uint32_t(a.kv_lora_rank));
    header.set(key("attention.key_length_mla"), std::uint32_t(a.qk_nope_dim + a.qk_rope_dim));
    header.set(key("attention.value_length_mla"), std::uint32_t(a.v_dim));
    header.set(key("rope.dimension_count"), std::uint32_t(a.qk_rope_dim));
  } else {
    header.set(key("attention.key_length"), std::uint32_t(m.head_dim));
    header.set(key("attention.value_length"), std::uint32_t(m.head_dim));
    header.set(key("rope.dimension_count"), std::uint32_t(m.head_dim));
  }
  if (m.indexer) header.set(key("attention.indexer.key_length"), std::uint32_t(m.indexer->key_dim));
  if (m.window) {
    header.set(key("attention.sliding_window"), std::uint32_t(m.window->tokens));
    header.set(key("attention.sliding_window_pattern"), std::uint32_t(m.window->full_every));
  }
  if (m.moe) {
    header.set(key("expert_count"), std::uint32_t(m.moe->experts));
    header.set(key("expert_used_count"), std::uint32_t(m.moe->experts_used));
    const bool mixtral = m.architecture == "llama";  // its experts are as wide as an FFN would be
    header.set(key(mixtral ? "feed_forward_length" : "expert_feed_forward_length"),
               std::uint32_t(m.moe->expert_ffn));
    if (m.moe->dense_layers > 0)
      header.set(key("leading_dense_block_count"), std::uint32_t(m.moe->dense_layers));
    if (m.moe->every > 1) header.set(key("interleave_moe_layer_step"), std::uint32_t(m.moe->every));
  }
}

inline void add_tensors(const TensorTable& table, GgufHeader& header) {
  for (const Tensor& t : table.tensors)
    header.add_tensor(t.name, t.format, std::span(t.shape.data(), std::size_t(t.dimensions)));
}

inline TensorTable table_of(const ModelSpec& model, std::string_view mix_name) {
  const auto mix = QuantMix::from_name(mix_name);
  REQUIRE(mix.ok());
  auto table = make_tensor_table(model, *mix);
  REQUIRE(table.ok());
  return *std::move(table);
}

inline GgufHeader header_of(const ModelSpec& model, std::string_view mix_name) {
  GgufHeader header;
  set_metadata(model, header);
  add_tensors(table_of(model, mix_name), header);
  return header;
}

/// A few kilobytes of a model: two layers, 4 heads of 8, 2 KV heads.
inline ModelSpec tiny(std::string architecture) {
  ModelSpec m;
  m.id = "tiny";
  m.name = "Tiny";
  m.source = "fixture";
  m.architecture = std::move(architecture);
  m.layers = 2;
  m.hidden = 32;
  m.heads = 4;
  m.kv_heads = 2;
  m.head_dim = 8;
  m.ffn = 64;
  m.vocabulary = 40;
  m.context = 512;
  m.qkv_bias = m.architecture == "qwen2";
  m.qk_norm = m.architecture.starts_with("qwen3");
  if (m.architecture == "qwen3moe") {
    m.ffn = 0;
    m.moe = MixtureOfExperts{};
    m.moe->experts = 4;
    m.moe->experts_used = 2;
    m.moe->expert_ffn = 32;
  }
  return m;
}

/// A SentencePiece vocabulary for tiny(): three special tokens, then single characters from 'D' on.
inline void set_tiny_vocabulary(GgufHeader& header) {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  while (tokens.size() < 40) tokens.push_back(std::string(1, char('A' + int(tokens.size()))));
  header.set("tokenizer.ggml.model", "llama");
  header.set("tokenizer.ggml.tokens", tokens);
  header.set("tokenizer.ggml.scores", std::vector<float>(40, -1.0f));
  header.set("tokenizer.ggml.bos_token_id", std::uint32_t(1));
}

}  // namespace rigcast::engine::fixtures
