#include "core/runtime_profile.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace rigcast {
namespace {

constexpr std::pair<std::string_view, KvPolicy> kPolicies[] = {
    {"vram", KvPolicy::kVram},         {"ram", KvPolicy::kRam},
    {"stream", KvPolicy::kStream},     {"paged", KvPolicy::kPaged},
    {"combined", KvPolicy::kCombined}, {"spill", KvPolicy::kSpill},
};

Sourced<Seconds> duration(const TomlTable& t, std::string_view key) {
  return t.figure<Seconds>(key, Seconds{0}, Seconds{10});
}

Staging read_staging(const TomlTable& t) {
  return t.choice("staging", Staging::kPinned,
                  {{"pinned", Staging::kPinned}, {"pageable", Staging::kPageable}});
}

RuntimeProfile::Memory read_memory(const TomlTable& t) {
  RuntimeProfile::Memory m;
  m.kv = t.choice("kv", KvAllocation::kWholeContext,
                  {{"whole-context", KvAllocation::kWholeContext},
                   {"pool", KvAllocation::kPool},
                   {"grown-by-copy", KvAllocation::kGrownByCopy}});
  m.kv_padding = t.integer_or("kv_padding", 1, 1, 65536);
  m.logits = t.choice("logits", LogitsRows::kLast,
                      {{"ubatch", LogitsRows::kUbatch},
                       {"prompt", LogitsRows::kPrompt},
                       {"last", LogitsRows::kLast}});
  m.maps_file = t.flag("maps_file", false);
  m.staging = t.figure<Bytes>("staging", 0_B, 64_GiB).value;
  t.finish();
  return m;
}

RuntimeProfile::Load read_load(const TomlTable& t) {
  RuntimeProfile::Load l;
  l.chunk = t.figure<Bytes>("chunk", 4_KiB, 4_GiB).value;
  l.overlap = t.flag("overlap", false);
  l.staging = read_staging(t);
  l.ssd_share = t.number_figure("ssd_share", 0.01, 1.0);
  l.host_copy = t.figure<BytesPerSecond>("host_copy", 10_MBps, BytesPerSecond{1e13});
  t.finish();
  return l;
}

RuntimeProfile::Prefill read_prefill(const TomlTable& t) {
  RuntimeProfile::Prefill p;
  p.streams = t.flag("streams", false);
  p.stream_min_batch = t.integer_or("stream_min_batch", 32, 1, 1 << 20);
  p.overlap = t.flag("overlap", false);
  p.picks_faster = t.flag("picks_faster", false);
  p.whole_prompt = t.flag("whole_prompt", false);
  p.cpu_attention = t.flag("cpu_attention", false);
  p.staging = read_staging(t);
  t.finish();
  return p;
}

RuntimeProfile::Decode read_decode(const TomlTable& t) {
  RuntimeProfile::Decode d;
  d.crossing = duration(t, "crossing");
  d.token = duration(t, "token");
  d.sample = duration(t, "sample");
  d.tokenize = duration(t, "tokenize");
  d.stream_share = t.number_figure("stream_share", 0.01, 1.0);
  d.prefetch_depth = int(t.integer_or("prefetch_depth", 0, 0, 64));
  d.copies_kv = t.flag("copies_kv", false);
  d.expands_kv = t.flag("expands_kv", false);
  t.finish();
  return d;
}

// What an architecture's table leaves out is taken from the default's.
GpuEfficiency read_gpu_efficiency(const TomlTable& t, const GpuEfficiency* fallback) {
  GpuEfficiency e = fallback ? *fallback : GpuEfficiency{};
  const auto share = [&](std::string_view key, Sourced<double>& into, double most) {
    if (auto found = t.find_number_figure(key, 0.001, most)) {
      into = *std::move(found);
    } else if (!fallback) {
      t.require(key);
    }
  };
  share("read_float", e.read_float, 1.0);
  share("read_q8", e.read_q8, 1.0);
  share("read_q4", e.read_q4, 1.0);
  share("read_k", e.read_k, 1.0);
  share("read_iq", e.read_iq, 1.0);
  share("kv_read", e.kv_read, 1.0);
  share("matmul_float", e.matmul_float, 4.0);
  share("matmul_quant", e.matmul_quant, 4.0);
  share("matmul_half_batch", e.matmul_half_batch, 1e6);
  share("attention", e.attention, 4.0);
  if (auto gap = t.find_figure<Seconds>("kernel_gap", Seconds{0}, Seconds{1})) {
    e.kernel_gap = *std::move(gap);
  } else if (!fallback) {
    t.require("kernel_gap");
  }
  t.finish();
  return e;
}

CpuEfficiency read_cpu_efficiency(const TomlTable& t) {
  CpuEfficiency c;
  c.read = t.number_figure("read", 0.001, 1.0);
  c.kv_read = t.number_figure("kv_read", 0.001, 1.0);
  c.read_per_thread =
      t.figure<BytesPerSecond>("read_per_thread", 10_MBps, BytesPerSecond{1e12});
  c.operation_gap = duration(t, "operation_gap");
  const TomlTable rates = t.table("flops_per_cycle");
  for (const std::string& simd : rates.keys())
    c.flops_per_cycle[simd] = rates.number_figure(simd, 0.01, 1e5);
  if (!c.flops_per_cycle.contains("scalar")) rates.require("scalar");
  t.finish();
  return c;
}

}  // namespace

