#include "core/scenario/server_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/runtime/format_group.hpp"
#include "core/scenario/batch_limits.hpp"
#include "core/text/unit_text.hpp"

namespace rigcast {
namespace {

// Formats of safetensors, and the experts of gpt-oss. Kernels of paged servers for other weights of
// GGUF's are nobody's choice and were not measured.
bool is_served_format(QuantFormat f) {
  return !is_in_gguf(f) || f == QuantFormat::kMXFP4 || f == QuantFormat::kNVFP4 ||
         format_group(f) == FormatGroup::kFloat;
}

void refuse_other_formats(const TomlTable& t, const RuntimeProfile& runtime,
                          const TensorTable& tensors) {
  const auto other = std::ranges::find_if(tensors.tensors, [](const Tensor& tensor) {
    return tensor.dimensions >= 2 && !is_served_format(tensor.format);
  });
  if (other == tensors.tensors.end()) return;
  t.refuse(
      t.has("file") ? "file" : "quant",
      fmt::format("{} is not forecast with weights in {}", runtime.name, info(other->format).name),
      "--quant BF16, FP8, INT4 (AWQ, GPTQ), INT8 or NVFP4, or --runtime llama.cpp");
}

// Of GPUs that share every layer, the memory of each.
Bytes memory_of_one(const GpuPart& gpu) {
  return gpu.shared ? gpu.memory.value / double(gpu.shared->gpus) : gpu.memory.value;
}

using GpuDefaults = RuntimeProfile::Server::GpuDefaults;

// What the profile states for GPUs of this size; nullptr: nothing.
const GpuDefaults* defaults_of(const RuntimeProfile::Server& server, const GpuPart& gpu) {
  const GpuDefaults* last = nullptr;
  for (const GpuDefaults& d : server.gpus)
    if (memory_of_one(gpu) >= d.from &&
        std::ranges::find(d.except, gpu.architecture) == d.except.end())
      last = &d;
  return last;
}

// Of a rig's GPUs, those of the one with the largest steps.
const GpuDefaults* defaults_of(const RuntimeProfile::Server& server, const Rig& rig) {
  const GpuDefaults* largest = nullptr;
  for (const GpuPart& gpu : rig.gpus) {
    const GpuDefaults* own = defaults_of(server, gpu);
    if (own && (!largest || own->step_tokens > largest->step_tokens)) largest = own;
  }
  return largest;
}

// The share of the smallest GPU's memory that a server gives to weights and pool: all but what it
// reserves for a step's activations and for its graphs. SGLang: server_args.py,
// _handle_gpu_memory_settings(), which rounds it so.
double static_share(const RuntimeProfile::Server& server, const Rig& rig, TokenCount step_tokens) {
  double share = 1;
  for (const GpuPart& gpu : rig.gpus) {
    const GpuDefaults* own = defaults_of(server, gpu);
    if (!own) continue;
    const TokenCount tokens = std::max(step_tokens, server.reserved_least_tokens);
    const Bytes activations = server.reserved_per_token.value * double(tokens);
    const Bytes of_others = 128_MiB * double(gpu.shared ? gpu.shared->gpus - 1 : 0);
    const Bytes reserved = std::max(own->reserved + activations + of_others, own->reserved_least);
    const double left = 1 - reserved / memory_of_one(gpu);
    share = std::min(share, std::round(1000 * left) / 1000);
  }
  return std::max(share, 0.01);
}

// What other servers keep on disk, and when they bring it back, is not modelled.
void refuse_disk_of_others(const TomlTable& t, const RuntimeProfile& runtime) {
  for (const char* key : {"kv_disk", "kv_restore"})
    if (t.has(key))
      t.refuse(key,
               fmt::format("what {} keeps on disk and restores from there is not forecast",
                           runtime.name),
               "--runtime rigcast has a cache on disk; --ram-cache is forecast of all");
}

// What rigcast's engine does for one sequence alone.
void refuse_unserved(const TomlTable& root, const LoadSettings& s) {
  const auto refuse = [&](const char* table, const char* key, const BatchRefusal& why) {
    root.table(table).refuse(key, why.what, why.hint);
  };
  if (s.policy == KvPolicy::kCombined) refuse("kv", "policy", kNoHostShareOfBatches);
  const bool has_cold_blocks = evicts(s.policy) || s.policy == KvPolicy::kStream;
  if (has_cold_blocks && (s.cold.k != s.cache.k || s.cold.v != s.cache.v))
    refuse("kv", "cold_type", kNoColdTypesOfBatches);
  if (s.hands_over) refuse("placement", "decode_device", kNoHandoverOfBatches);
}

// Steps of many sequences on a GPU for which the profile knows no kernels of theirs.
std::vector<std::string> notes_on_batches(const RuntimeProfile& runtime, const Rig& rig) {
  if (!runtime.blocks) return {};
  const auto other = std::ranges::find_if(
      rig.gpus, [&](const GpuPart& gpu) { return !runtime.blocks->is_of(gpu.architecture); });
  if (other == rig.gpus.end()) return {};
  const bool writes_out = std::ranges::count(runtime.blocks->writes_out, other->architecture) > 0;
  return {fmt::format(
      "no measured load of {} on {} GPUs: {}", runtime.name, other->architecture,
      writes_out ? "steps of several sequences write all weights out as FP16 there"
                 : "steps of several sequences are forecast by what kernels reach on an H200, "
                   "scaled by this GPU's rates")};
}

}  // namespace

std::optional<SchedulerPolicy> read_server_rules(const TomlTable& root,
                                                 const RuntimeProfile& runtime, const Rig& rig,
                                                 TokenCount batch, TokenCount ubatch) {
  if (!runtime.server) {
    if (root.has("scheduler"))
      root.refuse("scheduler", fmt::format("{} serves one request at a time", runtime.name),
                  "choose --runtime llama.cpp or vllm, or leave it out");
    return std::nullopt;
  }
  if (runtime.rules == RuntimeRules::kPagedServer && rig.gpus.empty())
    root.table("runtime").refuse(
        "name", fmt::format("{} is forecast on GPUs alone, the rig has none", runtime.name),
        "--runtime llama.cpp, or a rig with a GPU");
  const RuntimeProfile::Server& server = *runtime.server;
  SchedulerPolicy defaults = server.scheduler;
  const bool slots = defaults.layout == KvLayout::kSlots;
  if (slots && root.table("runtime").has("batch")) defaults.step_tokens = batch;
  if (runtime.rules == RuntimeRules::kRigcast && root.table("runtime").has("ubatch"))
    defaults.step_tokens = ubatch;  // its steps are ubatches
  if (const GpuDefaults* own = defaults_of(server, rig)) {
    if (own->step_tokens > 0) defaults.step_tokens = own->step_tokens;
    if (own->sequences > 0) defaults.sequences = own->sequences;
  }
  const TomlTable t = root.table("scheduler");
  SchedulerPolicy policy = read_scheduler(t, defaults);
  if (runtime.rules != RuntimeRules::kRigcast)
    refuse_disk_of_others(t, runtime);
  else
    refuse_idle_restore(t, policy);
  if (policy.pool == PoolRule::kStaticShare && !t.has("memory_share"))
    policy.memory_share = static_share(server, rig, policy.step_tokens);
  if ((policy.layout == KvLayout::kSlots) != slots)
    t.refuse("layout", fmt::format("{} has {}", runtime.name, slots ? "slots" : "blocks"));
  return policy;
}

void take_stages(const TomlTable& root, const GpuGroups& groups, SchedulerPolicy& policy) {
  policy.stages = groups.pipeline;
  const TomlTable t = root.table("scheduler");
  if (groups.pipeline * groups.data > 1 && policy.ram_cache.value > 0)
    t.refuse("ram_cache", "copies beside several steps at once are not forecast",
             "leave out --ram-cache, or --pipeline-parallel and --data-parallel");
  if (groups.pipeline * groups.data > 1 && policy.disk_cache > 0_B)
    t.refuse("kv_disk", "copies beside several steps at once are not forecast",
             "leave out --kv-disk, or --pipeline-parallel and --data-parallel");
  if (groups.pipeline == 1) return;
  if (policy.order != StepOrder::kAdmission)
    t.refuse("order", "of a pipeline, steps in the order of admission alone are forecast",
             "leave it out");
  if (policy.reserve == KvReserve::kEstimate)
    t.refuse("reserve", "it is not forecast of a pipeline", "leave it out");
}

// A step of slots is computed in ubatches, that of a pool of blocks in one pass. The engine's steps
// have prompts and answers at once: the host computes its parts in all of them.
StepSettings step_settings(const TomlTable& table, const RuntimeProfile& runtime,
                           const SchedulerPolicy& policy, const StepSettings& stated) {
  StepSettings out = stated;
  out.batch = int(policy.step_tokens);
  const bool slots = policy.layout == KvLayout::kSlots;
  out.ubatch = slots ? std::min(stated.ubatch, out.batch) : out.batch;
  if (runtime.rules != RuntimeRules::kRigcast) return out;
  if (table.has("op_offload") && stated.op_offload)
    table.refuse("op_offload",
                 "rigcast serves several users in steps of prompts and answers at once, for which "
                 "the host computes its layers and experts",
                 "leave out --op-offload");
  out.op_offload = false;
  return out;
}

std::vector<std::string> check_load(const TomlTable& root, const RuntimeProfile& runtime,
                                    const Rig& rig, const LoadSettings& settings) {
  if (runtime.rules == RuntimeRules::kRigcast) refuse_unserved(root, settings);
  return settings.on_gpu ? notes_on_batches(runtime, rig) : std::vector<std::string>();
}

std::vector<std::string> notes_on_unused_tiers(const TomlTable& root) {
  std::vector<std::string> notes;
  const TomlTable scheduler = root.table("scheduler");
  for (const auto& [key, where] : {std::pair("ram_cache", "in RAM"), {"kv_disk", "on disk"}})
    if (scheduler.has(key))
      notes.push_back(
          fmt::format("a cache {} is for requests that come back: one request has no use for it; "
                      "--users or --rate state a load",
                      where));
  return notes;
}

WeightFormats weight_formats(const RuntimeProfile& runtime) {
  return runtime.rules == RuntimeRules::kPagedServer ? WeightFormats::kServed
                                                     : WeightFormats::kGguf;
}

void refuse_formats_of_others(const TomlTable& t, const RuntimeProfile& runtime,
                              const TensorTable& tensors) {
  if (weight_formats(runtime) == WeightFormats::kServed) return;
  const auto served = std::ranges::find_if(
      tensors.tensors, [](const Tensor& tensor) { return !is_in_gguf(tensor.format); });
  if (served == tensors.tensors.end()) return;
  const bool eight_bits = info(served->format).bits_per_weight() >= 8;
  t.refuse(
      "quant", fmt::format("{} reads no {}", runtime.name, info(served->format).name),
      fmt::format("{} has about its size; --runtime vllm reads it", eight_bits ? "Q8_0" : "Q4_0"));
}

void refuse_cache_of_others(const TomlTable& t, const RuntimeProfile& runtime, KvTypes cache) {
  if (weight_formats(runtime) == WeightFormats::kServed) return;
  if (!is_in_gguf(cache.k) || !is_in_gguf(cache.v))
    t.refuse("type_k", fmt::format("{} has no cache in FP8", runtime.name),
             "q8_0 has about its size; --runtime vllm has one");
}

int paged_gpu_layers(const TomlTable& t, const RuntimeProfile& runtime, const ModelSpec& model,
                     std::optional<int> stated) {
  const int all = model.layers + 1;
  if (stated.value_or(all) < all)
    t.refuse("gpu_layers", fmt::format("{} has all layers on the GPU", runtime.name),
             "leave it out, or --runtime llama.cpp");
  for (const char* key : {"cpu_moe_layers", "cpu_ffn_layers"})
    if (t.has(key) && t.integer_or(key, 0, 0, model.layers) > 0)
      t.refuse(key, fmt::format("{} has all weights on the GPU", runtime.name),
               "leave it out, or --runtime llama.cpp");
  return all;
}

std::vector<std::string> check_paged_server(const TomlTable& root, const RuntimeProfile& runtime,
                                            const ModelSpec& model, const TensorTable& tensors,
                                            KvTypes cache) {
  const TomlTable of_model = root.table("model");
  refuse_other_formats(of_model, runtime, tensors);
  for (const QuantFormat type : {cache.k, cache.v})
    if (type != QuantFormat::kF16 && type != QuantFormat::kBF16 && type != QuantFormat::kFP8)
      root.table("kv").refuse("type_k",
                              fmt::format("{} has no cache in {}", runtime.name, info(type).name),
                              "leave out --kv-type, or --kv-type fp8");
  if (model.recurrent)
    of_model.refuse(
        "name", fmt::format("the state of recurrent layers is not planned for {}", runtime.name),
        "--runtime llama.cpp");
  if (model.window && root.table("scheduler").has("ram_cache"))
    return {
        fmt::format("{} with a cache in RAM: layers with a window keep all tokens, which takes "
                    "room of the cache on the GPU",
                    runtime.name)};
  if (!model.window || (runtime.server && runtime.server->scheduler.window_blocks)) return {};
  return {
      fmt::format("{}: layers with a window of {} tokens are planned as if they kept all tokens",
                  runtime.name, text_count(model.window->tokens))};
}

}  // namespace rigcast
