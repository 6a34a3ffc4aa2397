#include "calibration/fit/parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/hardware/gpu_architecture.hpp"

namespace rigcast::calibration {
namespace {

using Place = std::function<double*(RuntimeProfile&)>;

class Builder {
 public:
  explicit Builder(const RuntimeProfile& profile) : profile_(profile) {
    for (const auto& [name, efficiency] : profile.gpu) stated_.insert(name);
  }

  int add(std::string path, double spread, Place in, double least = 0, double most = 0) {
    Parameter p;
    p.path = std::move(path);
    p.prior = *in(profile_);
    p.spread = spread;
    // Bounds: the file's reader accepts factors from 1e-4 to 100; a time or a rate may differ by a
    // factor of 30.
    const bool factor = p.prior >= 1e-3 && p.prior <= 1e3;
    p.least = least > 0 ? least : factor ? 0.01 : p.prior / 30;
    p.most = most > 0 ? most : factor ? 100 : p.prior * 30;
    p.in = std::move(in);
    all_.push_back(std::move(p));
    return int(all_.size()) - 1;
  }
  void in_unit(int i, const char* unit) { all_[std::size_t(i)].unit = unit; }
  bool states(const std::string& architecture) const { return stated_.contains(architecture); }
  void like_parent(int i) { all_[std::size_t(i)].ratio = 1.0; }
  void about(int i, const std::string& architecture) {
    all_[std::size_t(i)].architecture = architecture;
  }
  void about_chip(int i, const std::string& chip) { all_[std::size_t(i)].chip = chip; }
  void child_of(int parent, int child, double spread) {
    all_[std::size_t(child)].parent = parent;
    all_[std::size_t(child)].ratio =
        all_[std::size_t(child)].prior / all_[std::size_t(parent)].prior;
    all_[std::size_t(child)].spread = spread;
  }
  // Adds a copy of a shared figure for another profile; its prior is the shared one.
  void fork(const std::string& runtime, const std::string& path, double spread) {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (all_[i].path != path || !all_[i].runtime.empty()) continue;
      Parameter p = all_[i];
      p.runtime = runtime;
      p.parent = int(i);
      p.ratio = 1.0;
      p.spread = spread;
      all_.push_back(std::move(p));
      return;
    }
  }
  // Adds a figure that only another profile has; its prior is the profile's value.
  void own(RuntimeProfile fork, std::string path, double spread, Place in) {
    const double prior = *in(fork);
    const int i = add(std::move(path), spread, std::move(in));
    all_[std::size_t(i)].runtime = fork.id;
    all_[std::size_t(i)].prior = prior;
  }
  void add_source(const std::string& source, SpeedMetric metric, double spread) {
    Parameter p;
    p.path = fmt::format("source.\"{}\".{}", source, name(metric));
    p.source = source;
    p.metric = metric;
    p.spread = spread;
    p.least = 0.1;
    p.most = 10;
    all_.push_back(std::move(p));
  }
  const RuntimeProfile& base() const { return profile_; }
  std::vector<Parameter> take() { return std::move(all_); }