std::string_view name(KvPolicy policy) { return kPolicies[std::size_t(policy)].first; }

std::optional<KvPolicy> kv_policy_from(std::string_view text) {
  for (const auto& [name, policy] : kPolicies)
    if (name == text) return policy;
  return std::nullopt;
}

const Sourced<double>& GpuEfficiency::read_share(QuantFormat f) const {
  switch (f) {
    case QuantFormat::kF32:
    case QuantFormat::kF16:
    case QuantFormat::kBF16: return read_float;
    case QuantFormat::kQ8_0: return read_q8;
    case QuantFormat::kQ4_0:
    case QuantFormat::kQ4_1:
    case QuantFormat::kQ5_0:
    case QuantFormat::kQ5_1: return read_q4;
    case QuantFormat::kIQ4_NL:
    case QuantFormat::kIQ4_XS:
    case QuantFormat::kMXFP4: return read_iq;
    default: return read_k;
  }
}

const GpuEfficiency& RuntimeProfile::gpu_efficiency(const GpuPart& part) const {
  const auto own = gpu.find(part.architecture);
  return own != gpu.end() ? own->second : gpu.at("default");
}

bool RuntimeProfile::has(KvPolicy policy) const {
  return std::ranges::find(kv_policies, policy) != kv_policies.end();
}

std::string RuntimeProfile::kv_policy_names() const {
  std::vector<std::string_view> names;
  for (const KvPolicy policy : kv_policies) names.push_back(rigcast::name(policy));
  return fmt::format("{}", fmt::join(names, ", "));
}

Result<RuntimeProfile> load_runtime_profile(const std::filesystem::path& file) {
  auto document = TomlDocument::read(file);
  if (!document) return document.error();
  const TomlTable t = document->root();
  RuntimeProfile p;
  p.id = file.stem().string();
  p.name = t.text("name");
  p.era = t.text("era");
  p.source = t.text("source");
  t.texts("aliases");
  t.set_figure_defaults({SourceKind::kAssumed, p.source});
  for (const std::string& text : t.texts("kv_policies")) {
    const auto policy = kv_policy_from(text);
    if (policy) {
      p.kv_policies.push_back(*policy);
    } else {
      t.refuse("kv_policies", fmt::format("no KV policy named \"{}\"", text),
               "known: vram, ram, stream, paged, combined, spill");
    }
  }
  if (p.kv_policies.empty()) t.refuse("kv_policies", "a runtime has at least one KV policy");
  p.weight_streaming = t.flag("weight_streaming", false);
  p.cpu_decode = t.flag("cpu_decode", false);
  p.quantized_v_needs_flash = t.flag("quantized_v_needs_flash", false);
  p.memory = read_memory(t.table("memory"));
  p.load = read_load(t.table("load"));
  p.prefill = read_prefill(t.table("prefill"));
  p.decode = read_decode(t.table("decode"));

  const TomlTable kernels = t.table("kernels");
  p.kernels.attention = int(kernels.integer("attention", 0, 10'000));
  p.kernels.ffn = int(kernels.integer("ffn", 0, 10'000));
  p.kernels.moe = int(kernels.integer("moe", 0, 10'000));
  p.kernels.head = int(kernels.integer("head", 0, 10'000));
  kernels.finish();

  const TomlTable gpus = t.table("gpu");
  gpus.require("default");
  const GpuEfficiency fallback = read_gpu_efficiency(gpus.table("default"), nullptr);
  for (const std::string& architecture : gpus.keys())
    p.gpu[architecture] = architecture == "default"
                              ? fallback
                              : read_gpu_efficiency(gpus.table(architecture), &fallback);
  p.cpu = read_cpu_efficiency(t.table("cpu"));

  const TomlTable uncertainty = t.table("uncertainty");
  p.uncertainty.decode = uncertainty.number_figure("decode", 0, 10);
  p.uncertainty.prefill = uncertainty.number_figure("prefill", 0, 10);
  p.uncertainty.load = uncertainty.number_figure("load", 0, 10);
  uncertainty.finish();
  t.finish();
  if (auto error = document->error()) return *error;
  return p;
}

}  // namespace rigcast
