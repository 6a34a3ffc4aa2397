#include "core/scenario/server_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/runtime/format_group.hpp"
#include "core/text/unit_text.hpp"

namespace rigcast {
namespace {

// Kernels of paged servers for weights of GGUF's formats are nobody's choice and were not measured.
void refuse_quantized(const TomlTable& t, const RuntimeProfile& runtime,
                      const TensorTable& tensors) {
  const auto quantized = std::ranges::find_if(tensors.tensors, [](const Tensor& tensor) {
    return tensor.dimensions >= 2 && format_group(tensor.format) != FormatGroup::kFloat;
  });
  if (quantized == tensors.tensors.end()) return;
  t.refuse(t.has("file") ? "file" : "quant",
           fmt::format("{} is forecast with weights in BF16 or F16, not in {}", runtime.name,
                       info(quantized->format).name),
           "--quant BF16, or --runtime llama.cpp");
}

using GpuDefaults = RuntimeProfile::Server::GpuDefaults;

// What the profile states for GPUs of this size; nullptr: nothing.
const GpuDefaults* defaults_of(const RuntimeProfile::Server& server, const GpuPart& gpu) {
  const GpuDefaults* last = nullptr;
  for (const GpuDefaults& d : server.gpus)
    if (gpu.memory.value >= d.from &&
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
    const Bytes reserved = std::max(own->reserved + activations, own->reserved_least);
    const double left = 1 - reserved / gpu.memory.value;
    share = std::min(share, std::round(1000 * left) / 1000);
  }
  return std::max(share, 0.01);
}

}  // namespace

std::optional<SchedulerPolicy> read_server_rules(const TomlTable& root,
                                                 const RuntimeProfile& runtime, const Rig& rig,
                                                 TokenCount batch) {
  if (!runtime.server) {
    if (root.has("scheduler"))
      root.refuse("scheduler", fmt::format("{} serves one request at a time", runtime.name),
                  "choose --runtime llama.cpp or vllm, or leave it out");
    return std::nullopt;
  }
  const RuntimeProfile::Server& server = *runtime.server;
  SchedulerPolicy defaults = server.scheduler;
  const bool slots = defaults.layout == KvLayout::kSlots;
  if (slots && root.table("runtime").has("batch")) defaults.step_tokens = batch;
  if (const GpuDefaults* own = defaults_of(server, rig)) {
    if (own->step_tokens > 0) defaults.step_tokens = own->step_tokens;
    if (own->sequences > 0) defaults.sequences = own->sequences;
  }
  const TomlTable t = root.table("scheduler");
  SchedulerPolicy policy = read_scheduler(t, defaults);
  if (policy.pool == PoolRule::kStaticShare && !t.has("memory_share"))
    policy.memory_share = static_share(server, rig, policy.step_tokens);
  if ((policy.layout == KvLayout::kSlots) != slots)
    t.refuse("layout", fmt::format("{} has {}", runtime.name, slots ? "slots" : "blocks"));
  if (server.one_slot && policy.sequences > 1)
    t.refuse("slots", fmt::format("{} serves one request at a time", runtime.name),
             "leave it out, or choose --runtime llama.cpp or vllm");
  return policy;
}

int paged_gpu_layers(const TomlTable& t, const RuntimeProfile& runtime, const Rig& rig,
                     const ModelSpec& model, std::optional<int> stated) {
  const int all = model.layers + 1;
  if (rig.gpus.size() != 1)
    t.refuse(
        "gpu_layers",
        fmt::format("{} is forecast on one GPU, the rig has {}", runtime.name, rig.gpus.size()),
        "a rig with one GPU, or --runtime llama.cpp");
  if (stated.value_or(all) < all)
    t.refuse("gpu_layers", fmt::format("{} has all layers on the GPU", runtime.name),
             "leave it out, or --runtime llama.cpp");
  return all;
}

std::vector<std::string> check_paged_server(const TomlTable& root, const RuntimeProfile& runtime,
                                            const ModelSpec& model, const TensorTable& tensors,
                                            KvTypes cache) {
  const TomlTable of_model = root.table("model");
  refuse_quantized(of_model, runtime, tensors);
  for (const QuantFormat type : {cache.k, cache.v})
    if (type != QuantFormat::kF16 && type != QuantFormat::kBF16)
      root.table("kv").refuse("type_k",
                              fmt::format("{} has no cache in {}", runtime.name, info(type).name),
                              "leave out --kv-type");
  if (model.recurrent)
    of_model.refuse(
        "name", fmt::format("the state of recurrent layers is not planned for {}", runtime.name),
        "--runtime llama.cpp");
  if (!model.window) return {};
  return {
      fmt::format("{}: layers with a window of {} tokens are planned as if they kept all tokens",
                  runtime.name, text_count(model.window->tokens))};
}

}  // namespace rigcast
