#include "core/scenario/server_rules.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/runtime/format_group.hpp"
#include "core/text/unit_text.hpp"

namespace rigcast {
namespace {

// vLLM's kernels for weights of GGUF's formats are nobody's choice and were not measured.
void refuse_quantized(const TomlTable& t, const Scenario& s) {
  const auto quantized = std::ranges::find_if(s.tensors.tensors, [](const Tensor& tensor) {
    return tensor.dimensions >= 2 && format_group(tensor.format) != FormatGroup::kFloat;
  });
  if (quantized == s.tensors.tensors.end()) return;
  t.refuse(s.model_file ? "file" : "quant",
           fmt::format("{} is forecast with weights in BF16 or F16, not in {}", s.runtime.name,
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

// The rules by which the runtime's server serves, as far as they are not its own.
void read_server_rules(const TomlTable& root, Scenario& s) {
  if (!s.runtime.server) {
    if (root.has("scheduler"))
      root.refuse("scheduler", fmt::format("{} serves one request at a time", s.runtime.name),
                  "choose --runtime llama.cpp or vllm, or leave it out");
    return;
  }
  SchedulerPolicy defaults = s.runtime.server->scheduler;
  const bool slots = defaults.layout == KvLayout::kSlots;
  if (slots) defaults.step_tokens = s.settings.batch;
  if (s.runtime.rules == RuntimeRules::kVllm) enlarge(defaults, s.rig);
  s.scheduler = read_scheduler(root.table("scheduler"), defaults);
  if ((s.scheduler->layout == KvLayout::kSlots) != slots)
    root.table("scheduler")
        .refuse("layout", fmt::format("{} has {}", s.runtime.name, slots ? "slots" : "blocks"));
  if (slots) s.settings.batch = int(s.scheduler->step_tokens);
  s.settings.ubatch = std::min(s.settings.ubatch, s.settings.batch);
  // A server with a pool of blocks computes a step in one pass.
  if (!slots) s.settings.batch = s.settings.ubatch = int(s.scheduler->step_tokens);
}

// All layers of vLLM are on one GPU; several that share each layer are not modelled.
void require_one_gpu(const TomlTable& t, Scenario& s) {
  const int all = s.model.layers + 1;
  if (s.rig.gpus.size() != 1)
    t.refuse(
        "gpu_layers",
        fmt::format("{} is forecast on one GPU, the rig has {}", s.runtime.name, s.rig.gpus.size()),
        "a rig with one GPU, or --runtime llama.cpp");
  if (s.placement.gpu_layers.value_or(all) < all)
    t.refuse("gpu_layers", fmt::format("{} has all layers on the GPU", s.runtime.name),
             "leave it out, or --runtime llama.cpp");
  s.placement.gpu_layers = all;
}

void check_vllm(const TomlTable& root, Scenario& s) {
  refuse_quantized(root.table("model"), s);
  for (const QuantFormat type : {s.kv.types.k, s.kv.types.v})
    if (type != QuantFormat::kF16 && type != QuantFormat::kBF16)
      root.table("kv").refuse("type_k",
                              fmt::format("{} has no cache in {}", s.runtime.name, info(type).name),
                              "leave out --kv-type");
  if (s.model.recurrent)
    root.table("model").refuse("name",
                               fmt::format("the state of recurrent layers is not planned "
                                           "for {}",
                                           s.runtime.name),
                               "--runtime llama.cpp");
  if (s.model.window)
    s.warnings.push_back(
        fmt::format("{}: layers with a window of {} tokens are planned as if they "
                    "kept all tokens",
                    s.runtime.name, text_count(s.model.window->tokens)));
}

}  // namespace rigcast
