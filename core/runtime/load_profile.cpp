#include "core/runtime/load_profile.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/runtime/read_kernels.hpp"

namespace rigcast {
namespace {

constexpr Sourced<double> unit_scale() { return {1.0, SourceKind::kAssumed, {}}; }

Staging read_staging(const TomlTable& t) {
  return t.choice("staging", Staging::kPinned,
                  {{"pinned", Staging::kPinned}, {"pageable", Staging::kPageable}});
}

RuntimeProfile::Memory read_memory(const TomlTable& t) {
  RuntimeProfile::Memory m;
  m.kv_padding = t.integer_or("kv_padding", 1, 1, 65536);
  m.logits = t.choice("logits", LogitsRows::kLast,
                      {{"ubatch", LogitsRows::kUbatch},
                       {"prompt", LogitsRows::kPrompt},
                       {"last", LogitsRows::kLast}});
  m.last_logits_since = t.find_number_figure("last_logits_since", 2020, 2100);
  m.latent_values_until = t.find_number_figure("latent_values_until", 2020, 2100);
  m.latent_since = t.find_number_figure("latent_since", 2020, 2100);
  m.maps_file = t.flag("maps_file", false);
  m.pages_in = t.flag("pages_in", false);
  m.staging = t.figure<Bytes>("staging", 0_B, 64_GiB).value;
  const std::pair<const char*, Bytes*> optional[] = {
      {"process", &m.process},
      {"process_gpu", &m.process_gpu},
      {"process_cublas", &m.process_cublas},
      {"process_cublas_floats", &m.process_cublas_floats},
      {"process_recurrent", &m.process_recurrent},
      {"graph_layer", &m.graph_layer},
      {"graph_experts_layer", &m.graph_experts_layer},
      {"process_file", &m.process_file},
      {"headroom", &m.headroom}};
  for (const auto& [key, to] : optional)
    if (const auto bytes = t.find_figure<Bytes>(key, 0_B, 64_GiB)) *to = bytes->value;
  m.keeps_vectors = t.flag("keeps_vectors", false);
  m.fits_experts = t.flag("fits_experts", false);
  m.full_caches = t.texts("full_caches");
  m.windows_since = t.find_number_figure("windows_since", 2020, 2100);
  t.finish();
  return m;
}

RuntimeProfile::Load read_load(const TomlTable& t) {
  RuntimeProfile::Load l;
  l.chunk = t.figure<Bytes>("chunk", 4_KiB, 4_GiB).value;
  l.overlap = t.flag("overlap", false);
  l.staging = read_staging(t);
  l.ssd_share = t.number_figure("ssd_share", 0.01, 1.0);
  l.maps_pages = t.flag("maps_pages", false);
  l.readers = int(t.integer_or("readers", 1, 1, 1024));
  l.host_copy = t.figure<BytesPerSecond>("host_copy", 10_MBps, BytesPerSecond{1e13});
  l.vocabulary = t.find_figure<Seconds>("vocabulary", Seconds{0}, Seconds{1e-3})
                     .value_or(Sourced<Seconds>{Seconds{0}, SourceKind::kAssumed, {}});
  l.map = t.find_figure<BytesPerSecond>("map", 10_MBps, BytesPerSecond{1e13});
  l.repack = t.find_figure<BytesPerSecond>("repack", 10_MBps, BytesPerSecond{1e13});
  t.finish();
  return l;
}

std::vector<RuntimeProfile::Repacking> read_repackings(const TomlTable& root) {
  std::vector<RuntimeProfile::Repacking> out;
  for (const TomlTable& t : root.tables("repack")) {
    RuntimeProfile::Repacking r;
    const std::string format = t.text("format");
    const auto known = std::ranges::find(kQuantFormats, format, &QuantFormatInfo::name);
    if (known == kQuantFormats.end())
      t.refuse("format", fmt::format("no block format named \"{}\"", format),
               "for example \"Q4_K\"");
    else
      r.format = QuantFormat(known - kQuantFormats.begin());
    r.simd = t.texts("simd");
    r.rows = t.integer_or("rows", 1, 1, 1 << 20);
    r.experts = t.flag("experts", true);
    r.block_bytes = double(t.integer_or("block_bytes", 0, 0, 1 << 20));
    r.since = t.number_figure("since", 2020, 2100);
    t.finish();
    out.push_back(std::move(r));
  }
  return out;
}

RuntimeProfile::Prefill read_prefill(const TomlTable& t) {
  RuntimeProfile::Prefill p;
  p.streams = t.flag("streams", false);
  p.streams_alone = t.flag("streams_alone", true);
  p.stream_min_batch = t.integer_or("stream_min_batch", 32, 1, 1 << 20);
  p.overlap = t.flag("overlap", false);
  p.picks_faster = t.flag("picks_faster", false);
  p.whole_prompt = t.flag("whole_prompt", false);
  p.cpu_attention = t.flag("cpu_attention", false);
  p.staging = read_staging(t);
  p.pageable_pages = t.flag("pageable_pages", false);
  p.mapped_share = t.number_figure("mapped_share", 0.01, 1.0);
  p.experts_need_more = t.flag("experts_need_more", false);
  p.experts_since = t.find_number_figure("experts_since", 2020, 2100)
                        .value_or(Sourced<double>{2020, SourceKind::kAssumed, {}});
  p.start = t.find_figure<Seconds>("start", Seconds{0}, Seconds{1});
  p.mask_cycles = t.find_number_figure("mask_cycles", 0, 1000).value_or(Sourced<double>{});
  p.expert_sort = t.find_figure<Seconds>("expert_sort", Seconds{0}, Seconds{1e-6})
                      .value_or(Sourced<Seconds>{Seconds{0}, SourceKind::kAssumed, {}});
  p.expert_sort_until = t.find_number_figure("expert_sort_until", 2020, 2100)
                            .value_or(Sourced<double>{2020, SourceKind::kAssumed, {}});
  p.mask_until = t.find_number_figure("mask_until", 2020, 2100)
                     .value_or(Sourced<double>{2020, SourceKind::kAssumed, {}});
  t.finish();
  return p;
}

RuntimeProfile::Decode read_decode(const TomlTable& t) {
  RuntimeProfile::Decode d;
  d.crossing = duration(t, "crossing");
  d.gpu_crossing = duration(t, "gpu_crossing");
  d.token = duration(t, "token");
  d.sample = duration(t, "sample");
  d.tokenize = duration(t, "tokenize");
  d.kv_cycles = t.number_figure("kv_cycles", 0, 10);
  d.kv_cycles_quant = t.number_figure("kv_cycles_quant", 0, 10);
  d.kv_cycles_latent = t.find_number_figure("kv_cycles_latent", 0, 10).value_or(d.kv_cycles);
  d.expert_cycles = t.number_figure("expert_cycles", 0.01, kMaxScale);
  d.token_cycles = t.find_number_figure("token_cycles", 0, 10).value_or(Sourced<double>{});
  d.unoverlapped_share = t.find_number_figure("unoverlapped_share", 0, 1).value_or(unit_scale());
  d.float_since = t.find_number_figure("float_since", 2020, 2100).value_or(Sourced<double>{});
  d.float_cycles = t.find_number_figure("float_cycles", 0, kMaxScale).value_or(unit_scale());
  d.wide_heads = t.find_number_figure("wide_heads", 0.1, 100).value_or(unit_scale());
  d.kv_without_flash = t.number_figure("kv_without_flash", 0.1, 100);
  d.stream_share = t.number_figure("stream_share", 0.01, 1.0);
  const auto optional = [&](const char* key) {
    return t.find_figure<Seconds>(key, Seconds{0}, Seconds{1e-3})
        .value_or(Sourced<Seconds>{Seconds{0}, SourceKind::kAssumed, {}});
  };
  d.host_logit = optional("host_logit");
  d.copy_start = optional("copy_start");
  d.host_roundtrip = optional("host_roundtrip");
  d.prefetch_depth = int(t.integer_or("prefetch_depth", 0, 0, 64));
  d.copies_kv = t.flag("copies_kv", false);
  d.returns_kv = t.flag("returns_kv", false);
  d.expands_kv = t.flag("expands_kv", false);
  d.grouped_since = t.find_number_figure("grouped_since", 2020, 2100);
  t.finish();
  return d;
}

// Reads figures of a table; missing ones are taken from the fallback, if there is one.
class Figures {
 public:
  explicit Figures(const TomlTable& t, bool required) : t_(t), required_(required) {}

