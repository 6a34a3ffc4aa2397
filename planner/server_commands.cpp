#include "planner/server_commands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/model/kv_bytes.hpp"
#include "core/scenario/engine_sizes.hpp"
#include "core/serving/pool_tokens.hpp"
#include "core/serving/window_pool.hpp"
#include "perfmodel/memory.hpp"

namespace rigcast::planner {
namespace {

// Where the model's figures are from, which is its repository: "meta-llama/Llama-3.1-8B
// config.json". Empty: it is not known.
std::string repository_of(const ModelSpec& model) {
  const std::string first = model.source.substr(0, model.source.find(' '));
  const auto slash = first.find('/');
  const bool is_one = slash != std::string::npos && slash > 0 &&
                      first.find('/', slash + 1) == std::string::npos && first.back() != ';';
  return is_one ? first : "";
}

// Weights of a repository as they are, or quantized while they are loaded.
bool is_of_repository(const std::string& quant) {
  return quant == "BF16" || quant == "F16" || quant == "FP8";
}

class Command {
 public:
  explicit Command(Words program) : words_(std::move(program)) {}
  void add(const char* flag, const std::string& value) {
    words_.insert(words_.end(), {flag, value});
  }
  void add(const char* flag, std::int64_t value) { add(flag, fmt::format("{}", value)); }
  void add(const char* flag) { words_.emplace_back(flag); }
  Words words() && { return std::move(words_); }

