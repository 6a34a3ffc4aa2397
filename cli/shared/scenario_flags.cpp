#include "cli/shared/scenario_flags.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/shared/empty_value.hpp"
#include "cli/shared/model_argument.hpp"
#include "core/catalogue/find_model.hpp"
#include "core/hardware/hardware_names.hpp"

namespace rigcast::cli {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

void ScenarioFlags::add(CLI::App& verb, const char* group, const char* name, const char* keys,
                        Flag::Kind kind, const char* type, const char* help) {
  // Of "-c,--context", errors name the long one.
  const std::string names = name, long_name = names.substr(names.rfind(',') + 1);
  Flag& flag = flags_.emplace_back(Flag{long_name, keys, kind, {}, nullptr});
  flag.option = verb.add_option(names, flag.value, help)->type_name(type)->group(group);
}

void ScenarioFlags::add_to(CLI::App& verb) {
  verb.add_option("scenario", file_, "scenario file; flags win over it")->type_name("FILE.toml");
  const char* rig = "Rig";
  add(verb, rig, "--rig", "rig.name", Flag::kText, "RIG",
      "a rig of the catalogue, or a rig file; this: the machine on which it runs");
  add(verb, rig, "--gpu", "rig.gpu", Flag::kTextList, "G[,G2]",
      "GPUs, or files of your own; \"2xrtx-3090\" is two");
  add(verb, rig, "--cpu", "rig.cpu", Flag::kText, "CPU",
      "a CPU of the catalogue, or a file; 2x-ID is one in each of two sockets");
  add(verb, rig, "--ram", "rig.ram", Flag::kText, "KIT",
      "channels x speed : size, 2xddr5-6000:64GiB");
  add(verb, rig, "--ssd", "rig.ssd", Flag::kText, "SSD", "an SSD of the catalogue, or a file");
  add(verb, rig, "--pcie", "rig.pcie", Flag::kTextList, "GENxLANES", "slot of the GPU, 4x16");
  add(verb, rig, "--power-limit", "rig.power_limit", Flag::kText, "WATTS",
      "limit of each GPU, as nvidia-smi -pl sets it: \"220 W\"");
  add(verb, rig, "--vram-limit", "rig.vram_capacity", Flag::kText, "SIZE", "VRAM of each GPU");
  add(verb, rig, "--ram-limit", "rig.ram_capacity", Flag::kText, "SIZE", "RAM");
  const char* model = "Model";
  add(verb, model, "--model", "model.name", Flag::kModel, "MODEL",
      "a model of the catalogue, an id of Hugging Face or Ollama, a .gguf, config.json or .toml "
      "file");
  add(verb, model, "--quant", "model.quant", Flag::kText, "MIX",
      "quant mix (default Q4_K_M, or as published)");
  add(verb, model, "--model-size", "model.size", Flag::kText, "SIZE",
      "true size of the file, where no mix is exact");
  add(verb, model, "--mmproj", "model.mmproj", Flag::kText, "FILE",
      "a vision projector (.gguf): its memory and load; not the time an image takes");
  add(verb, model, "--mmproj-offload", "model.mmproj_offload", Flag::kOnOff, "on|off",
      "off: the projector in RAM");
  add(verb, model, "--model-draft", "draft.name", Flag::kModel, "MODEL",
      "a draft model, as --model: its memory and load; not what speculation gains");
  add(verb, model, "--draft-quant", "draft.quant", Flag::kText, "MIX", "quant mix of the draft");
  const char* place = "Placement";
  add(verb, place, "--gpu-layers", "placement.gpu_layers", Flag::kValue, "N|auto",
      "last N layers on the GPU; with more than all, the head too");
  add(verb, place, "--tensor-parallel", "placement.tensor_parallel", Flag::kValue, "N",
      "GPUs that share every layer (vllm); default: all of the rig's");
  add(verb, place, "--pipeline-parallel", "placement.pipeline_parallel", Flag::kValue, "N",
      "stages of GPUs with a part of the layers each (vllm); default: 1");
  add(verb, place, "--data-parallel", "placement.data_parallel", Flag::kValue, "N",
      "engines that share the requests (vllm, sglang); default: 1");
  add(verb, place, "--expert-parallel", "placement.expert_parallel", Flag::kOnOff, "on|off",
      "GPUs that share a layer have whole experts each (vllm)");
  add(verb, place, "--tensor-split", "placement.tensor_split", Flag::kNumberList, "A,B",
      "share of each GPU");
  add(verb, place, "--split-mode", "placement.split_mode", Flag::kText, "MODE",
      "layer (one GPU after the other); all share each layer: tensor (llama.cpp), graph (ik)");
  add(verb, place, "--cpu-moe", "placement.cpu_moe_layers", Flag::kValue, "N",
      "first N layers keep their experts in RAM");
  add(verb, place, "--cpu-ffn", "placement.cpu_ffn_layers", Flag::kValue, "N",
      "first N layers of a dense model keep their FFN in RAM");
  add(verb, place, "--headroom", "runtime.headroom", Flag::kText, "SIZE",
      "VRAM of each GPU that stays free (llama.cpp 1GiB)");
  add(verb, place, "--decode-device", "placement.decode_device", Flag::kText, "gpu|cpu", "");
  const char* kv = "KV cache";
  add(verb, kv, "--kv", "kv.policy", Flag::kText, "POLICY",
      "vram, ram, stream, paged, combined or spill");
  add(verb, kv, "--kv-type", "kv.type_k kv.type_v", Flag::kText, "TYPE",
      "f32, f16, bf16, q8_0, q5_0, q5_1, q4_0, q4_1 or iq4_nl");
  const char* work = "Workload";
  add(verb, work, "--prompt-tokens", "workload.prompt_tokens", Flag::kValue, "N", "");
  add(verb, work, "--output-tokens", "workload.output_tokens", Flag::kValue, "N", "");
  add(verb, work, "-c,--context", "workload.context", Flag::kValue, "N",
      "tokens that you want to use: planned for, and judged when filled");
  add(verb, work, "--depth", "workload.depth", Flag::kValue, "N", "tokens already in the cache");
  add(verb, work, "--start", "workload.start", Flag::kText, "STATE", "resident, warm or cold");
  const char* load = "Load";
  add(verb, load, "--users", "workload.users", Flag::kValue, "N",
      "people who wait for each answer, think, and ask again (a closed load)");
  add(verb, load, "--rate", "load.rate", Flag::kValue, "R",
      "requests per second, whatever becomes of those before (an open, Poisson load)");
  add(verb, load, "--load", "load.preset", Flag::kLoad, "NAME|FILE",
      "what requests are: chat, code, rag, agent, azure-2023-conv, azure-2023-code, a trace "
      "(.csv, .jsonl), or [load] keys of your own (.toml)");
  add(verb, load, "--turns", "load.turns", Flag::kValue, "N",
      "mean requests of a conversation, each with all that was said before; 1: none follows");
  add(verb, load, "--slo", "load.slo", Flag::kText, "LIMITS",
      "latencies that a share of requests meets: ttft=2s@95,tpot=80ms@95, also itl and e2e; or a "
      "name, such as mlperf-llama-3.1-8b-server");
  add(verb, load, "--slots", "scheduler.slots", Flag::kValue, "N",
      "requests that llama.cpp's server runs at once, each with a context of its own");
  add(verb, load, "--max-sequences", "scheduler.max_sequences", Flag::kValue, "N",
      "requests that vLLM, SGLang, TensorRT-LLM or rigcast runs at once");
  add(verb, load, "--ram-cache", "scheduler.ram_cache", Flag::kText, "SIZE",
      "RAM for what leaves the KV cache, to be copied back: 32GiB; 0: none");
  add(verb, load, "--kv-disk", "scheduler.kv_disk", Flag::kText, "DIR[:SIZE]",
      "the same on a disk (of rigcast): a file without a name in this folder, 32GiB if no size is "
      "given");
  add(verb, load, "--kv-restore", "scheduler.kv_restore", Flag::kText, "WHEN",
      "what of that comes back: auto (what is faster than to compute it anew), always or never");
  const char* runtime = "Runtime";
  add(verb, runtime, "--runtime", "runtime.name", Flag::kText, "NAME",
      "llama.cpp, ik_llama.cpp, llamafile, ollama, vllm, sglang, tensorrt-llm, rigcast or "
      "transformers");
  add(verb, runtime, "--batch", "runtime.batch", Flag::kValue, "N", "");
  add(verb, runtime, "--ubatch", "runtime.ubatch", Flag::kValue, "N", "");
  add(verb, runtime, "--threads", "runtime.threads", Flag::kValue, "N", "");
  add(verb, runtime, "--flash-attn", "runtime.flash_attention", Flag::kOnOff, "on|off", "");
  add(verb, runtime, "--backend", "runtime.backend", Flag::kText, "NAME",
      "auto, cuda, rocm, vulkan, metal or sycl");
  add(verb, runtime, "--build", "runtime.build", Flag::kText, "YYYY-MM",
      "month the runtime was built");
  add(verb, runtime, "--mmap", "runtime.mmap", Flag::kOnOff, "on|off",
      "off: host weights in pinned buffers");
  add(verb, runtime, "--numa", "runtime.numa", Flag::kText, "HOW",
      "none, distribute, isolate or mirror: weights and threads over memory nodes");
  add(verb, runtime, "--op-offload", "runtime.op_offload", Flag::kOnOff, "on|off",
      "prefill of host layers on the GPU");
  verb.add_option("--set", sets_, "any key of the scenario file")
      ->type_name("KEY=VALUE")
      ->group("Any key")
      ->allow_extra_args(false)
      ->take_all();
}

// A model of one kind takes the place of what the scenario file says of the other.
std::optional<Error> ScenarioFlags::set_model(TomlDocument& document, const Flag& flag) {
  const bool is_file = names_model_file(flag.value);
  const std::string table = flag.key.substr(0, flag.key.find('.') + 1);  // "model." or "draft."
  if (is_file) {
    for (const char* key : {"name", "quant", "size"}) document.erase(table + key);
  } else {
    document.erase(table + "file");
    if (states_quant(flag.value)) document.erase(table + "quant");
  }
  return document.set(table + (is_file ? "file" : "name"), toml_text(flag.value), flag.name);
}

// A trace or a preset takes the place of the other.
std::optional<Error> ScenarioFlags::set_load(TomlDocument& document, const Flag& flag) {
  const bool is_trace = flag.value.ends_with(".csv") || flag.value.ends_with(".jsonl");
  document.erase(is_trace ? "load.preset" : "load.trace");
  return document.set(is_trace ? "load.trace" : "load.preset", toml_text(flag.value), flag.name);
}

Result<TomlDocument> ScenarioFlags::document_without_sets() const {
  TomlDocument document("command line");
  if (!file_.empty()) {
    auto read = TomlDocument::read(file_);
    if (!read) return read.error();
    document = *std::move(read);
  }
  for (const Flag& flag : flags_) {
    if (flag.option->count() == 0) continue;
    if (flag.value.find_first_not_of(" \t") == std::string::npos) return empty_value(flag.name);
    std::string value = flag.value;
    switch (flag.kind) {
      case Flag::kValue: break;
      case Flag::kText: value = toml_text(value); break;
      case Flag::kTextList: {
        std::vector<std::string> items;
        for (const std::string& item : listed_gpus(value)) {
          if (item.empty()) return empty_value(flag.name);
          items.push_back(toml_text(item));
        }
        value = fmt::format("[{}]", fmt::join(items, ", "));
        break;
      }
      case Flag::kNumberList: value = fmt::format("[{}]", value); break;
      case Flag::kOnOff:
        if (value != "on" && value != "off")
          return bad_input(fmt::format("{}: expected on or off, got \"{}\"", flag.name, value));
        value = value == "on" ? "true" : "false";
        break;
      case Flag::kModel:
        if (auto error = set_model(document, flag)) return *error;
        continue;
      case Flag::kLoad:
        if (auto error = set_load(document, flag)) return *error;
        continue;
    }
    for (const std::string& key : split(flag.key, ' '))
      if (auto error = document.set(key, value, flag.name)) return *error;
  }
  return document;
}

Result<TomlDocument> ScenarioFlags::document() const {
  auto document = document_without_sets();
  if (!document) return document;
  for (const std::string& set : sets_) {
    const auto equals = set.find('=');
    if (equals == std::string::npos || equals == 0)
      return bad_input(fmt::format("--set {}: expected KEY=VALUE", set),
                       "for example --set kv.threshold=0.9");
    if (equals + 1 == set.size()) return empty_value("--set " + set);
    const std::string key = set.substr(0, equals);
    if (auto error = document->set(key, set.substr(equals + 1), "--set " + key)) return *error;
  }
  return document;
}

std::vector<std::string> ScenarioFlags::words() const {
  std::vector<std::string> words;
  if (!file_.empty()) words.push_back(file_);
  for (const Flag& flag : flags_)
    if (flag.option->count() > 0) words.insert(words.end(), {flag.name, flag.value});
  for (const std::string& set : sets_) words.insert(words.end(), {"--set", set});
  return words;
}

}  // namespace rigcast::cli
