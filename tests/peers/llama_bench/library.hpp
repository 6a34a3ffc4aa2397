#pragma once
// libllama and libggml of one of the releases whose interface llama_h.hpp declares.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/peers/llama_bench/buffer_sizes.hpp"
#include "tests/peers/llama_bench/llama_h.hpp"
#include "tests/peers/llama_bench/settings.hpp"

namespace llama_bench {

/// Functions of the libraries that are the same in both releases, under their own names.
struct Functions {
  void (*llama_log_set)(llama_h::LogCallback, void*);
  void (*llama_backend_init)();
  void (*llama_numa_init)(int);
  std::size_t (*llama_max_devices)();
  void (*llama_model_free)(llama_h::Model*);
  std::int32_t (*llama_model_desc)(const llama_h::Model*, char*, std::size_t);
  std::uint64_t (*llama_model_size)(const llama_h::Model*);
  std::uint64_t (*llama_model_n_params)(const llama_h::Model*);
  const llama_h::Vocab* (*llama_model_get_vocab)(const llama_h::Model*);
  std::int32_t (*llama_vocab_n_tokens)(const llama_h::Vocab*);
  bool (*llama_vocab_get_add_bos)(const llama_h::Vocab*);
  llama_h::Token (*llama_vocab_bos)(const llama_h::Vocab*);
  void (*llama_free)(llama_h::Context*);
  llama_h::Memory* (*llama_get_memory)(const llama_h::Context*);
  void (*llama_memory_clear)(llama_h::Memory*, bool);
  void (*llama_memory_seq_cp)(llama_h::Memory*, std::int32_t from, std::int32_t to,
                              std::int32_t begin, std::int32_t end);
  bool (*llama_memory_seq_rm)(llama_h::Memory*, std::int32_t sequence, std::int32_t begin,
                              std::int32_t end);
  std::uint32_t (*llama_n_ctx)(const llama_h::Context*);
  llama_h::Batch (*llama_batch_get_one)(llama_h::Token*, std::int32_t);
  std::int32_t (*llama_decode)(llama_h::Context*, llama_h::Batch);
  void (*llama_synchronize)(llama_h::Context*);
  void (*llama_set_n_threads)(llama_h::Context*, std::int32_t, std::int32_t);
  void (*llama_attach_threadpool)(llama_h::Context*, llama_h::ThreadPool*, llama_h::ThreadPool*);
  llama_h::PerfContextData (*llama_perf_context)(const llama_h::Context*);
  void (*llama_perf_context_reset)(llama_h::Context*);
  std::size_t (*llama_state_seq_get_size)(llama_h::Context*, std::int32_t);
  std::size_t (*llama_state_seq_get_data)(llama_h::Context*, std::uint8_t*, std::size_t,
                                          std::int32_t);
  std::size_t (*llama_state_seq_set_data)(llama_h::Context*, const std::uint8_t*, std::size_t,
                                          std::int32_t);
  void (*ggml_backend_load_all_from_path)(const char*);
  std::size_t (*ggml_backend_dev_count)();
  llama_h::Device* (*ggml_backend_dev_get)(std::size_t);
  llama_h::Device* (*ggml_backend_dev_by_type)(int);
  const char* (*ggml_backend_dev_name)(llama_h::Device*);
  const char* (*ggml_backend_dev_description)(llama_h::Device*);
  int (*ggml_backend_dev_type)(llama_h::Device*);
  void (*ggml_backend_dev_memory)(llama_h::Device*, std::size_t*, std::size_t*);
  llama_h::BufferType* (*ggml_backend_dev_buffer_type)(llama_h::Device*);
  const char* (*ggml_backend_buft_name)(llama_h::BufferType*);
  llama_h::Registry* (*ggml_backend_dev_backend_reg)(llama_h::Device*);
  void* (*ggml_backend_reg_get_proc_address)(llama_h::Registry*, const char*);
  std::size_t (*ggml_backend_reg_count)();
  llama_h::Registry* (*ggml_backend_reg_get)(std::size_t);
  const char* (*ggml_backend_reg_name)(llama_h::Registry*);
  llama_h::ThreadPoolParams (*ggml_threadpool_params_default)(int);
  llama_h::ThreadPool* (*ggml_threadpool_new)(llama_h::ThreadPoolParams*);
  void (*ggml_threadpool_free)(llama_h::ThreadPool*);
};

struct DeviceMemory {
  std::string name;
  std::size_t free = 0, total = 0;  // bytes
};

/// The cells of a cache: of all its sequences together.
struct CacheSize {
  std::int64_t tokens = 0;  // 0: the context that the model was trained with
  int sequences = 1;
  bool unified = false;  // sequences share cells; else each has an equal part of its own
};

class Library {
 public:
  /// Loads libllama.*so*, libggml.*so* and backends of the folder. Throws Failure where there is
  /// none, it is of another release than those declared, or its defaults, read through the
  /// declarations, are not that release's.
  Library(const std::filesystem::path& folder, bool verbose);
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const Functions* operator->() const { return &functions_; }

  using Model = std::unique_ptr<llama_h::Model, void (*)(llama_h::Model*)>;
  using Context = std::unique_ptr<llama_h::Context, void (*)(llama_h::Context*)>;
  using ThreadPool = std::unique_ptr<llama_h::ThreadPool, void (*)(llama_h::ThreadPool*)>;
  /// Throw Failure where the library does not; it wrote why to its log.
  Model load(const ModelSettings& settings);
  Context make_context(llama_h::Model& model, const ContextSettings& settings,
                       const CacheSize& size);
  /// Threads that stay; without them the library starts new ones for each graph.
  ThreadPool make_threads(int count);

  std::string release() const { return is_v0_5_0_ ? "v0.5.0" : "b7347"; }
  int build_number() const { return is_v0_5_0_ ? 0 : 7347; }  // 0: releases have none
  std::string cpu_names() const { return device_names(true); }
  std::string gpu_names() const { return device_names(false); }
  std::string backends() const;
  int default_gpu_layers() const;
  std::vector<DeviceMemory> gpu_memory() const;
  const BufferSizes& buffer_sizes() const { return buffer_sizes_; }

 private:
  void* symbol(const char* name) const;
  template <class Params>
  Params model_defaults() const;
  template <class Params>
  Params context_defaults() const;
  void resolve();
  void check_release(const std::string& file);
  void warn_without_gpu(const std::filesystem::path& folder) const;
  template <class ModelParams>
  Model load_as(ModelParams params, const ModelSettings& settings);
  template <class ContextParams>
  Context make_context_as(ContextParams params, llama_h::Model& model,
                          const ContextSettings& settings, const CacheSize& size);
  std::vector<llama_h::TensorOverride> overrides(const ModelSettings& settings) const;
  llama_h::BufferType* buffer_type(const std::string& name) const;
  std::string device_names(bool cpus) const;
  static void on_log(int level, const char* text, void* library);

  std::vector<void*> opened_;
  Functions functions_{};
  bool is_v0_5_0_ = false;
  bool verbose_ = false;
  int log_level_ = 0;
  std::string log_line_;
  BufferSizes buffer_sizes_;
  // What parameters of the model refer to.
  std::vector<std::string> patterns_;
  std::vector<llama_h::TensorOverride> overrides_;
  std::vector<float> split_;
};

}  // namespace llama_bench