 private:
  Words words_;
};

std::string model_of(const Scenario& s) {
  const std::string repository = repository_of(s.model);
  if (!is_of_repository(s.quant)) return fmt::format("{}-{}", s.model.id, s.quant);
  return repository.empty() ? s.model.id : repository;
}

// `cache_in_fp8`: the program's name of that type.
void add_types(Command& c, const Scenario& s, const char* cache_in_fp8) {
  if (s.quant == "BF16") c.add("--dtype", "bfloat16");
  if (s.quant == "F16") c.add("--dtype", "float16");
  if (s.quant == "FP8") c.add("--quantization", "fp8");
  if (s.kv.types.k == QuantFormat::kFP8) c.add("--kv-cache-dtype", cache_in_fp8);
}

// Whole GiB, at least one.
std::int64_t ram_gib(const SchedulerPolicy& policy) {
  return std::max<std::int64_t>(1, std::llround(policy.ram_cache / 1_GiB));
}

Words vllm_command(const Scenario& s) {
  const SchedulerPolicy& policy = *s.scheduler;
  Command c({"vllm", "serve", model_of(s)});
  add_types(c, s, "fp8");
  const GpuGroups& groups = s.placement.groups;
  if (groups.tensor > 1) c.add("--tensor-parallel-size", groups.tensor);
  if (groups.pipeline > 1) c.add("--pipeline-parallel-size", groups.pipeline);
  if (groups.data > 1) c.add("--data-parallel-size", groups.data);
  if (groups.whole_experts) c.add("--enable-expert-parallel");
  c.add("--max-model-len", s.workload.context);
  c.add("--gpu-memory-utilization", fmt::format("{:g}", policy.memory_share));
  c.add("--max-num-seqs", std::int64_t(policy.sequences));
  c.add("--max-num-batched-tokens", policy.step_tokens);
  if (policy.ram_cache.value > 0) c.add("--kv-offloading-size", ram_gib(policy));
  if (!policy.prefix_cache) c.add("--no-enable-prefix-caching");
  return std::move(c).words();
}

// Of each GPU that shares the layers, whole GB, at least one: every rank allocates a pool of this
// size for its own part of the cache. SGLang: mem_cache/memory_pool_host.py, HostKVCache.
std::int64_t ram_gb_of_rank(const Scenario& s) {
  const double gb = s.scheduler->ram_cache.value / 1e9 / s.placement.groups.tensor;
  return std::max<std::int64_t>(1, std::int64_t(gb));
}

Words sglang_command(const Scenario& s) {
  const SchedulerPolicy& policy = *s.scheduler;
  Command c({"python3", "-m", "sglang.launch_server", "--model-path", model_of(s)});
  add_types(c, s, "fp8_e4m3");
  if (s.placement.groups.tensor > 1) c.add("--tp-size", s.placement.groups.tensor);
  if (s.placement.groups.data > 1) c.add("--dp-size", s.placement.groups.data);
  c.add("--context-length", s.workload.context);
  c.add("--mem-fraction-static", fmt::format("{:g}", policy.memory_share));
  c.add("--max-running-requests", std::int64_t(policy.sequences));
  c.add("--chunked-prefill-size", policy.step_tokens);
  if (policy.ram_cache.value > 0) {
    c.add("--enable-hierarchical-cache");
    c.add("--hicache-size", ram_gb_of_rank(s));
  }
  if (!policy.prefix_cache) c.add("--disable-radix-cache");
  return std::move(c).words();
}

// True if the engine's server has the rules of the scenario's scheduler, or flags for them.
bool serves_rules(const Scenario& s) {
  constexpr std::size_t kMaxSequences = 256;
  const SchedulerPolicy &p = *s.scheduler, &own = s.runtime.server->scheduler;
  return p.order == own.order && p.reserve == own.reserve && p.victim == own.victim &&
         p.requeue == own.requeue && p.chunked == own.chunked && p.prefix_cache &&
         p.shares_in_step == own.shares_in_step && p.block_tokens == own.block_tokens &&
         p.ram_min_tokens == own.ram_min_tokens && p.ram_cache <= 0_B &&
         p.sequences <= kMaxSequences;
}

// True if the engine executes the scenario's placement and cache for many sequences.
bool executes(const Scenario& s, const Placement& p) {
  const bool on_gpu = !s.rig.gpus.empty() && p.gpu_layers > 0;
  const bool one_card = s.rig.gpus.size() == 1 && s.settings.backend == Backend::kCuda;
  const bool in_blocks = s.kv.policy == KvPolicy::kStream || s.kv.policy == KvPolicy::kPaged;
  const KvTypes cold = s.kv.cold_types();
  const bool alike = cold.k == s.kv.types.k && cold.v == s.kv.types.v;
  return (!on_gpu || one_card) && s.placement.decode_device != DecodeDevice::kCpu &&
         s.kv.policy != KvPolicy::kCombined && s.kv.policy != KvPolicy::kSpill &&
         (!in_blocks || alike) && s.kv.types.k == s.kv.types.v && !s.projector && !s.draft &&
         s.settings.numa == NumaPolicy::kNone;
}

// Tokens for which a device's cache has room, beside states of recurrent layers. `apart`: tokens of
// layers with a window, where these have a pool of their own; 0: they have each block.
double pool_tokens_on(const Scenario& s, const Placement& p, DeviceIndex device, Bytes kv,
                      TokenCount apart) {
  const SchedulerPolicy& policy = *s.scheduler;
  double all = 0, window = 0, pool = kv.value;  // of a token
  for (int l = 0; l < s.model.layers; ++l) {
    const LayerPlacement& at = p.layers[std::size_t(l)];
    if (at.decode_on == device && s.model.recurrent)
      pool -=
          server_states(s.model, policy.sequences, policy.prefix_cache) * state_bytes(s.model, l);
    if (at.kv == device)
      (s.model.sees_all_tokens(l) ? all : window) += kv_bytes_per_token(s.model, l, s.kv.types);
  }
  const double together =
      all + window > 0 ? pool / (all + window) : std::numeric_limits<double>::infinity();
  if (apart == 0 || together <= double(apart) || all <= 0) return together;
  return (pool - double(apart) * window) / all;
}

// Tokens of the pool that the forecast plans beside the layers, in whole blocks.
TokenCount planned_pool(const Scenario& s, const Placement& p) {
  const PoolTokens pool = pool_tokens(s);
  if (pool.least == pool.most) return pool.most;
  const SchedulerPolicy& policy = *s.scheduler;
  const TokenCount block = policy.block_tokens;
  const bool has_gpus = !s.rig.gpus.empty();
  const TokenCount apart = block * window_pool_blocks({s.model, policy, p, s.kv.policy, has_gpus});
  const MemoryPlan plan = plan_memory(s, p, s.workload.context);
  double tokens = double(pool.most);
  const auto within = [&](DeviceIndex device, const DeviceMemory& memory) {
    tokens = std::min(tokens, pool_tokens_on(s, p, device, memory.kv, apart));
  };
  for (std::size_t g = 0; g < s.rig.gpus.size(); ++g) within(DeviceIndex(g), plan.devices[g]);
  if (!has_gpus) within(kHost, plan.devices.back());
  return std::max(pool.least, TokenCount(tokens) / block * block);
}

Words rigcast_command(const Scenario& s, const Placement& placement) {
  const SchedulerPolicy& policy = *s.scheduler;
  const bool on_gpu = !s.rig.gpus.empty() && placement.gpu_layers > 0;
  const bool whole = on_gpu && placement.gpu_layers > s.model.layers;
  Command c({"rigcast", "serve", "--weights", gguf_file_of(s)});
  c.add("--device", on_gpu ? "cuda" : "cpu");
  if (on_gpu) c.add("--gpu-layers", placement.gpu_layers);
  if (placement.cpu_moe_layers > 0) c.add("--cpu-moe", placement.cpu_moe_layers);
  if (s.placement.cpu_ffn_layers > 0) c.add("--cpu-ffn", s.placement.cpu_ffn_layers);
  if (on_gpu && s.placement.decode_device == DecodeDevice::kGpu) c.add("--decode-device", "gpu");
  if (!whole) c.add("--threads", s.settings.threads);
  if (s.kv.policy != KvPolicy::kVram) c.add("--kv", std::string(name(s.kv.policy)));
  if (s.kv.types.k != QuantFormat::kF16) c.add("--kv-type", kv_type_name(s.kv.types.k));
  c.add("--context", s.workload.context);
  c.add("--parallel", std::int64_t(policy.sequences));
  c.add("--kv-tokens", planned_pool(s, placement));
  if (policy.step_tokens != s.runtime.server->scheduler.step_tokens) {
    c.add("--batch", policy.step_tokens);
    c.add("--ubatch", policy.step_tokens);
  }
  if (policy.max_waiting > 0) c.add("--max-waiting", std::int64_t(policy.max_waiting));
  if (policy.disk_cache > 0_B) {
    c.add("--kv-disk", fmt::format("{}:{:g}GiB", policy.disk_folder, policy.disk_cache / 1_GiB));
    if (policy.restore != KvRestore::kAuto)
      c.add("--kv-restore", std::string(name(policy.restore)));
  }
  return std::move(c).words();
}

}  // namespace

std::optional<Error> check_paged(const Scenario& s, const std::string& program) {
  if (s.runtime.id != program)
    return bad_input(fmt::format("the plan is for {}", s.runtime.name),
                     fmt::format("--runtime {}", program));
  if (s.model_file)
    return bad_input(
        fmt::format("the model is a GGUF file, which {} is not forecast with", s.runtime.name),
        "name the model, with --quant BF16");
  if (repository_of(s.model).empty())
    return bad_input(fmt::format("the repository of {} is not known: its figures are from \"{}\"",
                                 s.model.name, s.model.source),
                     "another --model");
  if (!is_of_repository(s.quant))
    return bad_input(
        fmt::format("weights in {} are a repository of their own, which is not known", s.quant),
        "--quant BF16 or FP8");
  if (s.projector || s.draft)
    return bad_input("the command has the model alone", "without --mmproj and --model-draft");
  return std::nullopt;
}

Words paged_command(const Scenario& s) {
  return s.runtime.id == "sglang" ? sglang_command(s) : vllm_command(s);
}

Words server_command(const Scenario& s, const Placement& placement) {
  if (s.runtime.id == "vllm" || s.runtime.id == "sglang") return paged_command(s);
  if (s.runtime.rules == RuntimeRules::kRigcast && s.scheduler)
    return serves_rules(s) && executes(s, placement) ? rigcast_command(s, placement) : Words{};
  if (!is_llama_cpp(s.runtime, s.kv.policy)) return {};
  return llama_server_command(s, placement);
}

}  // namespace rigcast::planner
