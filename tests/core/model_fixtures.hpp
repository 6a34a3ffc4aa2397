#pragma once
// Shapes of published models for tests, apart from models/: what a test states must not change with
// the data. From the publishers' config.json.

#include <cstdint>
#include <string>
#include <utility>

#include "core/model/model_spec.hpp"

namespace rigcast::fixtures {

struct Dense {
  int layers;
  std::int64_t hidden;
  int heads;
  int kv_heads;
  std::int64_t head_dim;
  std::int64_t ffn;
  std::int64_t vocabulary;
};

inline ModelSpec dense(std::string architecture, Dense d) {
  ModelSpec m;
  m.id = m.name = m.source = "fixture";
  m.architecture = std::move(architecture);
  m.layers = d.layers;
  m.hidden = d.hidden;
  m.heads = d.heads;
  m.kv_heads = d.kv_heads;
  m.head_dim = d.head_dim;
  m.ffn = d.ffn;
  m.vocabulary = d.vocabulary;
  m.context = 4096;
  return m;
}

inline ModelSpec llama_2_7b() { return dense("llama", {32, 4096, 32, 32, 128, 11008, 32000}); }
inline ModelSpec mistral_7b_v0_1() { return dense("llama", {32, 4096, 32, 8, 128, 14336, 32000}); }
inline ModelSpec mistral_7b_v0_3() { return dense("llama", {32, 4096, 32, 8, 128, 14336, 32768}); }
inline ModelSpec llama_3_8b() { return dense("llama", {32, 4096, 32, 8, 128, 14336, 128256}); }

inline ModelSpec llama_3_1_8b() {
  ModelSpec m = llama_3_8b();
  m.rope_freqs = true;
  return m;
}

inline ModelSpec llama_3_1_70b() {
  ModelSpec m = dense("llama", {80, 8192, 64, 8, 128, 28672, 128256});
  m.rope_freqs = true;
  return m;
}

inline ModelSpec llama_3_2_3b() {
  ModelSpec m = dense("llama", {28, 3072, 24, 8, 128, 8192, 128256});
  m.rope_freqs = true;
  m.tied_embeddings = true;
  return m;
}

inline ModelSpec qwen2_5(Dense d) {
  ModelSpec m = dense("qwen2", d);
  m.qkv_bias = true;
  return m;
}
inline ModelSpec qwen2_5_7b() { return qwen2_5({28, 3584, 28, 4, 128, 18944, 152064}); }
inline ModelSpec qwen2_5_32b() { return qwen2_5({64, 5120, 40, 8, 128, 27648, 152064}); }
inline ModelSpec qwen2_5_0_5b() {
  ModelSpec m = qwen2_5({24, 896, 14, 2, 64, 4864, 151936});
  m.tied_embeddings = true;
  return m;
}

inline ModelSpec qwen3_8b() {
  ModelSpec m = dense("qwen3", {36, 4096, 32, 8, 128, 12288, 151936});
  m.qk_norm = true;
  return m;
}

inline ModelSpec with_experts(ModelSpec m, int experts, int used, std::int64_t ffn) {
  m.ffn = 0;
  m.moe.emplace();
  m.moe->experts = experts;
  m.moe->experts_used = used;
  m.moe->expert_ffn = ffn;
  return m;
}

inline ModelSpec mixtral_8x7b() { return with_experts(mistral_7b_v0_1(), 8, 2, 14336); }

inline ModelSpec qwen3_30b_a3b() {
  ModelSpec m = dense("qwen3moe", {48, 2048, 32, 4, 128, 0, 151936});
  m.qk_norm = true;
  return with_experts(m, 128, 8, 768);
}

inline ModelSpec gpt_oss_20b() {
  ModelSpec m = with_experts(dense("gpt-oss", {24, 2880, 64, 8, 64, 0, 201088}), 32, 4, 2880);
  m.qkv_bias = m.output_bias = m.attention_sinks = true;
  m.moe->router_bias = m.moe->expert_bias = true;
  m.window = SlidingWindow{.tokens = 128, .full_every = 2};
  return m;
}

inline ModelSpec deepseek_v2_lite() {
  ModelSpec m = dense("deepseek2", {27, 2048, 16, 16, 128, 10944, 102400});
  m = with_experts(m, 64, 6, 1408);
  m.ffn = 10944;
  m.moe->dense_layers = 1;
  m.moe->shared_ffn = 2816;
  m.mla = LatentAttention{
      .q_lora_rank = 0, .kv_lora_rank = 512, .qk_nope_dim = 128, .qk_rope_dim = 64, .v_dim = 128};
  return m;
}

inline ModelSpec phi_4() {
  ModelSpec m = dense("phi3", {40, 5120, 40, 10, 128, 17920, 100352});
  m.fused_qkv = m.fused_gate_up = true;
  return m;
}

inline ModelSpec gemma_2_2b() {
  ModelSpec m = dense("gemma2", {26, 2304, 8, 4, 256, 9216, 256000});
  m.tied_embeddings = true;
  m.norms_per_layer = 4;
  m.window = SlidingWindow{.tokens = 4096, .full_every = 2};
  return m;
}

inline ModelSpec falcon_7b() {
  ModelSpec m = dense("falcon", {32, 4544, 71, 1, 64, 18176, 65024});
  m.fused_qkv = m.norm_bias = true;
  m.gated_ffn = false;
  m.norms_per_layer = 1;
  return m;
}

}  // namespace rigcast::fixtures