 private:
  RuntimeProfile profile_;
  std::set<std::string> stated_;  // architectures with a table of their own; a lookup would add one
  std::vector<Parameter> all_;
};

// Adds one figure for every architecture: its prior is the neighbouring architecture's, or the
// profile's own for the first ones.
void add_architectures(Builder& build, const char* key, Sourced<double> GpuEfficiency::*figure,
                       double first_spread, double spread, double most) {
  std::map<std::string_view, int> index;
  for (const GpuArchitecture& a : gpu_architectures()) {
    const std::string name(a.name);
    const Place in = [name, figure](RuntimeProfile& p) {
      const auto [it, added] = p.gpu.try_emplace(name, p.gpu.at("default"));
      return &(it->second.*figure).value;
    };
    const int i = build.add(fmt::format("gpu.\"{}\".{}", name, key), first_spread, in, 1e-3, most);
    build.about(i, name);
    index[a.name] = i;
    if (!a.neighbour.empty()) build.child_of(index.at(a.neighbour), i, spread);
    if (!build.states(name)) build.like_parent(i);
  }
}

void add_gpus(Builder& build) {
  add_architectures(build, "read", &GpuEfficiency::read, 0.05, 0.05, 0.98);
  add_architectures(build, "cycles", &GpuEfficiency::cycles, 0.4, 0.15, 10);
  add_architectures(build, "launch", &GpuEfficiency::launch, 0.2, 0.12, 10);
  add_architectures(build, "kv_read", &GpuEfficiency::kv_read, 0.3, 0.10, 0.97);
  add_architectures(build, "gemm", &GpuEfficiency::gemm, 0.2, 0.2, 1);
  add_architectures(build, "tiles", &GpuEfficiency::tiles, 0.2, 0.2, 1);
  add_architectures(build, "attention", &GpuEfficiency::attention, 0.3, 0.3, 1);
  add_architectures(build, "half_rate_batch", &GpuEfficiency::half_rate_batch, 0.3, 0.5, 30);
}

// True if the group has figures of its own, which can be fitted.
bool has_figures(const RuntimeProfile& profile, FormatGroup group) {
  return group != FormatGroup::kQ5 || profile.has_q5_figures;
}

void add_formats(Builder& build, const RuntimeProfile& profile) {
  for (int g = 0; g < kFormatGroupCount; ++g) {
    if (!has_figures(profile, FormatGroup(g))) continue;
    const auto at = std::size_t(g);
    const auto path = [&](const char* key) {
      return fmt::format("format.{}.{}", name(FormatGroup(g)), key);
    };
    build.add(path("cycles"), 0.25,
              [at](RuntimeProfile& p) { return &p.formats[at].cycles.value; });
    build.add(path("batch"), 0.15, [at](RuntimeProfile& p) { return &p.formats[at].batch.value; });
    // Shares of the FP32 rate are less certain than factors between formats.
    const bool as_fp32 = profile.cpu.floats_as_fp32 && FormatGroup(g) == FormatGroup::kFloat;
    build.add(path("cpu"), as_fp32 ? 0.4 : 0.15,
              [at](RuntimeProfile& p) { return &p.formats[at].cpu.value; });
    build.add(path("cpu_batch"), as_fp32 ? 0.4 : 0.2,
              [at](RuntimeProfile& p) { return &p.formats[at].cpu_batch.value; });
  }
}

void add_backends(Builder& build) {
  for (const Backend b : {Backend::kCuda, Backend::kRocm, Backend::kVulkan, Backend::kMetal}) {
    const auto at = std::size_t(b);
    const auto path = [&](const char* key) { return fmt::format("backend.{}.{}", name(b), key); };
    build.in_unit(build.add(path("launch"), 0.5,
                            [at](RuntimeProfile& p) { return &p.backends[at].launch.value.value; }),
                  "us");
    if (b == Backend::kMetal) continue;
    build.add(
        path("slow_host"), 0.7, [at](RuntimeProfile& p) { return &p.backends[at].slow_host.value; },
        1.0, 100);
    if (b == Backend::kCuda) {
      build.add(path("graph_launch"), 0.3,
                [at](RuntimeProfile& p) { return &p.backends[at].graph_launch.value; });
      continue;
    }
    build.add(path("batch"), 0.3, [at](RuntimeProfile& p) { return &p.backends[at].batch.value; });
    build.add(path("attention"), 0.4,
              [at](RuntimeProfile& p) { return &p.backends[at].attention.value; });
  }
}

void add_windows(Builder& build) {
  build.add("windows.launch", 0.3, [](RuntimeProfile& p) { return &p.windows.launch.value; });
  build.add("windows.cpu", 0.3, [](RuntimeProfile& p) { return &p.windows.cpu.value; });
}

void add_batch(Builder& build, const RuntimeProfile& profile) {
  const auto add = [&](const char* key, Sourced<double> BatchEfficiency::*figure, double spread,
                       double most) {
    if (!((profile.batch.*figure).value > 0)) return;  // a profile without this work
    build.add(
        fmt::format("batch.{}", key), spread,
        [figure](RuntimeProfile& p) { return &(p.batch.*figure).value; }, 1e-3, most);
  };
  add("tile_half_rate_batch", &BatchEfficiency::tile_half_rate_batch, 0.5, 1000);
  add("gemm_half_rate_batch", &BatchEfficiency::gemm_half_rate_batch, 0.5, 1000);
  add("power", &BatchEfficiency::power, 0.3, 1.0);
  add("experts", &BatchEfficiency::experts, 0.4, 1.5);
  if (profile.batch.expert_columns.value > 0)
    add("expert_tiles", &BatchEfficiency::expert_tiles, 0.3, 4);
  // Beyond 1: what was just written is read again from the L2 cache.
  add("expand", &BatchEfficiency::expand, 0.3, 2.0);
  add("score_bytes", &BatchEfficiency::score_bytes, 0.5, 200);
  add("pipeline", &BatchEfficiency::pipeline, 0.4, 1.0);
  add("launch", &BatchEfficiency::launch, 0.5, 100);
  add("tile_cycles", &BatchEfficiency::tile_cycles, 0.5, 100);
  add("score_cycles", &BatchEfficiency::score_cycles, 0.7, 100);
}

void add_changes(Builder& build, const RuntimeProfile& profile) {
  for (const DatedChange& c : profile.changes) {
    if (c.before.kind == SourceKind::kPublished) continue;  // counted, not fitted
    build.add(fmt::format("change.{}.before", c.id), 0.3, [id = c.id](RuntimeProfile& p) {
      return &std::ranges::find(p.changes, id, &DatedChange::id)->before.value;
    });
  }
}

// Two people's rows of one chip differ by 6 % in decode (median), and chips of one architecture by
// little more; in prefill, which power limits and clocks decide, by 20 %.
constexpr double kChipDecode = 0.1;
constexpr double kChipPrefill = 0.2;

void add_chips(Builder& build, const std::set<std::string>& chips) {
  using Factors = RuntimeProfile::ChipFactors;
  const Sourced<double> one{1.0, SourceKind::kAssumed, {}};
  for (const std::string& id : chips)
    for (const auto& [key, factor, spread] : {std::tuple{"decode", &Factors::decode, kChipDecode},
                                              {"prefill", &Factors::prefill, kChipPrefill}}) {
      const int i = build.add(fmt::format("chip.\"{}\".{}", id, key), spread,
                              [id, factor = factor, one](RuntimeProfile& p) {
                                const auto [it, added] = p.chips.try_emplace(id, Factors{one, one});
                                return &(it->second.*factor).value;
                              });
      build.about_chip(i, id);
    }
}

void add_decode(Builder& build) {
  using Profile = RuntimeProfile;
  build.add("kernels.recurrent", 0.5, [](Profile& p) { return &p.kernels.recurrent.value; });
  build.add("kernels.latent", 0.5, [](Profile& p) { return &p.kernels.latent.value; });
  build.add("kernels.moe", 0.5, [](Profile& p) { return &p.kernels.moe.value; });
  const auto time = [&](const char* path, double spread,
                        Sourced<Seconds> Profile::Decode::*figure) {
    const auto in = [figure](Profile& p) { return &(p.decode.*figure).value.value; };
    build.in_unit(build.add(path, spread, in), "us");
  };
  time("decode.crossing", 0.5, &Profile::Decode::crossing);
  time("decode.gpu_crossing", 0.7, &Profile::Decode::gpu_crossing);
  time("decode.token", 0.5, &Profile::Decode::token);
  build.add("decode.kv_cycles", 0.5, [](Profile& p) { return &p.decode.kv_cycles.value; });
  build.add("decode.kv_cycles_quant", 0.5,
            [](Profile& p) { return &p.decode.kv_cycles_quant.value; });
  build.add("decode.wide_heads", 0.5, [](Profile& p) { return &p.decode.wide_heads.value; });
  build.add(
      "prefill.mapped_share", 0.4, [](Profile& p) { return &p.prefill.mapped_share.value; }, 0.05,
      1);
  if (build.base().prefill.mask_cycles.value > 0)
    build.add("prefill.mask_cycles", 0.3, [](Profile& p) { return &p.prefill.mask_cycles.value; });
  if (build.base().prefill.expert_sort.value.value > 0)
    build.in_unit(build.add("prefill.expert_sort", 0.5,
                            [](Profile& p) { return &p.prefill.expert_sort.value.value; }),
                  "ns");
  if (build.base().decode.token_cycles.value > 0)
    build.add("decode.token_cycles", 0.5, [](Profile& p) { return &p.decode.token_cycles.value; });
  build.add("decode.expert_cycles", 0.4, [](Profile& p) { return &p.decode.expert_cycles.value; });
  if (build.base().decode.unoverlapped_share.value < 1)
    build.add(
        "decode.unoverlapped_share", 0.4,
        [](Profile& p) { return &p.decode.unoverlapped_share.value; }, 0.01, 1);
  if (build.base().decode.float_since.value > 0)
    build.add("decode.float_cycles", 0.5, [](Profile& p) { return &p.decode.float_cycles.value; });
  build.add("decode.kv_without_flash", 0.3,
            [](Profile& p) { return &p.decode.kv_without_flash.value; });
}

void add_cpu(Builder& build, const RuntimeProfile& profile) {
  using Profile = RuntimeProfile;
  build.add(
      "cpu.read", 0.15, [](Profile& p) { return &p.cpu.read.value; }, 0.1, 0.97);
  build.add("cpu.cache", 0.5, [](Profile& p) { return &p.cpu.cache.value; });
  build.in_unit(build.add("cpu.read_per_thread", 0.3,
                          [](Profile& p) { return &p.cpu.read_per_thread.value.value; }),
                "GB/s");
  build.add("cpu.one_token", 0.4, [](Profile& p) { return &p.cpu.one_token.value; });
  build.add(
      "cpu.unoverlapped_share", 0.5, [](Profile& p) { return &p.cpu.unoverlapped_share.value; },
      0.01, 1);
  build.add("cpu.experts", 0.3, [](Profile& p) { return &p.cpu.experts.value; });
  if (profile.cpu.expert_start.value.value > 0)
    build.in_unit(build.add("cpu.expert_start", 0.7,
                            [](Profile& p) { return &p.cpu.expert_start.value.value; }),
                  "us");
  build.add("cpu.attention", 0.5, [](Profile& p) { return &p.cpu.attention.value; });
  build.add("cpu.half_rate_batch", 0.5, [](Profile& p) { return &p.cpu.half_rate_batch.value; });
  if (profile.cpu.interleaved)
    build.add("cpu.interleaved", 0.3, [](Profile& p) { return &p.cpu.interleaved->value; });
  if (profile.cpu.tiles)
    build.add("cpu.tiles", 0.4, [](Profile& p) { return &p.cpu.tiles->value; });
  if (profile.cpu.two_threads)
    build.add(
        "cpu.two_threads", 0.1, [](Profile& p) { return &p.cpu.two_threads->value; }, 1, 2);
  build.in_unit(build.add("cpu.barrier_time", 0.5,
                          [](Profile& p) { return &p.cpu.barrier_time.value.value; }),
                "us");
  // Cores of different levels reach similar shares of their peak rate; AVX2 has the most
  // measurements.
  int root = -1;
  for (const std::string_view level :
       {"avx2", "avx-vnni", "avx512", "avx512-vnni", "amx", "avx", "sse4", "scalar", "neon",
        "neon-dotprod", "neon-i8mm", "sve", "rvv"}) {
    if (!profile.cpu.int8_share.contains(std::string(level))) continue;
    const int i = build.add(
        fmt::format("cpu.int8_share.{}", level), 0.4,
        [simd = std::string(level)](Profile& p) { return &p.cpu.int8_share.at(simd).value; });
    if (root < 0)
      root = i;
    else
      build.child_of(root, i, 0.2);
  }
}

// What one person's rows have in common is no chip's. Two sources on one chip differ by 6 % in
// decode (median): a spread of 0.06 each, of which about half is of their builds, which changes
// account for.
constexpr double kSourceDecode = 0.03;
constexpr double kSourcePrefill = 0.08;

void add_sources(Builder& build, const std::set<std::string>& sources) {
  for (const std::string& source : sources)
    for (const SpeedMetric metric : {SpeedMetric::kDecode, SpeedMetric::kPrefill})
      build.add_source(source, metric,
                       metric == SpeedMetric::kDecode ? kSourceDecode : kSourcePrefill);
}

}  // namespace