  void share(std::string_view key, Sourced<double>& into, double most) const {
    if (auto found = t_.find_number_figure(key, 1e-4, most)) {
      into = *std::move(found);
    } else if (required_) {
      t_.require(key);
    }
  }
  void time(std::string_view key, Sourced<Seconds>& into) const {
    if (auto found = t_.find_figure<Seconds>(key, Seconds{0}, Seconds{1})) {
      into = *std::move(found);
    } else if (required_) {
      t_.require(key);
    }
  }

 private:
  const TomlTable& t_;
  bool required_;
};

GpuEfficiency read_gpu_efficiency(const TomlTable& t, const GpuEfficiency* fallback) {
  GpuEfficiency e = fallback ? *fallback : GpuEfficiency{};
  const Figures figures(t, !fallback);
  figures.share("read", e.read, 1.0);
  figures.share("cycles", e.cycles, 10.0);
  figures.share("launch", e.launch, kMaxScale);
  figures.share("kv_read", e.kv_read, 1.0);
  figures.share("gemm", e.gemm, 4.0);
  figures.share("tiles", e.tiles, 4.0);
  figures.share("attention", e.attention, 4.0);
  e.half_rate_batch = t.find_number_figure("half_rate_batch", 1e-3, kMaxScale)
                          .value_or(fallback ? fallback->half_rate_batch : unit_scale());
  t.finish();
  return e;
}

std::array<FormatEfficiency, kFormatGroupCount> read_formats(const TomlTable& t) {
  std::array<FormatEfficiency, kFormatGroupCount> all;
  for (int g = 0; g < kFormatGroupCount; ++g) {
    FormatEfficiency& f = all[std::size_t(g)];
    f = {unit_scale(), unit_scale(), unit_scale(), unit_scale()};
    const TomlTable own = t.table(name(FormatGroup(g)));
    const Figures figures(own, false);
    figures.share("cycles", f.cycles, kMaxScale);
    figures.share("batch", f.batch, kMaxScale);
    figures.share("cpu", f.cpu, kMaxScale);
    figures.share("cpu_batch", f.cpu_batch, kMaxScale);
    own.finish();
  }
  t.finish();
  return all;
}

std::array<BackendEfficiency, kBackendCount> read_backends(const TomlTable& t) {
  std::array<BackendEfficiency, kBackendCount> all;
  const auto read = [&](const TomlTable& own, BackendEfficiency& b, bool required) {
    Figures(own, required).time("launch", b.launch);
    if (auto clock = own.find_figure<Hertz>("launch_clock", Hertz{1e8}, Hertz{1e10}))
      b.launch_clock = *std::move(clock);
    const Figures figures(own, false);
    figures.share("graph_launch", b.graph_launch, kMaxScale);
    figures.share("slow_host", b.slow_host, kMaxScale);
    figures.share("read", b.read, kMaxScale);
    figures.share("batch", b.batch, kMaxScale);
    figures.share("attention", b.attention, kMaxScale);
    for (const auto& [key, kernels] : {std::pair{"batch_kernels", &b.batch_kernels},
                                       std::pair{"float_kernels", &b.float_kernels}})
      if (own.has(key)) *kernels = own.number_figure(key, 0, 100);
    if (own.has("start")) b.start = own.figure<Seconds>("start", Seconds{0}, Seconds{60});
    if (own.has("gemm_tile")) b.gemm_tile = own.number_figure("gemm_tile", 0, 4096);
    if (own.has("masked_since")) b.masked_since = own.number_figure("masked_since", 2020, 2100);
    if (own.has("masked_tokens")) b.masked_tokens = own.number_figure("masked_tokens", 0, 1e6);
    b.masked_windows = own.flag("masked_windows", b.masked_windows);
    b.int8_units = own.flag("int8_units", b.int8_units);
    for (const auto& [key, since] :
         {std::pair{"dots_since", &b.dots_since}, std::pair{"dots_256_since", &b.dots_256_since}})
      if (own.has(key)) *since = own.number_figure(key, 2020, 2100);
    own.finish();
  };
  BackendEfficiency fallback;
  for (auto* factor : {&fallback.graph_launch, &fallback.slow_host, &fallback.read, &fallback.batch,
                       &fallback.attention})
    *factor = unit_scale();
  read(t.table("default"), fallback, true);
  for (int i = 0; i < kBackendCount; ++i) {
    all[std::size_t(i)] = fallback;
    read(t.table(name(Backend(i))), all[std::size_t(i)], false);
  }
  t.finish();
  return all;
}

WindowsEfficiency read_windows(const TomlTable& t) {
  WindowsEfficiency w{unit_scale(), unit_scale()};
  const Figures figures(t, false);
  figures.share("launch", w.launch, kMaxScale);
  figures.share("cpu", w.cpu, kMaxScale);
  t.finish();
  return w;
}

BatchEfficiency read_batch(const TomlTable& t) {
  BatchEfficiency b;
  b.speed = t.find_number_figure("speed", 0.01, kMaxScale).value_or(unit_scale());
  b.tile_half_rate_batch = t.number_figure("tile_half_rate_batch", 0, 1e6);
  b.gemm_half_rate_batch = t.number_figure("gemm_half_rate_batch", 0, 1e6);
  b.power = t.number_figure("power", 0, 1);
  b.experts = t.number_figure("experts", 0.001, 4);
  b.packed_experts = t.find_number_figure("packed_experts", 0.001, 4).value_or(b.experts);
  b.expert_columns = t.find_number_figure("expert_columns", 0, 4096).value_or(Sourced<double>{});
  b.expert_columns_since =
      t.find_number_figure("expert_columns_since", 2020, 2100).value_or(Sourced<double>{});
  b.expert_tiles = t.find_number_figure("expert_tiles", 0.001, 4).value_or(unit_scale());
  b.expert_widths = read_architectures(t, "expert_widths");
  b.expert_widths_since =
      t.find_number_figure("expert_widths_since", 2020, 2100).value_or(Sourced<double>{});
  b.low_precision = t.find_number_figure("low_precision", 0.01, 2).value_or(unit_scale());
  b.expand = t.number_figure("expand", 0.001, 4);
  b.score_bytes = t.number_figure("score_bytes", 0, 1000);
  b.vector_bytes = t.find_number_figure("vector_bytes", 0, 1000).value_or(Sourced<double>{});
  b.pipeline = t.number_figure("pipeline", 0, 1);
  b.launch = t.find_number_figure("launch", 0.01, kMaxScale).value_or(unit_scale());
  b.tile_cycles = t.find_number_figure("tile_cycles", 0, 1000).value_or(Sourced<double>{});
  b.score_cycles = t.find_number_figure("score_cycles", 0, 1000).value_or(Sourced<double>{});
  t.finish();
  return b;
}

std::map<std::string, RuntimeProfile::ChipFactors, std::less<>> read_chips(const TomlTable& t) {
  std::map<std::string, RuntimeProfile::ChipFactors, std::less<>> chips;
  for (const std::string& id : t.keys()) {
    const TomlTable own = t.table(id);
    RuntimeProfile::ChipFactors& f = chips[id];
    f.decode = own.find_number_figure("decode", 0.01, kMaxScale).value_or(unit_scale());
    f.prefill = own.find_number_figure("prefill", 0.01, kMaxScale).value_or(unit_scale());
    own.finish();
  }
  t.finish();
  return chips;
}

CpuEfficiency read_cpu_efficiency(const TomlTable& t) {
  CpuEfficiency c;
  c.read = t.number_figure("read", 0.001, 1.0);
  c.read_per_thread = t.figure<BytesPerSecond>("read_per_thread", 10_MBps, BytesPerSecond{1e12});
  c.speed = t.find_number_figure("speed", 0.01, kMaxScale).value_or(unit_scale());
  c.one_token = t.number_figure("one_token", 0.01, kMaxScale);
  c.further_token = t.find_number_figure("further_token", 0.001, 1);
  c.unoverlapped_share = t.number_figure("unoverlapped_share", 0, 1);
  c.experts = t.number_figure("experts", 0.01, kMaxScale);
  c.expert_start = t.find_figure<Seconds>("expert_start", Seconds{0}, Seconds{1e-2})
                       .value_or(Sourced<Seconds>{Seconds{0}, SourceKind::kAssumed, {}});
  c.attention = t.number_figure("attention", 0.001, kMaxScale);
  c.cache = t.number_figure("cache", 0.001, kMaxScale);
  const auto none = Sourced<double>{0, SourceKind::kAssumed, {}};
  c.score = t.find_number_figure("score", 0, 10000).value_or(none);
  c.cache_element = t.find_number_figure("cache_element", 0, 1000).value_or(none);
  c.cache_element_quant = t.find_number_figure("cache_element_quant", 0, 1000).value_or(none);
  c.cache_per_cycle = t.find_number_figure("cache_per_cycle", 0.01, 1e4);
  c.cache_quant_per_cycle = t.find_number_figure("cache_quant_per_cycle", 0.01, 1e4);
  c.llc_capacity_factor = t.find_number_figure("llc_capacity_factor", 1.01, 100);
  c.llc_kv_speedup = t.find_number_figure("llc_kv_speedup", 1, 100);
  c.llc_weight_speedup = t.find_number_figure("llc_weight_speedup", 1, 100);
  c.cache_queries = t.find_number_figure("cache_queries", 1, 1024);
  c.cache_stride = t.find_number_figure("cache_stride", 1, 100);
  c.cache_split_since = t.find_number_figure("cache_split_since", 2020, 2100);
  c.tiles = t.find_number_figure("tiles", 0.1, 100);
  c.interleaved = t.find_number_figure("interleaved", 0.1, 100);
  c.floats_as_fp32 = t.flag("floats_as_fp32", false);
  c.all_vector_units = t.flag("all_vector_units", false);
  c.one_by_one = t.flag("one_by_one", false);
  c.vector_bytes = t.find_number_figure("vector_bytes", 8, 256);
  c.two_threads = t.find_number_figure("two_threads", 1, 2);
  c.kv_unoverlapped_share = t.find_number_figure("kv_unoverlapped_share", 0, 1);
  c.element = t.find_figure<Seconds>("element", Seconds{0}, Seconds{1e-3})
                  .value_or(Sourced<Seconds>{Seconds{0}, SourceKind::kAssumed, {}});
  c.barrier_time = duration(t, "barrier_time");
  c.barrier_thread_exponent = t.find_number_figure("barrier_thread_exponent", 0, 1);
  c.barrier_exponent_with_prefetch = t.find_number_figure("barrier_exponent_with_prefetch", 0, 1);
  c.blas = t.number_figure("blas", 0.001, 1);
  c.half_rate_batch = t.number_figure("half_rate_batch", 0, 1e4);
  const TomlTable shares = t.table("int8_share");
  for (const std::string& simd : shares.keys())
    c.int8_share[simd] = shares.number_figure(simd, 0.0001, 10);
  if (!c.int8_share.contains("scalar")) shares.require("scalar");
  t.finish();
  return c;
}

constexpr int kMaxBases = 4;

// The file's figures with its fitted figures above them, and those of its base below.
Result<TomlDocument> layered(const std::filesystem::path& file, bool with_fit, int depth,
                             const std::filesystem::path& shipped,
                             std::vector<std::filesystem::path>& files) {
  files.push_back(file);
  auto own = TomlDocument::read(file);
  if (!own) return own;
  TomlDocument document = *own;
  const auto fit = file.parent_path() / "fitted" / file.filename();
  if (with_fit) files.push_back(fit);
  std::error_code ignored;
  if (with_fit && std::filesystem::is_regular_file(fit, ignored)) {
    auto fitted = TomlDocument::read(fit);
    if (!fitted) return fitted;
    document = *std::move(fitted);
    document.merge_defaults(*own);
  }
  const auto base = document.root().find_text("base");
  if (!base) return document;
  if (depth >= kMaxBases) {
    document.root().refuse("base", "profiles build on each other without end");
    return *document.error();
  }
  std::filesystem::path below = file.parent_path() / (*base + ".toml");
  if (!shipped.empty() && !std::filesystem::exists(below, ignored))
    below = shipped / (*base + ".toml");
  const auto under = layered(below, with_fit, depth + 1, shipped, files);
  if (!under) return under;
  document.merge_defaults(*under);
  return document;
}

std::vector<KvPolicy> read_policies(const TomlTable& t) {
  std::vector<KvPolicy> policies;
  for (const std::string& text : t.texts("kv_policies")) {
    if (const auto policy = kv_policy_from(text)) {
      policies.push_back(*policy);
    } else {
      t.refuse("kv_policies", fmt::format("no KV policy named \"{}\"", text),
               "known: vram, ram, stream, paged, combined, spill");
    }
  }
  if (policies.empty()) t.refuse("kv_policies", "a runtime has at least one KV policy");
  return policies;
}

// `of`: what `chips` counts, which is the name of its key.
std::vector<RuntimeProfile::Spread> read_spreads(const TomlTable& t, const char* key,
                                                 const char* of) {
  std::vector<RuntimeProfile::Spread> spreads;
  for (const TomlTable& own : t.tables(key)) {
    RuntimeProfile::Spread s;
    own.require("metric");
    s.metric = own.choice("metric", SpeedMetric::kDecode,
                          {{name(SpeedMetric::kDecode), SpeedMetric::kDecode},
                           {name(SpeedMetric::kPrefill), SpeedMetric::kPrefill}});
    s.regime = own.text("regime");
    s.low = own.number_or("low", 1.0, 0.001, 1000);
    s.high = own.number_or("high", 1.0, s.low, 1000);
    s.rows = int(own.integer_or("rows", 0, 0, 1'000'000));
    s.chips = int(own.integer_or(of, 0, 0, 1'000'000));
    own.finish();
    spreads.push_back(std::move(s));
  }
  return spreads;
}

std::vector<RuntimeProfile::MeasuredFamily> read_measured_families(const TomlTable& t) {
  std::vector<RuntimeProfile::MeasuredFamily> families;
  for (const TomlTable& own : t.tables("measured_family")) {
    families.push_back({own.text("family"), own.flag("slow_host", false),
                        int(own.integer_or("decode_rows", 0, 0, 1'000'000)),
                        int(own.integer_or("prefill_rows", 0, 0, 1'000'000))});
    own.finish();
  }
  return families;
}

std::map<std::string, GpuEfficiency> read_gpus(const TomlTable& t) {
  t.require("default");
  std::map<std::string, GpuEfficiency> gpus;
  const GpuEfficiency fallback = read_gpu_efficiency(t.table("default"), nullptr);
  for (const std::string& architecture : t.keys())
    gpus[architecture] = architecture == "default"
                             ? fallback
                             : read_gpu_efficiency(t.table(architecture), &fallback);
  return gpus;
}

std::vector<RuntimeProfile::Server::GpuDefaults> read_gpu_defaults(const TomlTable& t) {
  std::vector<RuntimeProfile::Server::GpuDefaults> out;
  const auto bytes = [](const TomlTable& own, std::string_view key) {
    return own.find_figure<Bytes>(key, 0_B, 1000_GiB).value_or(Sourced<Bytes>{}).value;
  };
  for (const TomlTable& own : t.tables("gpu")) {
    out.push_back({bytes(own, "from"), own.texts("except"),
                   own.integer_or("token_budget", 0, 0, 1 << 24),
                   std::size_t(own.integer_or("max_sequences", 0, 0, 100'000)),
                   bytes(own, "reserved"), bytes(own, "reserved_least")});
    own.finish();
  }
  return out;
}

std::optional<RuntimeProfile::Server> read_server(const TomlTable& root) {
  if (!root.has("server")) return std::nullopt;
  const TomlTable t = root.table("server");
  RuntimeProfile::Server s;
  s.request = t.figure<Seconds>("request", 0_s, 10_s);
  s.step = t.figure<Seconds>("step", 0_s, 1_s);
  s.sequence = t.figure<Seconds>("sequence", 0_s, 1_s);
  s.logit = t.figure<Seconds>("logit", 0_s, 1_us);
  s.unseen = t.find_figure<Bytes>("unseen", 0_B, 10_GiB).value_or(Sourced<Bytes>{});
  s.outside_pool = t.find_figure<Bytes>("outside_pool", 0_B, 10_GiB).value_or(Sourced<Bytes>{});
  s.gpus = read_gpu_defaults(t);
  s.reserved_per_token =
      t.find_figure<Bytes>("reserved_per_token", 0_B, 1_GiB).value_or(Sourced<Bytes>{});
  s.reserved_least_tokens = t.integer_or("reserved_least_tokens", 0, 0, 1 << 24);
  s.scheduler = read_scheduler(t.table("scheduler"), {});
  t.finish();
  return s;
}

}  // namespace

Result<TomlDocument> read_runtime_layers(const std::filesystem::path& file,
                                         const std::filesystem::path& shipped) {
  std::vector<std::filesystem::path> files;
  return layered(file, true, 0, shipped, files);
}

Result<RuntimeProfile> load_runtime_profile(const std::filesystem::path& file, bool with_fit,
                                            const std::filesystem::path& shipped) {
  RuntimeProfile p;
  auto document = layered(file, with_fit, 0, shipped, p.files);
  if (!document) return document.error();
  const TomlTable t = document->root();
  p.id = file.stem().string();
  p.name = t.text("name");
  p.era = t.text("era");
  p.source = t.text("source");
  p.base = t.text_or("base", "");
  t.texts("aliases");
  t.set_figure_defaults({SourceKind::kAssumed, p.source});
  t.require("rules");
  p.rules = t.choice("rules", RuntimeRules::kLlamaCpp,
                     {{name(RuntimeRules::kLlamaCpp), RuntimeRules::kLlamaCpp},
                      {name(RuntimeRules::kTransformers), RuntimeRules::kTransformers},
                      {name(RuntimeRules::kRigcast), RuntimeRules::kRigcast},
                      {name(RuntimeRules::kPagedServer), RuntimeRules::kPagedServer}});
  p.kv_policies = read_policies(t);
  p.split_modes = read_split_modes(t.table("split"));
  p.fitted_on = t.texts("fitted_on");
  p.weight_streaming = t.flag("weight_streaming", false);
  p.cpu_decode = t.flag("cpu_decode", false);
  p.ffn_in_ram = t.flag("ffn_in_ram", false);
  p.fp32_sums = t.flag("fp32_sums", false);
  p.low_precision = t.flag("low_precision", false);
  p.copies_ram_cache = t.flag("copies_ram_cache", false);
  p.projector = t.flag("projector", false);
  p.speculates = t.flag("speculates", false);
  p.quantized_v_needs_flash = t.flag("quantized_v_needs_flash", false);
  p.memory = read_memory(t.table("memory"));
  p.load = read_load(t.table("load"));
  p.repackings = read_repackings(t);
  p.prefill = read_prefill(t.table("prefill"));
  p.decode = read_decode(t.table("decode"));
  p.kernels = read_kernels(t.table("kernels"));
  p.server = read_server(t);
  p.gpu = read_gpus(t.table("gpu"));
  const TomlTable formats = t.table("format");
  p.has_q5_figures = formats.has(name(FormatGroup::kQ5));
  p.formats = read_formats(formats);
  p.backends = read_backends(t.table("backend"));
  p.windows = read_windows(t.table("windows"));
  p.batch = read_batch(t.table("batch"));
  p.blocks = read_blocks(t.table("blocks"));
  p.graphs_since = t.find_number_figure("graphs_since", 2020, 2100).value_or(unit_scale());
  p.tiles_since = t.find_number_figure("tiles_since", 2020, 2100).value_or(unit_scale());
  p.head_first_since = t.find_number_figure("head_first_since", 2020, 2100);
  if (p.head_first_since && p.head_first_since->value >= 2100) p.head_first_since.reset();
  p.matrix_units = read_matrix_units(t, "matrix_units");
  p.int8_matrix_units = read_matrix_units(t, "int8_matrix_units");
  p.changes = read_changes(t.table("change"));
  p.chips = read_chips(t.table("chip"));
  p.cpu = read_cpu_efficiency(t.table("cpu"));
  p.spreads = read_spreads(t, "spread", "chips");
  p.family_spreads = read_spreads(t, "family_spread", "families");
  p.measured_families = read_measured_families(t);

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
