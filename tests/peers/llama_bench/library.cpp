#include "tests/peers/llama_bench/library.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>

namespace llama_bench {
namespace {

namespace fs = std::filesystem;

constexpr int kF16 = 1;  // of enum ggml_type

// The library of the folder whose name begins so; of links to one file the first.
fs::path find_library(const fs::path& folder, const std::string& begin) {
  std::error_code ignored;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(begin + ".") && name.find(".so") != std::string::npos)
      found.push_back(entry.path());
  }
  if (found.empty()) throw Failure("no " + begin + ".*so* in " + folder.string());
  return *std::ranges::min_element(found);
}

void* open_library(const fs::path& file) {
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!library) throw Failure(std::string("cannot load: ") + ::dlerror());
  return library;
}

// Whether defaults are what both releases set: a shifted field would read as something else.
template <class Params>
bool has_context_defaults(const Params& p) {
  return p.n_ctx == 512 && p.n_batch == 2048 && p.n_ubatch == 512 && p.n_seq_max == 1 &&
         p.n_threads == 4 && p.n_threads_batch == 4 && p.rope_scaling_type == -1 &&
         p.pooling_type == -1 && p.attention_type == -1 && p.flash_attn_type == -1 &&
         p.yarn_ext_factor == -1 && p.yarn_beta_slow == -1 && p.yarn_orig_ctx == 0 &&
         p.defrag_thold == -1 && !p.cb_eval && p.type_k == kF16 && p.type_v == kF16 &&
         !p.abort_callback && p.embeddings == 0 && p.offload_kqv == 1 && p.no_perf == 1 &&
         p.op_offload == 1 && p.swa_full == 1 && p.kv_unified == 0;
}

template <class Params>
bool has_common_model_defaults(const Params& p) {
  return !p.devices && !p.tensor_buft_overrides && p.split_mode == 1 && p.main_gpu == 0 &&
         !p.tensor_split && !p.progress_callback && !p.kv_overrides && p.vocab_only == 0 &&
         p.check_tensors == 0 && p.use_extra_bufts == 1 && p.no_host == 0;
}

bool has_defaults(const llama_h::b7347::ModelParams& p) {
  return has_common_model_defaults(p) && p.n_gpu_layers == 999 && p.use_mmap == 1 &&
         p.use_mlock == 0;
}

bool has_defaults(const llama_h::v0_5_0::ModelParams& p) {
  return has_common_model_defaults(p) && p.n_gpu_layers == -1 &&
         p.load_mode == llama_h::v0_5_0::kLoadAuto && p.lazy_mode == 1 && p.no_alloc == 0 &&
         p.load_mtp == 0;
}

bool has_defaults(const llama_h::b7347::ContextParams& p) { return has_context_defaults(p); }

bool has_defaults(const llama_h::v0_5_0::ContextParams& p) {
  return has_context_defaults(p) && p.n_rs_seq == 0 && p.n_outputs_max == 0 &&
         p.n_outputs_max_per_seq == 1 && p.ctx_type == 0 && !p.samplers && p.n_samplers == 0 &&
         !p.ctx_other;
}

bool has_defaults(const llama_h::ThreadPoolParams& p, int count) {
  return p.n_threads == count && p.prio == 0 && p.poll == 50 && p.strict_cpu == 0 && p.paused == 0;
}

void set_load_mode(llama_h::b7347::ModelParams& p, const std::string& mode) {
  if (mode == "dio") throw Failure("-lm dio: llama.cpp b7347 has no direct I/O");
  if (mode == "auto") return;
  p.use_mmap = mode.find("mmap") != std::string::npos;
  p.use_mlock = mode.find("mlock") != std::string::npos;
}

void set_load_mode(llama_h::v0_5_0::ModelParams& p, const std::string& mode) {
  using namespace llama_h::v0_5_0;
  p.load_mode = mode == "none"         ? kLoadNone
                : mode == "mmap"       ? kLoadMmap
                : mode == "mlock"      ? kLoadMlock
                : mode == "mmap+mlock" ? kLoadMmapMlock
                : mode == "dio"        ? kLoadDirect
                                       : kLoadAuto;
}