std::string toml_value(const Parameter& parameter, double value) {
  const std::string_view unit = parameter.unit;
  if (unit.empty()) return fmt::format("{:.4g}", value);
  const double size = unit == "us" ? 1e-6 : unit == "ns" ? 1e-9 : 1e9;
  return fmt::format("\"{:.4g} {}\"", value / size, unit);
}

std::vector<Parameter> parameters(const RuntimeProfile& profile,
                                  const std::vector<RuntimeProfile>& forks, const RowsOf& rows) {
  Builder build(profile);
  add_gpus(build);
  add_formats(build, profile);
  add_backends(build);
  add_windows(build);
  add_batch(build, profile);
  add_changes(build, profile);
  add_decode(build);
  add_cpu(build, profile);
  add_chips(build, rows.chips);
  add_sources(build, rows.sources);
  for (const RuntimeProfile& fork : forks) {
    build.fork(fork.id, "backend.cuda.launch", 0.3);
    build.own(fork, "batch.speed", 0.3, [](RuntimeProfile& p) { return &p.batch.speed.value; });
    build.own(fork, "cpu.speed", 0.5, [](RuntimeProfile& p) { return &p.cpu.speed.value; });
    build.own(fork, "cpu.half_rate_batch", 0.5,
              [](RuntimeProfile& p) { return &p.cpu.half_rate_batch.value; });
    build.fork(fork.id, "cpu.one_token", 0.4);
    build.fork(fork.id, "cpu.cache", 0.5);
    build.fork(fork.id, "decode.kv_cycles_quant", 0.5);
    build.fork(fork.id, "cpu.attention", 0.5);
    build.fork(fork.id, "decode.crossing", 0.3);
    build.fork(fork.id, "prefill.mapped_share", 0.4);
    for (int g = 0; g < kFormatGroupCount; ++g) {
      if (!has_figures(profile, FormatGroup(g))) continue;
      const std::string format(name(FormatGroup(g)));
      build.fork(fork.id, "format." + format + ".cpu", 0.15);
      build.own(fork, "format." + format + ".cpu_batch", 0.1,
                [g](RuntimeProfile& p) { return &p.formats[std::size_t(g)].cpu_batch.value; });
    }
  }
  return build.take();
}

}  // namespace rigcast::calibration
