#include "measurements/settings_fragment.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/model/kv_bytes.hpp"
#include "core/text/freetext.hpp"
#include "measurements/build_month.hpp"

namespace rigcast {
namespace {

// The statements about the placement of layers.
struct Layers {
  bool automatic = false;
  int on_gpu = 0;     // up to layers + 1, which includes the head
  bool head = false;  // with it
};

Layers layers_of(const Measurement& m, const ParsedNotes& parsed_notes, const ModelSpec& model,
                 const RigFragment& rig) {
  const int all = model.layers + 1;
  if (rig.gpus.empty()) return {};
  // Programs put on the GPU what fits, if nobody says how much.
  if (!m.gpu_layers || parsed_notes.fitted_placement) return {true, 0, false};
  const int wanted = std::min(*m.gpu_layers, all);
  return {false, wanted, wanted == all};
}

// The first layers, dense ones among them, that hold the stated number with experts.
int cpu_moe_layers(const Measurement& m, const ParsedNotes& parsed_notes, const ModelSpec& model) {
  if (m.cpu_moe_layers) return std::min(*m.cpu_moe_layers, model.layers);
  const int stated =
      m.ram_expert_layers.value_or(parsed_notes.all_experts_in_ram ? model.layers : 0);
  int first = 0;
  for (int with_experts = 0; first < model.layers && with_experts < stated; ++first)
    with_experts += model.is_moe_layer(first);
  return first;
}

// "q8_kv" is a way to compute with Q8_0 blocks.
Result<QuantFormat> kv_type(const std::string& stated) {
  if (stated.empty()) return QuantFormat::kF16;
  const std::string lower = freetext::lower(stated);
  if (const auto type = kv_type_from(lower == "q8_kv" ? "q8_0" : lower)) return *type;
  return bad_input(fmt::format("no KV type \"{}\"", lower));
}

// True if the cache is in host memory although layers are on a GPU.
bool has_kv_in_ram(const Measurement& m, const ParsedNotes& parsed_notes, const RigFragment& rig,
                   const Layers& layers) {
  const bool has_gpu_layers = layers.automatic || layers.on_gpu > 0;
  return !rig.gpus.empty() && !rig.unified() && has_gpu_layers &&
         (m.kv_location == "cpu" || parsed_notes.kv_in_ram);
}

// Weights of a layer's attention.
double attention_weights(const ModelSpec& model) {
  const double hidden = double(model.hidden), heads = double(model.heads);
  if (!model.mla) return 2.0 * (heads + double(model.kv_heads)) * double(model.head_dim) * hidden;
  const LatentAttention& a = *model.mla;
  const double head = double(a.qk_nope_dim + a.qk_rope_dim);
  const double q =
      a.q_lora_rank > 0 ? double(a.q_lora_rank) * (hidden + heads * head) : hidden * heads * head;
  return q + hidden * double(a.kv_lora_rank + a.qk_rope_dim) +
         double(a.kv_lora_rank) * heads * double(a.qk_nope_dim + a.v_dim) +
         heads * double(a.v_dim) * hidden;
}

// Shares of a split by layers for several GPUs if the first `light` layers have their experts in
// RAM: every GPU receives weights in proportion to its memory. Users who keep experts in RAM choose
// such shares.
std::vector<double> balanced_split(const ModelSpec& model, const RigFragment& rig, int light) {
  const MixtureOfExperts& moe = *model.moe;
  const double attention =
      attention_weights(model) + 3.0 * double(moe.shared_ffn) * double(model.hidden);
  const double experts = 3.0 * moe.experts * double(moe.expert_ffn) * double(model.hidden);
  double memory = 0;
  for (const GpuPart& gpu : rig.gpus) memory += gpu.memory.value.value;
  const double all = model.layers * attention + (model.layers - light) * experts;
  std::vector<double> shares;
  double from = 0, filled = 0;
  for (const GpuPart& gpu : rig.gpus) {
    filled += all * gpu.memory.value.value / memory;
    // Layers that hold so much: light ones up to the last of them, heavy ones from there.
    const double to = filled <= light * attention
                          ? filled / attention
                          : light + (filled - light * attention) / (attention + experts);
    shares.push_back(std::max(to - from, 0.01));
    from = to;
  }
  return shares;
}

std::string placement_toml(const ParsedNotes& parsed_notes, const ModelSpec& model,
                           const RigFragment& rig, const Layers& layers, int experts) {
  std::string toml = "[placement]\n";
  toml += layers.automatic ? std::string("gpu_layers = \"auto\"\n")
                           : fmt::format("gpu_layers = {}\n", layers.on_gpu);
  if (experts > 0) toml += fmt::format("cpu_moe_layers = {}\n", experts);
  if (rig.gpus.size() < 2) return toml;
  if (!parsed_notes.split_mode.empty())
    toml += fmt::format("split_mode = \"{}\"\n", parsed_notes.split_mode);
  std::vector<double> split;
  if (parsed_notes.tensor_split.size() == rig.gpus.size()) split = parsed_notes.tensor_split;
  if (experts > 0 && model.moe) split = balanced_split(model, rig, experts);
  if (!split.empty()) toml += fmt::format("tensor_split = [{:.3f}]\n", fmt::join(split, ", "));
  return toml;
}

std::string kv_toml(const PlacementFragment& fragment, QuantFormat k, QuantFormat v) {
  return fmt::format("[kv]\npolicy = \"{}\"\ntype_k = \"{}\"\ntype_v = \"{}\"\n",
                     fragment.kv_in_ram ? "ram" : "vram", kv_type_name(k), kv_type_name(v));
}

bool has_some_kv_in_ram(const Measurement& m, const ParsedNotes& parsed_notes,
                        const RigFragment& rig, const Layers& layers) {
  return parsed_notes.some_kv_in_ram || (m.kv_location == "split" && layers.head && !rig.unified());
}

std::string_view runtime_name(const ParsedNotes& parsed_notes) {
  if (parsed_notes.llamafile) return "llamafile";
  return parsed_notes.ik_llama ? "ik-llama.cpp" : "llama.cpp";
}

struct Lengths {
  TokenCount depth = 0, prompt = 0, generated = 0;
};

// LocalScore's speeds are means of nine tests, each an answer after its prompt: 1024 and 16 tokens,
// 4096 and 256, 2048 and 256, 2048 and 768, 1024 and 1024, 1280 and 3072, 384 and 1152, 64 and
// 1024, 16 and 1536. Means of these stand for them: localscore.ai, cjpais/LocalScore.
Lengths lengths_of(const Measurement& m, const ParsedNotes& parsed_notes) {
  if (!parsed_notes.localscore || m.depth + m.prompt + m.generated > 0)
    return {m.depth, m.prompt, m.generated};
  constexpr TokenCount kPrompt = 1332, kAnswer = 1012;
  return m.metric == Metric::kTg ? Lengths{kPrompt, 0, kAnswer} : Lengths{0, kPrompt, 0};
}

}  // namespace

Result<PlacementFragment> placement_fragment(const Measurement& m, const ParsedNotes& parsed_notes,
                                             const ModelSpec& model, const RigFragment& rig,
                                             std::optional<int> experts_in_ram) {
  const auto k = kv_type(m.type_k);
  if (!k) return k.error();
  const auto v = kv_type(m.type_v);
  if (!v) return v.error();
  Layers layers = layers_of(m, parsed_notes, model, rig);
  if (experts_in_ram) layers = {false, model.layers + 1, true};
  if (has_some_kv_in_ram(m, parsed_notes, rig, layers))
    return bad_input("the KV cache of some layers is in RAM: no KV policy does that");
  PlacementFragment fragment;
  const int experts =
      rig.gpus.empty() ? 0 : experts_in_ram.value_or(cpu_moe_layers(m, parsed_notes, model));
  fragment.kv_in_ram = has_kv_in_ram(m, parsed_notes, rig, layers);
  fragment.experts_in_ram = experts > 0;
  fragment.automatic = layers.automatic;
  fragment.layers_on_host = !layers.head && !layers.automatic;
  fragment.quantized_v = info(*v).bits_per_weight() < 16;
  fragment.quantized_kv = fragment.quantized_v || info(*k).bits_per_weight() < 16;
  if (!rig.cpu_stated && !rig.unified() &&
      (fragment.layers_on_host || fragment.experts_in_ram || fragment.kv_in_ram))
    return bad_input(fmt::format("no CPU named \"{}\"", freetext::clipped(m.cpu)));
  fragment.toml =
      placement_toml(parsed_notes, model, rig, layers, experts) + kv_toml(fragment, *k, *v);
  return fragment;
}

bool leaves_headroom(const Measurement& m, const ParsedNotes& parsed_notes,
                     const PlacementFragment& placement) {
  const auto built = build_month(m);
  const bool ollama = freetext::contains(freetext::lower(m.tool), "ollama");
  return placement.automatic && !ollama && !parsed_notes.ik_llama && built &&
         built->text() >= "2025-12";
}

std::string runtime_fragment(const Measurement& m, const ParsedNotes& parsed_notes,
                             bool quantized_v, bool leaves_headroom) {
  const auto on = [](bool value) { return value ? "true" : "false"; };
  const bool flash = quantized_v || m.flash_attention.value_or(default_flash_attention(m));
  std::string toml =
      fmt::format("[runtime]\nname = \"{}\"\nflash_attention = {}\nmmap = {}\nop_offload = {}\n",
                  runtime_name(parsed_notes), on(flash), on(!parsed_notes.no_mmap),
                  on(!parsed_notes.no_op_offload));
  toml += fmt::format("headroom = \"{} MiB\"\n", leaves_headroom ? 1024 : 0);
  if (parsed_notes.numa_distribute) toml += "numa = \"distribute\"\n";
  if (parsed_notes.no_matrix_units) toml += "matrix_units = false\n";
  if (parsed_notes.cpu_blas) toml += "cpu_blas = true\n";
  if (!parsed_notes.backend.empty())
    toml += fmt::format("backend = \"{}\"\n", parsed_notes.backend);
  if (auto built = build_month(m)) {
    // Who ran a mode before it was merged had its branch.
    constexpr Month kFirstWithTensor{2026, 4};
    if (parsed_notes.split_mode == "tensor" && *built < kFirstWithTensor) built = kFirstWithTensor;
    toml += fmt::format("build = \"{}\"\n", built->text());
  }
  if (m.threads && *m.threads > 0)
    toml += fmt::format("threads = {}\n", std::min(*m.threads, 100'000));
  const int most = m.batch.value_or(0) > 0 ? std::min(*m.batch, 1 << 20) : 1 << 20;
  if (m.batch.value_or(0) > 0) toml += fmt::format("batch = {}\n", most);
  if (m.ubatch.value_or(0) > 0) toml += fmt::format("ubatch = {}\n", std::min(*m.ubatch, most));
  return toml;
}

std::string workload_fragment(const Measurement& m, const ParsedNotes& parsed_notes,
                              bool leaves_headroom) {
  const bool prompt = m.metric == Metric::kPp || m.metric == Metric::kTtft;
  const Lengths lengths = lengths_of(m, parsed_notes);
  const TokenCount in = prompt ? (lengths.prompt > 0 ? lengths.prompt : 512) : 1;
  const TokenCount out = prompt ? 1 : std::clamp<TokenCount>(lengths.generated, 0, 1'000'000);
  const TokenCount generated = out > 0 ? out : 128;
  // A benchmark allocates the cache for what it runs; a server for a conversation, or for as much
  // of one as leaves the headroom (`--fit-ctx`).
  const TokenCount server_context = leaves_headroom ? 4096 : 8192;
  const bool bench = freetext::contains(freetext::lower(m.tool), "llama-bench");
  const bool server = !bench && !freetext::contains(freetext::lower(m.tool), "sweep-bench");
  const TokenCount stated = bench ? TokenCount{0} : parsed_notes.context;
  const TokenCount cells = std::max({lengths.depth + in + generated, stated,
                                     server && stated == 0 ? server_context : TokenCount{0}});
  return fmt::format(
      "[workload]\ndepth = {}\nprompt_tokens = {}\noutput_tokens = {}\ncontext = {}\n"
      "start = \"resident\"\n",
      lengths.depth, in, generated, (cells + 255) / 256 * 256);
}

}  // namespace rigcast