void* find_symbol(const std::vector<void*>& libraries, const char* name) {
  for (void* library : libraries)
    if (void* found = ::dlsym(library, name)) return found;
  return nullptr;
}

}  // namespace

Library::Library(const fs::path& folder, bool verbose) : verbose_(verbose) {
  const fs::path llama = find_library(folder, "libllama");
  opened_ = {open_library(find_library(folder, "libggml-base")),
             open_library(find_library(folder, "libggml")), open_library(llama)};
  resolve();
  check_release(llama.filename().string());
  functions_.llama_log_set(on_log, this);
  functions_.ggml_backend_load_all_from_path(folder.c_str());
  llama_h::Device* cpu = functions_.ggml_backend_dev_by_type(llama_h::kDeviceCpu);
  if (!cpu) throw Failure("no library of a CPU in " + folder.string());
  llama_h::Registry* registry = functions_.ggml_backend_dev_backend_reg(cpu);
  const auto of_cpu = [&](auto& out, const char* name) {
    out = reinterpret_cast<std::remove_reference_t<decltype(out)>>(
        functions_.ggml_backend_reg_get_proc_address(registry, name));
    if (!out) throw Failure(std::string("the CPU's library has no ") + name);
  };
  of_cpu(functions_.ggml_threadpool_new, "ggml_threadpool_new");
  of_cpu(functions_.ggml_threadpool_free, "ggml_threadpool_free");
  functions_.llama_backend_init();
  warn_without_gpu(folder);
}

// The library computes on the CPU, without a word, where that of a GPU cannot be loaded.
void Library::warn_without_gpu(const fs::path& folder) const {
  const fs::path cuda = folder / "libggml-cuda.so";
  if (!fs::exists(cuda) || !gpu_names().empty()) return;
  const bool loads = ::dlopen(cuda.c_str(), RTLD_LAZY) != nullptr;
  std::fprintf(stderr, "llama-bench: no GPU: %s\n", loads ? "CUDA finds none" : ::dlerror());
}

void* Library::symbol(const char* name) const {
  void* found = find_symbol(opened_, name);
  if (!found) throw Failure(std::string("libllama and libggml have no ") + name);
  return found;
}

template <class Params>
Params Library::model_defaults() const {
  return reinterpret_cast<Params (*)()>(symbol("llama_model_default_params"))();
}

template <class Params>
Params Library::context_defaults() const {
  return reinterpret_cast<Params (*)()>(symbol("llama_context_default_params"))();
}

void Library::resolve() {
#define GET(name) functions_.name = reinterpret_cast<decltype(functions_.name)>(symbol(#name))
  GET(llama_log_set), GET(llama_backend_init), GET(llama_numa_init), GET(llama_max_devices);
  GET(llama_model_free), GET(llama_model_desc), GET(llama_model_size), GET(llama_model_n_params);
  GET(llama_model_get_vocab), GET(llama_vocab_n_tokens), GET(llama_vocab_get_add_bos);
  GET(llama_vocab_bos), GET(llama_free), GET(llama_get_memory), GET(llama_memory_clear);
  GET(llama_memory_seq_cp), GET(llama_memory_seq_rm), GET(llama_n_ctx);
  GET(llama_batch_get_one), GET(llama_decode), GET(llama_synchronize), GET(llama_set_n_threads);
  GET(llama_attach_threadpool), GET(llama_perf_context), GET(llama_perf_context_reset);
  GET(llama_state_seq_get_size), GET(llama_state_seq_get_data), GET(llama_state_seq_set_data);
  GET(ggml_backend_load_all_from_path), GET(ggml_backend_dev_count), GET(ggml_backend_dev_get);
  GET(ggml_backend_dev_by_type), GET(ggml_backend_dev_name), GET(ggml_backend_dev_description);
  GET(ggml_backend_dev_type), GET(ggml_backend_dev_memory), GET(ggml_backend_dev_buffer_type);
  GET(ggml_backend_buft_name), GET(ggml_backend_dev_backend_reg);
  GET(ggml_backend_reg_get_proc_address), GET(ggml_backend_reg_count), GET(ggml_backend_reg_get);
  GET(ggml_backend_reg_name), GET(ggml_threadpool_params_default);
#undef GET
}

