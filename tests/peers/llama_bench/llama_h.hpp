#pragma once
// Declarations of the C interface of llama.cpp that llama_bench calls, of two releases. Structures
// of parameters are passed by value and differ from release to release; what is the same in both
// stands once.
//
// From include/llama.h, ggml/include/ggml.h and ggml/include/ggml-cpu.h of the releases b7347
// (December 2025) and v0.5.0 (September 2026) of https://github.com/ggml-org/llama.cpp:
// field order, types and values of enumerations; names of fields are theirs, enumerations are
// integers and truth values are bytes here. The sizes below are those that
// llama_model_default_params and llama_context_default_params of these releases fill.
//
// MIT License. Copyright (c) 2023-2026 The ggml authors. Permission is hereby granted, free of
// charge, to any person obtaining a copy of this software and associated documentation files (the
// "Software"), to deal in the Software without restriction, including without limitation the rights
// to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software,
// and to permit persons to whom the Software is furnished to do so, subject to the following
// conditions: The above copyright notice and this permission notice shall be included in all copies
// or substantial portions of the Software. THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF
// ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
// FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT
// HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT,
// TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER
// DEALINGS IN THE SOFTWARE.

#include <cstddef>
#include <cstdint>

namespace llama_h {

struct Model;
struct Context;
struct Vocab;
struct Memory;
struct Device;      // ggml_backend_dev_t points to it
struct Registry;    // ggml_backend_reg_t
struct BufferType;  // ggml_backend_buffer_type_t
struct ThreadPool;

using Token = std::int32_t;
using Bool = std::uint8_t;

enum LogLevel : int { kLogError = 4, kLogContinued = 5 };
using LogCallback = void (*)(int level, const char* text, void* data);

enum DeviceType : int { kDeviceCpu = 0, kDeviceGpu = 1, kDeviceIntegratedGpu = 2 };

struct Batch {
  std::int32_t n_tokens;
  Token* token;
  float* embd;
  std::int32_t* pos;
  std::int32_t* n_seq_id;
  std::int32_t** seq_id;
  std::int8_t* logits;
};

struct TensorOverride {
  const char* pattern;
  BufferType* buft;
};

struct PerfContextData {
  double t_start_ms, t_load_ms, t_p_eval_ms, t_eval_ms;
  std::int32_t n_p_eval, n_eval, n_reused;
};

struct ThreadPoolParams {
  Bool cpumask[512];
  int n_threads;
  int prio;
  std::uint32_t poll;
  Bool strict_cpu, paused;
};

namespace b7347 {

struct ModelParams {
  Device** devices;
  const TensorOverride* tensor_buft_overrides;
  std::int32_t n_gpu_layers;
  std::int32_t split_mode;
  std::int32_t main_gpu;
  const float* tensor_split;
  void* progress_callback;
  void* progress_callback_user_data;
  const void* kv_overrides;
  Bool vocab_only, use_mmap, use_mlock, check_tensors, use_extra_bufts, no_host;
};

struct ContextParams {
  std::uint32_t n_ctx, n_batch, n_ubatch, n_seq_max;
  std::int32_t n_threads, n_threads_batch;
  std::int32_t rope_scaling_type, pooling_type, attention_type, flash_attn_type;
  float rope_freq_base, rope_freq_scale;
  float yarn_ext_factor, yarn_attn_factor, yarn_beta_fast, yarn_beta_slow;
  std::uint32_t yarn_orig_ctx;
  float defrag_thold;
  void* cb_eval;
  void* cb_eval_user_data;
  std::int32_t type_k, type_v;
  void* abort_callback;
  void* abort_callback_data;
  Bool embeddings, offload_kqv, no_perf, op_offload, swa_full, kv_unified;
};

static_assert(sizeof(ModelParams) == 72 && sizeof(ContextParams) == 120);

}  // namespace b7347

namespace v0_5_0 {

enum LoadMode : std::int32_t {
  kLoadAuto = -1,
  kLoadNone = 0,
  kLoadMmap = 1,
  kLoadMlock = 2,
  kLoadMmapMlock = 3,
  kLoadDirect = 4
};

struct ModelParams {
  Device** devices;
  const TensorOverride* tensor_buft_overrides;
  std::int32_t n_gpu_layers;
  std::int32_t split_mode;
  std::int32_t load_mode;
  std::int32_t lazy_mode;
  std::int32_t main_gpu;
  const float* tensor_split;
  void* progress_callback;
  void* progress_callback_user_data;
  const void* kv_overrides;
  Bool vocab_only, check_tensors, use_extra_bufts, no_host, no_alloc, load_mtp;
};

struct ContextParams {
  std::uint32_t n_ctx, n_batch, n_ubatch, n_seq_max;
  std::uint32_t n_rs_seq, n_outputs_max, n_outputs_max_per_seq;
  std::int32_t n_threads, n_threads_batch;
  std::int32_t ctx_type;
  std::int32_t rope_scaling_type, pooling_type, attention_type, flash_attn_type;
  float rope_freq_base, rope_freq_scale;
  float yarn_ext_factor, yarn_attn_factor, yarn_beta_fast, yarn_beta_slow;
  std::uint32_t yarn_orig_ctx;
  float defrag_thold;
  void* cb_eval;
  void* cb_eval_user_data;
  std::int32_t type_k, type_v;
  void* abort_callback;
  void* abort_callback_data;
  Bool embeddings, offload_kqv, no_perf, op_offload, swa_full, kv_unified;
  void* samplers;
  std::size_t n_samplers;
  Context* ctx_other;
};

static_assert(sizeof(ModelParams) == 80 && sizeof(ContextParams) == 160);

}  // namespace v0_5_0
}  // namespace llama_h
