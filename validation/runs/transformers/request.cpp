#include "validation/runs/transformers/request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace rigcast::validation {
namespace {

using Json = nlohmann::json;

// Architectures that have a config class in the script.
constexpr const char* kArchitectures[] = {"llama", "qwen2", "qwen3"};

// What a model has that those classes of its architecture do not; "": nothing.
const char* unknown_part(const ModelSpec& m) {
  const bool is_qwen2 = m.architecture == "qwen2";
  const bool unusual = m.output_bias || m.ffn_bias || m.norm_bias || !m.gated_ffn ||
                       m.norms_per_layer != 2 || m.qkv_bias != is_qwen2 ||
                       m.qk_norm != (m.architecture == "qwen3") || m.qk_norm_wide;
  if (m.moe) return "experts";
  if (m.window) return "a sliding window";
  if (m.mla || m.recurrent || m.indexer || !m.pattern.empty() || m.shared_kv_layers > 0 ||
      m.attention_gate || m.attention_sinks)
    return "layers of another kind";
  if (is_qwen2 && m.heads * m.head_dim != m.hidden) return "heads of a width of their own";
  if (unusual || m.layer_embedding > 0 || m.layer_scale || m.nextn_layers > 0)
    return "tensors of its own";
  return "";
}

Result<Json> shape(const ModelSpec& m) {
  if (std::ranges::find(kArchitectures, m.architecture) == std::end(kArchitectures))
    return bad_input(fmt::format("{} is of the architecture {}, which is not run with transformers",
                                 m.name, m.architecture),
                     "a model of llama, qwen2 or qwen3");
  if (const std::string part = unknown_part(m); !part.empty())
    return bad_input(fmt::format("{} has {}: it is not run with transformers", m.name, part),
                     "llama-3.2-1b, qwen2.5-0.5b or qwen3-0.6b");
  return Json{{"architecture", m.architecture},
              {"layers", m.layers},
              {"hidden", m.hidden},
              {"heads", m.heads},
              {"kv_heads", m.kv_heads},
              {"head_dim", m.head_dim},
              {"ffn", m.ffn},
              {"vocabulary", m.vocabulary},
              {"tied_embeddings", m.tied_embeddings}};
}

Result<const char*> dtype(const Scenario& s) {
  constexpr std::pair<const char*, const char*> kTypes[] = {
      {"BF16", "bfloat16"}, {"F16", "float16"}, {"F32", "float32"}};
  for (const auto& [quant, type] : kTypes)
    if (s.quant == quant) return type;
  return bad_input(
      fmt::format("transformers is run with weights of 16 or 32 bits, not in {}", s.quant),
      "--quant BF16, F16 or F32");
}

// A cache in the type of the weights, or a quantized one.
Result<Json> cache(const Scenario& s) {
  const auto is = [&](QuantFormat f) { return s.kv.types.k == f && s.kv.types.v == f; };
  const bool plain = is(QuantFormat::kF16) || is(QuantFormat::kBF16);
  const int bits = is(QuantFormat::kQ4_0) ? 4 : is(QuantFormat::kQ8_0) ? 8 : 0;
  if (!plain && bits == 0)
    return bad_input("the KV types: with transformers both are f16, q4_0 or q8_0",
                     "--kv-type f16, q4_0 or q8_0");
  if (plain && s.quant == "F32")
    return bad_input("with weights in F32 the cache of transformers is F32 as well",
                     "--quant BF16 or F16");
  if (s.kv.policy == KvPolicy::kVram)
    return plain ? Json{{"kind", "dynamic"}} : Json{{"kind", "quantized"}, {"bits", bits}};
  if (!plain || s.kv.cold_types().k != s.kv.types.k)
    return bad_input("the offloaded cache of transformers is not quantized", "--kv-type f16");
  return Json{{"kind", "offloaded"}};
}

struct Devices {
  const char *prompt, *decode;
};

Result<Devices> devices(const Scenario& s, const Placement& p) {
  if (s.rig.gpus.empty() || p.gpu_layers == 0) return Devices{"cpu", "cpu"};
  if (s.placement.decode_device == DecodeDevice::kCpu) return Devices{"cuda", "cpu"};
  if (p.gpu_layers <= s.model.layers)
    return bad_input(
        fmt::format("{} of {} layers are on the GPU: with transformers all are run on one device",
                    p.gpu_layers, s.model.layers + 1),
        fmt::format("--gpu-layers {} or 0", s.model.layers + 1));
  return Devices{"cuda", "cuda"};
}

// What the scenario says without its placement.
Result<Json> request_of(const Scenario& s) {
  if (auto error = check_no_load(s.load)) return *error;
  if (s.workload.output_tokens < 2)
    return bad_input("the speed of decode needs two tokens or more", "--output-tokens 64");
  if (s.rig.gpus.size() > 1)
    return bad_input("with transformers one GPU is run, and the rig has several",
                     "--set rig.gpu with one");
  const auto model = shape(s.model);
  if (!model) return model.error();
  const auto type = dtype(s);
  if (!type) return type.error();
  const auto kv = cache(s);
  if (!kv) return kv.error();
  return Json{{"model", *model},
              {"dtype", *type},
              {"attention", s.settings.flash_attention ? "sdpa" : "eager"},
              {"cache", *kv},
              {"threads", s.settings.threads},
              {"depth", s.workload.depth},
              {"prompt_tokens", s.workload.prompt_tokens},
              {"output_tokens", s.workload.output_tokens}};
}

}  // namespace

std::optional<Error> check_transformers(const Scenario& scenario) {
  const auto request = request_of(scenario);
  return request ? std::nullopt : std::optional(request.error());
}

Result<std::string> transformers_request(const Report& forecast, int repeat) {
  auto request = request_of(*forecast.scenario);
  if (!request) return request.error();
  const auto on = devices(*forecast.scenario, forecast.placement);
  if (!on) return on.error();
  if (request->at("cache").at("kind") != "dynamic" && std::string(on->decode) == "cpu")
    return bad_input("the CPU has the dynamic cache of transformers alone",
                     "--kv vram --kv-type f16");
  (*request)["prompt_device"] = on->prompt;
  (*request)["decode_device"] = on->decode;
  (*request)["repeat"] = repeat;
  return request->dump();
}

}  // namespace rigcast::validation