// The package's library has its release in its file's name; v0.5.0 tells it too, b7347 cannot.
void Library::check_release(const std::string& file) {
  const auto version = reinterpret_cast<const char* (*)()>(find_symbol(opened_, "llama_version"));
  const std::string told = version ? version() : "";
  const bool named_b7347 = file.find("b7347") != std::string::npos;
  is_v0_5_0_ = told.starts_with("0.5.0");
  if (!is_v0_5_0_ && !(named_b7347 && told.empty()))
    throw Failure(file + (told.empty() ? "" : " (" + told + ")") +
                  " is of another release than b7347 and v0.5.0, whose interface is known here");
  using namespace llama_h;
  const bool ok = is_v0_5_0_ ? has_defaults(model_defaults<v0_5_0::ModelParams>()) &&
                                   has_defaults(context_defaults<v0_5_0::ContextParams>())
                             : has_defaults(model_defaults<b7347::ModelParams>()) &&
                                   has_defaults(context_defaults<b7347::ContextParams>());
  if (!ok || !has_defaults(functions_.ggml_threadpool_params_default(3), 3))
    throw Failure(file + ": its defaults are not those of " + release() +
                  ", so its structures may not be either");
}

llama_h::BufferType* Library::buffer_type(const std::string& name) const {
  std::string known;
  for (std::size_t i = 0; i < functions_.ggml_backend_dev_count(); ++i) {
    llama_h::Device* device = functions_.ggml_backend_dev_get(i);
    llama_h::BufferType* type = functions_.ggml_backend_dev_buffer_type(device);
    if (!type) continue;
    if (name == functions_.ggml_backend_buft_name(type)) return type;
    known += (known.empty() ? "" : ", ") + std::string(functions_.ggml_backend_buft_name(type));
  }
  throw Failure("no memory called " + name + ": there is " + known);
}

// As the library takes them: up to one without a pattern.
std::vector<llama_h::TensorOverride> Library::overrides(const ModelSettings& s) const {
  std::vector<llama_h::TensorOverride> out;
  for (std::size_t i = 0; i < patterns_.size(); ++i) {
    const std::string name = i < s.overrides.size() ? s.overrides[i].buffer_type : "CPU";
    out.push_back({patterns_[i].c_str(), buffer_type(name)});
  }
  out.push_back({nullptr, nullptr});
  return out;
}

template <class ModelParams>
Library::Model Library::load_as(ModelParams p, const ModelSettings& s) {
  patterns_.clear();
  for (const Override& o : s.overrides) patterns_.push_back(o.pattern);
  for (int layer = 0; layer < s.cpu_moe_layers; ++layer)
    patterns_.push_back("blk\\." + std::to_string(layer) + "\\.ffn_.*exps");
  overrides_ = overrides(s);
  if (!patterns_.empty()) p.tensor_buft_overrides = overrides_.data();
  split_ = s.tensor_split;
  if (split_.size() > functions_.llama_max_devices()) throw Failure("-ts has too many shares");
  split_.resize(functions_.llama_max_devices());
  p.tensor_split = split_.data();
  if (s.gpu_layers) p.n_gpu_layers = *s.gpu_layers;
  if (!is_v0_5_0_ && s.gpu_layers && *s.gpu_layers < 0) p.n_gpu_layers = default_gpu_layers();
  if (!is_v0_5_0_ && std::string("tensor") == kSplitModes[s.split_mode])
    throw Failure("-sm tensor: llama.cpp b7347 has no such split");
  p.split_mode = s.split_mode;
  p.main_gpu = s.main_gpu;
  set_load_mode(p, s.load_mode);
  buffer_sizes_.forget_all();
  const auto load = reinterpret_cast<llama_h::Model* (*)(const char*, ModelParams)>(
      symbol("llama_model_load_from_file"));
  Model model(load(s.file.c_str(), p), functions_.llama_model_free);
  if (!model) throw Failure("the library cannot load " + s.file);
  return model;
}

Library::Model Library::load(const ModelSettings& s) {
  if (std::FILE* file = std::fopen(s.file.c_str(), "rb"))
    std::fclose(file);
  else
    throw Failure("no file " + s.file);
  return is_v0_5_0_ ? load_as(model_defaults<llama_h::v0_5_0::ModelParams>(), s)
                    : load_as(model_defaults<llama_h::b7347::ModelParams>(), s);
}

