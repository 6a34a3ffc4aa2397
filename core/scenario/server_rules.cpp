#include "core/scenario/server_rules.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/runtime/format_group.hpp"
#include "core/text/unit_text.hpp"

namespace rigcast {
namespace {

// vLLM's kernels for weights of GGUF's formats are nobody's choice and were not measured.
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

// GPUs with as much memory have larger steps by default, but for A100: get_batch_defaults() in
// vllm/engine/arg_utils.py, PR 17885.
void enlarge(SchedulerPolicy& policy, const Rig& rig) {
  const bool large = std::ranges::any_of(rig.gpus, [](const GpuPart& gpu) {
    return gpu.memory.value >= 70_GiB && gpu.architecture != "ampere-dc";
  });
  if (!large) return;
  policy.step_tokens = 8192;
  policy.sequences = 1024;
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
  SchedulerPolicy defaults = runtime.server->scheduler;
  const bool slots = defaults.layout == KvLayout::kSlots;
  if (slots) defaults.step_tokens = batch;
  if (runtime.rules == RuntimeRules::kVllm) enlarge(defaults, rig);
  const TomlTable t = root.table("scheduler");
  const SchedulerPolicy policy = read_scheduler(t, defaults);
  if ((policy.layout == KvLayout::kSlots) != slots)
    t.refuse("layout", fmt::format("{} has {}", runtime.name, slots ? "slots" : "blocks"));
  return policy;
}

int vllm_gpu_layers(const TomlTable& t, const RuntimeProfile& runtime, const Rig& rig,
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

std::vector<std::string> check_vllm(const TomlTable& root, const RuntimeProfile& runtime,
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
