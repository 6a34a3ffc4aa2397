#include "core/scenario/scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <tuple>

#include "core/catalogue/compose_rig.hpp"
#include "core/catalogue/find_model.hpp"
#include "core/model/quantized_model.hpp"
#include "core/pressure/core_users.hpp"
#include "core/pressure/memory_settings.hpp"
#include "core/scenario/layer_sharing.hpp"
#include "core/scenario/server_rules.hpp"
#include "core/text/build_month.hpp"

namespace rigcast {
namespace {

constexpr TokenCount kMaxTokens = 1ll << 30;
constexpr TokenCount kDefaultContext = 8192;
constexpr TokenCount kMaxOutput = 10'000'000;  // each output token has its own time

QuantFormat kv_type(const TomlTable& t, std::string_view key, QuantFormat fallback) {
  const auto text = t.find_text(key);
  if (!text) return fallback;
  const auto type = kv_type_from(*text);
  if (type) return *type;
  t.refuse(key, type.error());
  return fallback;
}

// The file's true size, where the mix's rule is not what the file was made by.
void read_model_size(const TomlTable& t, TensorTable& tensors) {
  const auto size = t.find_figure<Bytes>("size", 1_MiB, Bytes{1e15});
  const double usual = double(tensors.bytes());
  if (!size || usual <= 0) return;
  const double share = size->value.value / usual;
  if (share >= 0.2 && share <= 5.0) return scale_to(tensors, size->value);
  t.refuse("size",
           fmt::format("{} is {:.2g} times what the quant mix gives, {}", text_gib(size->value),
                       share, text_gib(Bytes{usual})),
           "choose the mix that is nearest to the file's bits per weight");
}

// Experts that a token is routed to, where the user has the runtime take fewer or more.
void read_experts_used(const TomlTable& t, ModelSpec& model) {
  if (!model.moe) {
    if (t.has("experts_used"))
      t.refuse("experts_used", fmt::format("{} has no experts", model.name));
    return;
  }
  model.moe->experts_used =
      int(t.integer_or("experts_used", model.moe->experts_used, 1, model.moe->experts));
}

// Its name, formats and size are the file's own.
void read_model_from_file(const TomlTable& t, const Catalogue& catalogue, Scenario& s) {
  for (const char* key : {"name", "quant", "size"})
    if (t.has(key))
      t.refuse(key, fmt::format("a model file was named, which has its own {}", key),
               fmt::format("leave out model.{}, or model.file", key));
  auto model = catalogue.model_file(t.text("file"));
  if (!model) {
    t.refuse("file", model.error());
  } else {
    s.model = std::move(model->spec);
    s.tensors = std::move(model->tensors);
    s.quant = std::move(model->quant);
    s.model_file = t.text("file");
    read_experts_used(t, s.model);
  }
}

void read_weights(const TomlTable& t, const Catalogue& catalogue, Scenario& s) {
  if (t.has("file")) return read_model_from_file(t, catalogue, s);
  const auto given = t.find_text("quant");
  const WeightFormats formats = weight_formats(s.runtime);
  if (auto found = find_model(catalogue, t.text("name"), given.value_or(""), formats)) {
    s.model = std::move(found->spec);
    const std::string usual =
        formats == WeightFormats::kServed ? default_served_quant(s.model) : default_quant(s.model);
    s.quant = given ? *given : found->quant.empty() ? usual : found->quant;
    std::ranges::move(found->warnings, std::back_inserter(s.warnings));
  } else {
    t.refuse("name", found.error());  // a missing name was the first error
  }
  if (s.model.layers > 0) read_experts_used(t, s.model);
  if (s.model.layers > 0) {
    if (auto quantized = quantize(s.model, s.quant, t.has("size"))) {
      s.quant = std::move(quantized->quant);
      s.tensors = std::move(quantized->tensors);
      if (!quantized->note.empty()) s.warnings.push_back(std::move(quantized->note));
    } else {
      t.refuse("quant", quantized.error());
    }
  }
  read_model_size(t, s.tensors);
}

void read_projector(const TomlTable& t, const Catalogue& catalogue, Scenario& s) {
  const auto file = t.find_text("mmproj");
  const bool on_gpu = t.flag("mmproj_offload", true);
  if (!file) return;
  if (!s.runtime.projector)
    return t.refuse("mmproj", fmt::format("{} takes no vision projector", s.runtime.name),
                    "choose --runtime llama.cpp, or leave it out");
  if (const auto bytes = catalogue.projector_file(*file))
    s.projector = Projector{*file, *bytes, on_gpu};
  else
    t.refuse("mmproj", bytes.error());
}

void read_model(const TomlTable& t, const Catalogue& catalogue, Scenario& s) {
  read_weights(t, catalogue, s);
  read_projector(t, catalogue, s);
  t.finish();
}

// The draft model's keys are those of the model's weights.
void read_draft(const TomlTable& t, const Catalogue& catalogue, Scenario& s) {
  if (!s.runtime.speculates)
    return t.refuse("name", fmt::format("{} takes no draft model", s.runtime.name),
                    "choose --runtime llama.cpp, or leave it out");
  Scenario draft;
  read_weights(t, catalogue, draft);
  t.finish();
  std::ranges::move(draft.warnings, std::back_inserter(s.warnings));
  s.draft = DraftModel{.model = std::move(draft.model),
                       .quant = std::move(draft.quant),
                       .tensors = std::move(draft.tensors),
                       .file = std::move(draft.model_file)};
}

// The engine of this project computes with most formats, not with all.
void refuse_uncomputed(const TomlTable& t, const Scenario& s) {
  if (s.runtime.rules != RuntimeRules::kRigcast) return;
  const Tensor* const uncomputed = s.tensors.uncomputed();
  if (!uncomputed) return;
  t.refuse(s.model_file ? "file" : "quant",
           fmt::format("{} has no code for {}", s.runtime.name, info(uncomputed->format).name),
           "choose --runtime llama.cpp, or another mix, such as IQ4_XS");
}

// Where every layer keeps all tokens, whatever window the model was trained with. Builds whose
// kernels compute the window's mask alone are forecast as if they attended to all: GPUs compute
// what is masked, a CPU is faster than that.
void ignore_window(Scenario& s) {
  if (!s.model.window) return;
  const auto& since = s.runtime.memory.windows_since;
  constexpr double kNoBuild = 2100;
  const bool older = since && (since->value >= kNoBuild ||
                               s.settings.build_year.value_or(since->value) < since->value);
  if (!older && std::ranges::count(s.runtime.memory.full_caches, s.model.architecture) == 0) return;
  s.warnings.push_back(fmt::format(
      "{} keeps the KV of all tokens{} of {} tokens that {} was trained with", s.runtime.name,
      older ? ", also in the layers that have a window: one" : ": it ignores the window",
      text_count(s.model.window->tokens), s.model.name));
  s.model.window.reset();
}

// Leaves of each GPU the matrix units that the backend multiplies with.
void limit_matrix_units(Scenario& s) {
  const Backend backend = s.settings.backend;
  for (GpuPart& gpu : s.rig.gpus) {
    if (s.runtime.fp32_sums && gpu.fp16_tensor) gpu.fp16_tensor_fp16acc.reset();
    if (!s.settings.matrix_units || !uses_matrix_units(s.runtime.matrix_units, backend,
                                                       gpu.architecture, s.settings.build_year)) {
      gpu.fp16_tensor.reset();
      gpu.fp16_tensor_fp16acc.reset();
      gpu.int8_tensor.reset();
    }
    if (!s.runtime.backends[std::size_t(backend)].int8_units ||
        !uses_matrix_units(s.runtime.int8_matrix_units, backend, gpu.architecture,
                           s.settings.build_year))
      gpu.int8_tensor.reset();
  }
}

// Where the compressed values of latent attention have a cache of their own.
void cache_latent_values(Scenario& s, ModelSpec& model) {
  const auto& until = s.runtime.memory.latent_values_until;
  if (!model.mla || !until || !s.settings.build_year) return;
  const double build = *s.settings.build_year;
  if (build < until->value) model.mla->caches_values = true;
  const auto& since = s.runtime.memory.latent_since;
  if (since && build < since->value)
    s.warnings.push_back(fmt::format(
        "a build of {} from before {:.0f}-{:02.0f} caches the keys and values of all heads "
        "of {}, several times the KV that is forecast",
        s.runtime.name, std::floor(since->value),
        1 + std::floor(12 * (since->value - std::floor(since->value)) + 0.5), model.name));
}

void read_placement(const TomlTable& t, Scenario& s) {
  PlacementSettings& p = s.placement;
  const int most = s.model.layers + 1;
  if (t.find_text_or_none("gpu_layers").value_or("auto") != "auto")
    t.refuse("gpu_layers", "expected a number of layers or \"auto\"");
  if (!t.find_text_or_none("gpu_layers") && t.has("gpu_layers")) {
    const auto layers = t.integer("gpu_layers", 0, 1'000'000);
    if (layers > most && layers != 99 && layers != 999) {
      t.refuse("gpu_layers",
               fmt::format("{} is more than {} has: {} layers and the output head", layers,
                           s.model.name, s.model.layers),
               fmt::format("give 0 to {}, or \"auto\"{}", most,
                           s.model.nextn_layers > 0
                               ? ": layers that draft tokens, which llama.cpp's -ngl counts, do not"
                                 " count here"
                               : ""));
    }
    p.gpu_layers = int(std::min<std::int64_t>(layers, most));
  }
  if (s.runtime.rules == RuntimeRules::kPagedServer)
    p.gpu_layers = paged_gpu_layers(t, s.runtime, s.model, p.gpu_layers);
  const bool is_shared = p.split_mode != kSplitByLayer;
  if (is_shared && !p.gpu_layers) p.gpu_layers = most;
  p.tensor_split = t.numbers("tensor_split", 0, 1e6);
  if (p.groups.pipeline > 1) {
    if (t.has("tensor_split"))
      t.refuse("tensor_split", "stages of a pipeline have as many layers as vLLM gives them",
               "leave it out");
    p.tensor_split = layers_of_stages(s.model.layers, p.groups.pipeline);
  }
  if (is_shared || (p.tensor_split.size() == 1 && s.rig.gpus.size() <= 1)) p.tensor_split.clear();
  if (!p.tensor_split.empty()) {
    if (p.tensor_split.size() != s.rig.gpus.size())
      t.refuse("tensor_split",
               fmt::format("{} shares for {} GPUs", p.tensor_split.size(), s.rig.gpus.size()));
    if (std::accumulate(p.tensor_split.begin(), p.tensor_split.end(), 0.0) <= 0)
      t.refuse("tensor_split", "the shares add up to nothing");
  }
  p.cpu_moe_layers = int(t.integer_or("cpu_moe_layers", 0, 0, s.model.layers));
  if (p.cpu_moe_layers > 0 && !s.model.moe)
    t.refuse("cpu_moe_layers", fmt::format("{} has no experts", s.model.name),
             s.runtime.ffn_in_ram ? "FFNs of a dense model: --cpu-ffn" : "");
  p.cpu_ffn_layers = int(t.integer_or("cpu_ffn_layers", 0, 0, s.model.layers));
  if (p.cpu_ffn_layers > 0 && s.model.moe)
    t.refuse("cpu_ffn_layers", fmt::format("{} has experts", s.model.name), "--cpu-moe");
  if (p.cpu_ffn_layers > 0 && !s.runtime.ffn_in_ram)
    t.refuse("cpu_ffn_layers",
             fmt::format("{} keeps an FFN with the rest of its layer", s.runtime.name),
             "choose --runtime llama.cpp, or fewer --gpu-layers");
  p.fits_experts = !p.gpu_layers && s.model.moe && !t.has("cpu_moe_layers") &&
                   p.tensor_split.empty() && !s.rig.gpus.empty() && !s.rig.unified() &&
                   s.runtime.memory.fits_experts;
  p.decode_device = t.choice("decode_device", DecodeDevice::kPlacement,
                             {{"placement", DecodeDevice::kPlacement},
                              {"gpu", DecodeDevice::kGpu},
                              {"cpu", DecodeDevice::kCpu}});
  // Without streaming, "gpu" is the same as a placement with every layer there; "auto" may leave
  // some on the host, which then computes them.
  const bool none_on_host = !p.gpu_layers || *p.gpu_layers >= s.model.layers;
  if (p.decode_device == DecodeDevice::kGpu && !s.runtime.weight_streaming && none_on_host)
    p.decode_device = DecodeDevice::kPlacement;
  if (p.decode_device == DecodeDevice::kGpu && !s.runtime.weight_streaming && p.gpu_layers)
    t.refuse("decode_device",
             fmt::format("{} computes layers where their weights are", s.runtime.name),
             "with \"gpu\", host layers are streamed: choose --runtime rigcast");
  if (p.decode_device == DecodeDevice::kCpu && !s.runtime.cpu_decode)
    t.refuse("decode_device",
             fmt::format("{} cannot hand over from GPU prefill to CPU decode", s.runtime.name),
             "use --gpu-layers 0, or --runtime rigcast or transformers");
  if (p.decode_device != DecodeDevice::kPlacement && s.rig.gpus.empty())
    p.decode_device = DecodeDevice::kPlacement;
  t.finish();
}

void read_kv(const TomlTable& t, Scenario& s) {
  KvSettings& kv = s.kv;
  if (const auto text = t.find_text("policy")) {
    const auto policy = kv_policy_from(*text);
    if (!policy) {
      t.refuse("policy", fmt::format("no KV policy named \"{}\"", *text),
               "known: vram, ram, stream, paged, combined, spill");
    } else if (!s.runtime.has(*policy)) {
      t.refuse("policy", fmt::format("{} has no KV policy \"{}\"", s.runtime.name, *text),
               fmt::format("it has {}", s.runtime.kv_policy_names()));
    } else {
      kv.policy = *policy;
    }
  }
  kv.types.k = kv_type(t, "type_k", QuantFormat::kF16);
  kv.types.v = kv_type(t, "type_v", QuantFormat::kF16);
  kv.cold_type = kv_type(t, "cold_type", kv.types.k);
  refuse_cache_of_others(t, s.runtime, kv.types);
  if (const auto checked = check_kv_types(s.model, kv.types); !checked)
    t.refuse(t.has("type_k") ? "type_k" : "type_v", checked.error());
  if (const auto checked = check_kv_types(s.model, {kv.cold_type, kv.cold_type}); !checked)
    t.refuse("cold_type", checked.error());
  kv.threshold = t.number_or("threshold", 0.95, 0.01, 1.0);
  kv.hot_tokens = t.integer_or("hot_tokens", 512, 0, kMaxTokens);
  kv.block_tokens = t.integer_or("block_tokens", 128, 1, 65536);
  kv.evict = t.choice("evict", Eviction::kOldest,
                      {{"oldest", Eviction::kOldest}, {"lru", Eviction::kLru}});
  kv.prefetch = t.flag("prefetch", true);
  const bool needs_gpu = kv.policy != KvPolicy::kVram && kv.policy != KvPolicy::kRam;
  if (needs_gpu && s.rig.gpus.empty())
    t.refuse("policy", fmt::format("the KV policy \"{}\" needs a GPU", name(kv.policy)));
  t.finish();
}

// The runtime's own margin is for what nobody has measured.
Bytes default_headroom(const Scenario& s) {
  const bool measured = s.rig.vram_reserved.kind == SourceKind::kMeasured &&
                        s.rig.gpu_context.kind == SourceKind::kMeasured;
  return measured ? 0_B : s.runtime.memory.headroom;
}

// One build of llama.cpp is usually for one vendor's GPUs, and those of two have Vulkan in common;
// the other runtimes are programs for one vendor.
void check_vendors(const TomlTable& t, Scenario& s) {
  const auto other = std::ranges::find_if(
      s.rig.gpus, [&](const GpuPart& gpu) { return gpu.vendor != s.rig.gpus.front().vendor; });
  if (other == s.rig.gpus.end()) return;
  const std::string both = fmt::format("{} and {}", s.rig.gpus.front().name, other->name);
  if (s.runtime.rules != RuntimeRules::kLlamaCpp) {
    t.refuse("backend", fmt::format("{} does not run on {} together", s.runtime.name, both),
             "GPUs of one vendor, or --runtime llama.cpp, of which a Vulkan build drives both");
    return;
  }
  // First: the screen shows the first few.
  s.warnings.insert(
      s.warnings.begin(),
      fmt::format("{} have no backend but {} in common: it is forecast on both. Builds with "
                  "a backend for each vendor are not modelled",
                  both, name(s.settings.backend)));
}

// Threads, of which only those of one node work where the others are left idle.
void read_threads(const TomlTable& t, Scenario& s) {
  const CpuPart& cpu = s.rig.cpu;
  const bool one_node = s.settings.numa == NumaPolicy::kIsolate && cpu.nodes() > 1;
  const int nodes = one_node ? cpu.nodes() : 1;
  const int most = std::max(cpu.threads, cpu.cores) / nodes;
  s.settings.threads = int(t.integer_or("threads", std::max(1, cpu.cores / nodes), 1, 100'000));
  if (s.settings.threads <= most || most <= 0) return;
  s.warnings.push_back(fmt::format("{} threads on {} that runs {}: forecast with {}",
                                   s.settings.threads, one_node ? "one memory node" : "a CPU", most,
                                   most));
  s.settings.threads = most;
}

// Other programs that read RAM. Those on cores of their own take bandwidth alone.
void read_neighbours(const TomlTable& t, Scenario& s) {
  RuntimeSettings& own = s.settings;
  own.neighbours = int(t.integer_or("neighbours", 0, 0, 100'000));
  own.isolated = t.flag("isolated", false);
  const CoreUsers users{own.threads, own.neighbours, own.isolated};
  if (std::string note = check_cores(t, s.rig.cpu, users); !note.empty())
    s.warnings.push_back(std::move(note));
}

// A copy is one reader more beside them: it gets what they leave, or as much as each of them.
void share_ram_with_neighbours(Scenario& s) {
  const double all = s.settings.neighbours;
  if (all <= 0 || s.rig.unified()) return;
  const BytesPerSecond ram = s.rig.ram.bandwidth.value * s.runtime.cpu.read.value;
  const BytesPerSecond one =
      (s.rig.cpu.core_read ? *s.rig.cpu.core_read : s.runtime.cpu.read_per_thread).value;
  const BytesPerSecond left = std::max(ram - one * all, ram / (all + 1));
  for (HostLink& link : s.rig.links)
    for (auto* rate : {&link.h2d, &link.d2h, &link.pageable})
      rate->value = std::min(rate->value, left);
}

void read_settings(const TomlTable& t, Scenario& s) {
  t.text_or("name", "");
  s.settings.backend = read_backend(t, s.rig);
  check_vendors(t, s);
  s.settings.mmap = t.flag("mmap", true);
  s.settings.numa = read_numa(t);
  if (s.settings.numa != NumaPolicy::kNone && s.runtime.rules != RuntimeRules::kLlamaCpp)
    t.refuse("numa", fmt::format("{} places nothing by memory node", s.runtime.name),
             "choose --runtime llama.cpp, or leave --numa out");
  if (s.settings.numa == NumaPolicy::kMirror && s.rig.cpu.nodes() > 1)
    s.warnings.push_back(
        "no release mirrors weights: llama.cpp PR 16000 or 27986, or ik_llama.cpp PR 2396, does");
  s.settings.cpu_blas = t.flag("cpu_blas", s.settings.backend == Backend::kMetal);
  s.settings.matrix_units = t.flag("matrix_units", true);
  if (!s.settings.matrix_units && s.settings.backend != Backend::kVulkan)
    t.refuse("matrix_units",
             fmt::format("{} multiplies on the matrix units of every GPU that has some",
                         name(s.settings.backend)),
             "a driver without them is forecast by backend = \"vulkan\"");
  s.settings.op_offload = t.flag("op_offload", true);
  s.settings.headroom = t.find_figure<Bytes>("headroom", 0_B, Bytes{1e14})
                            .value_or(Sourced<Bytes>{default_headroom(s), {}, {}})
                            .value;
  read_threads(t, s);
  read_neighbours(t, s);
  share_ram_with_neighbours(s);
  s.settings.batch = int(t.integer_or("batch", 2048, 1, 1 << 20));
  s.settings.ubatch = int(t.integer_or("ubatch", std::min(512, s.settings.batch), 1, 1 << 20));
  s.settings.ubatch = std::min(s.settings.ubatch, s.settings.batch);
  s.settings.flash_attention = t.flag("flash_attention", true);
  const bool quantized_v = info(s.kv.types.v).block_elements > 1;
  if (quantized_v && !s.settings.flash_attention && s.runtime.quantized_v_needs_flash)
    t.refuse("flash_attention",
             fmt::format("{} needs flash attention for a quantized V cache", s.runtime.name),
             "--flash-attn on, or --set kv.type_v=f16");
  t.finish();
}

// Where no request is stated: the middle one of the turns of a conversation that fills the context.
constexpr TokenCount kTurnPrompt = 512, kTurnAnswer = 512;

void note_lengths_of_trace(const TomlTable& root, Scenario& s) {
  const TomlTable t = root.table("workload");
  const bool is_trace = s.load && s.load->arrival == ArrivalProcess::kTrace;
  if (is_trace && (t.has("prompt_tokens") || t.has("output_tokens")))
    s.warnings.emplace_back("requests are as long as the trace says, not as [workload] says");
}

void read_workload(const TomlTable& root, Scenario& s) {
  const TomlTable t = root.table("workload");
  Workload& w = s.workload;
  w.users = int(t.integer_or("users", 1, 1, 1'000'000));
  const bool has_load = root.has("load") || w.users > 1;
  w.context = t.integer_or("context", std::min(kDefaultContext, s.model.context), 1, kMaxTokens);
  w.fills_context = !has_load && !t.has("depth") && !t.has("prompt_tokens");
  // A load says what its requests are: no request that is assumed has to fit for it.
  const TokenCount usual_prompt =
      w.fills_context || has_load ? std::min(kTurnPrompt, (w.context + 1) / 2) : kTurnPrompt;
  w.prompt_tokens = t.integer_or("prompt_tokens", usual_prompt, 1, kMaxTokens);
  w.depth = t.integer_or("depth", 0, 0, kMaxTokens);
  const TokenCount room = std::max<TokenCount>(1, w.context - w.depth - w.prompt_tokens);
  w.output_tokens = t.integer_or("output_tokens", std::min(room, kTurnAnswer), 1, kMaxOutput);
  if (has_load && !t.has("prompt_tokens"))
    w.prompt_tokens = std::clamp<TokenCount>(w.context - w.output_tokens, 1, w.prompt_tokens);
  if (w.fills_context)
    w.depth = std::max<TokenCount>(0, w.context - w.prompt_tokens - w.output_tokens) / 2;
  const TokenCount needed = w.depth + w.prompt_tokens + w.output_tokens;
  if (needed > w.context) {
    if (t.has("context"))
      t.refuse("context",
               fmt::format("{} tokens of prompt and output do not fit into a context of {}",
                           text_count(needed), text_count(w.context)),
               fmt::format("give at least --context {}", needed));
    w.context = needed;
  }
  if (w.fills_context && w.depth > 0)
    s.warnings.push_back(
        fmt::format("no request given: assumed {} + {} tokens after {}, half-way through a context "
                    "of {} (--prompt-tokens, --depth)",
                    w.prompt_tokens, w.output_tokens, text_count(w.depth), text_count(w.context)));
  if (w.context > s.model.context)
    s.warnings.push_back(fmt::format("context {} is beyond the {} that {} was trained for",
                                     text_count(w.context), text_count(s.model.context),
                                     s.model.name));
  w.start =
      t.choice("start", Start::kWarm,
               {{"resident", Start::kResident}, {"warm", Start::kWarm}, {"cold", Start::kCold}});
  t.finish();
}

}  // namespace

Scenario::Scenario() = default;
Scenario::Scenario(const Scenario&) = default;
Scenario::Scenario(Scenario&&) noexcept = default;
Scenario& Scenario::operator=(const Scenario&) = default;
Scenario& Scenario::operator=(Scenario&&) noexcept = default;
Scenario::~Scenario() = default;

std::string_view name(DecodeDevice device) {
  switch (device) {
    case DecodeDevice::kPlacement: return "placement";
    case DecodeDevice::kGpu: return "gpu";
    case DecodeDevice::kCpu: return "cpu";
  }
  return "";
}

std::string_view name(Start start) {
  switch (start) {
    case Start::kResident: return "resident";
    case Start::kWarm: return "warm";
    case Start::kCold: return "cold";
  }
  return "";
}

std::vector<std::string> notes_on_companions(const Scenario& s) {
  std::vector<std::string> notes;
  if (s.projector)
    notes.push_back(
        fmt::format("{}: its weights and their load are counted; its compute buffer, which has to "
                    "fit into the headroom, and the time to encode an image are not forecast",
                    s.projector->file.filename().string()));
  if (s.draft)
    notes.push_back(
        fmt::format("draft model {}: its memory and load are counted; what it gains depends on how "
                    "many of its tokens are accepted and is not forecast: speeds are those without "
                    "speculation",
                    s.draft->model.name));
  return notes;
}

const Correction* Scenario::correction() const { return rig.correction(runtime.id); }

Result<Scenario> make_scenario(const TomlDocument& given, const Catalogue& catalogue) {
  TomlDocument document = given.clone();
  if (auto error = merge_named_rig(document, catalogue)) return *error;
  const TomlTable root = document.root();
  if (!root.has("rig"))
    root.refuse("rig", "no machine to forecast",
                "name parts (--gpu rtx-3090), a rig (--rig desktop-ddr5) or a scenario file");
  if (!root.has("model"))
    root.refuse("model", "no model to forecast", "for example --model llama-3.1-8b");
  root.find_text("description");

  Scenario s;
  s.rig = compose_rig(root.table("rig"), catalogue, s.warnings);
  drop_foreign_corrections(given, s.rig, s.warnings);
  const TomlTable runtime = root.table("runtime");
  const auto file = catalogue.runtime_file(runtime.text_or("name", "llama.cpp"));
  if (!file) {
    runtime.refuse("name", file.error());
    return *document.error();
  }
  auto profile = catalogue.runtime(*file);
  if (!profile) return profile.error();
  s.runtime = *std::move(profile);

  read_model(root.table("model"), catalogue, s);
  refuse_uncomputed(root.table("model"), s);
  refuse_formats_of_others(root.table("model"), s.runtime, s.tensors);
  if (root.has("draft")) read_draft(root.table("draft"), catalogue, s);
  if (auto error = document.error()) return *error;  // the rest reads against the model
  s.settings.build_year = read_build(runtime);
  ignore_window(s);
  cache_latent_values(s, s.model);
  if (s.draft) cache_latent_values(s, s.draft->model);
  const TomlTable placement = root.table("placement");
  const SharedModel shared{s.runtime, s.model, s.settings.build_year};
  LayerSharing sharing = share_layers(placement, shared, catalogue, s.rig, s.warnings);
  s.placement.split_mode = std::move(sharing.split_mode);
  s.placement.groups = sharing.groups;
  read_placement(placement, s);
  read_kv(root.table("kv"), s);
  read_settings(runtime, s);
  limit_matrix_units(s);
  read_workload(root, s);
  s.scheduler = read_server_rules(root, s.runtime, s.rig, s.settings.batch, s.settings.ubatch);
  if (s.scheduler) take_stages(root, s.placement.groups, *s.scheduler);
  if (s.runtime.rules == RuntimeRules::kPagedServer)
    std::ranges::move(check_paged_server(root, s.runtime, s.model, s.tensors, s.kv.types),
                      std::back_inserter(s.warnings));
  check_split_mode(root, s.runtime, s.placement.split_mode,
                   {.backend = s.settings.backend,
                    .all_layers = s.placement.gpu_layers.value_or(0) > s.model.layers,
                    .all_ffns = s.placement.cpu_moe_layers + s.placement.cpu_ffn_layers == 0,
                    .policy = s.kv.policy,
                    .cache = s.kv.types,
                    .flash_attention = s.settings.flash_attention});
  s.load = read_load(root, s.workload.prompt_tokens, s.workload.output_tokens, catalogue);
  note_lengths_of_trace(root, s);
  s.memory = read_memory_settings(root, s.rig, s.workload.last_position());
  if (s.memory)
    check_memory_settings(root, *s.memory,
                          {s.runtime.name, s.runtime.rules == RuntimeRules::kRigcast,
                           s.settings.mmap, s.workload.context, s.load.has_value()});
  if (s.scheduler && (s.load || s.runtime.rules != RuntimeRules::kRigcast)) {
    RuntimeSettings& own = s.settings;
    const StepSettings steps =
        step_settings(runtime, s.runtime, *s.scheduler, {own.batch, own.ubatch, own.op_offload});
    std::tie(own.batch, own.ubatch, own.op_offload) =
        std::tie(steps.batch, steps.ubatch, steps.op_offload);
  }
  const bool hands_over =
      s.placement.decode_device == DecodeDevice::kCpu && s.placement.gpu_layers != 0;
  const LoadSettings served{s.kv.policy, s.kv.types, s.kv.cold_types(), hands_over,
                            s.placement.gpu_layers != 0};
  std::ranges::move(
      s.load ? check_load(root, s.runtime, s.rig, served) : notes_on_unused_tiers(root),
      std::back_inserter(s.warnings));
  root.finish();
  if (auto error = document.error()) return *error;
  std::ranges::move(notes_on_companions(s), std::back_inserter(s.warnings));
  if (s.runtime.prefill.whole_prompt)
    s.settings.ubatch = s.settings.batch = int(s.workload.prompt_tokens);
  return s;
}

}  // namespace rigcast