template <class ContextParams>
Library::Context Library::make_context_as(ContextParams p, llama_h::Model& model,
                                          const ContextSettings& s, const CacheSize& size) {
  if (size.tokens > INT32_MAX) throw Failure("more tokens than a context can have");
  p.n_ctx = std::uint32_t(size.tokens);
  p.n_seq_max = std::uint32_t(size.sequences);
  p.kv_unified = size.unified;
  p.n_batch = std::uint32_t(s.n_batch);
  p.n_ubatch = std::uint32_t(s.n_ubatch);
  p.type_k = s.type_k.ggml_type;
  p.type_v = s.type_v.ggml_type;
  p.flash_attn_type = s.flash_attn;
  p.offload_kqv = !s.no_kv_offload;
  p.op_offload = !s.no_op_offload;
  p.swa_full = 0;
  p.no_perf = 0;
  buffer_sizes_.forget_context();
  const auto make = reinterpret_cast<llama_h::Context* (*)(llama_h::Model*, ContextParams)>(
      symbol("llama_init_from_model"));
  Context context(make(&model, p), functions_.llama_free);
  if (!context)
    throw Failure("the library cannot make a context of " + std::to_string(p.n_ctx) + " tokens");
  return context;
}

Library::Context Library::make_context(llama_h::Model& model, const ContextSettings& settings,
                                       const CacheSize& size) {
  return is_v0_5_0_ ? make_context_as(context_defaults<llama_h::v0_5_0::ContextParams>(), model,
                                      settings, size)
                    : make_context_as(context_defaults<llama_h::b7347::ContextParams>(), model,
                                      settings, size);
}

Library::ThreadPool Library::make_threads(int count) {
  llama_h::ThreadPoolParams params = functions_.ggml_threadpool_params_default(count);
  ThreadPool pool(functions_.ggml_threadpool_new(&params), functions_.ggml_threadpool_free);
  if (!pool) throw Failure("the library cannot start " + std::to_string(count) + " threads");
  return pool;
}

std::string Library::device_names(bool cpus) const {
  std::string out;
  for (std::size_t i = 0; i < functions_.ggml_backend_dev_count(); ++i) {
    llama_h::Device* device = functions_.ggml_backend_dev_get(i);
    const int type = functions_.ggml_backend_dev_type(device);
    const bool is_gpu = type == llama_h::kDeviceGpu || type == llama_h::kDeviceIntegratedGpu;
    if (is_gpu == cpus) continue;
    out += (out.empty() ? "" : ", ") + std::string(functions_.ggml_backend_dev_description(device));
  }
  return out;
}

std::string Library::backends() const {
  std::string out;
  for (std::size_t i = 0; i < functions_.ggml_backend_reg_count(); ++i) {
    const std::string name = functions_.ggml_backend_reg_name(functions_.ggml_backend_reg_get(i));
    if (name != "CPU") out += (out.empty() ? "" : ",") + name;
  }
  return out.empty() ? "CPU" : out;
}

int Library::default_gpu_layers() const { return is_v0_5_0_ ? -1 : 999; }

std::vector<DeviceMemory> Library::gpu_memory() const {
  std::vector<DeviceMemory> out;
  for (std::size_t i = 0; i < functions_.ggml_backend_dev_count(); ++i) {
    llama_h::Device* device = functions_.ggml_backend_dev_get(i);
    if (functions_.ggml_backend_dev_type(device) != llama_h::kDeviceGpu) continue;
    DeviceMemory memory{functions_.ggml_backend_dev_name(device), 0, 0};
    functions_.ggml_backend_dev_memory(device, &memory.free, &memory.total);
    out.push_back(memory);
  }
  return out;
}

void Library::on_log(int level, const char* text, void* data) {
  Library& self = *static_cast<Library*>(data);
  if (level != llama_h::kLogContinued) self.log_level_ = level;
  if (self.verbose_ || self.log_level_ == llama_h::kLogError) std::fputs(text, stderr);
  for (const char* c = text; *c; ++c) {
    if (*c != '\n') {
      self.log_line_ += *c;
      continue;
    }
    self.buffer_sizes_.add_line(self.log_line_);
    self.log_line_.clear();
  }
}

}  // namespace llama_bench
