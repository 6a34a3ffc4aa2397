#include "calibration/runs/run_parameters.hpp"

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace rigcast::calibration {
namespace {

using Profile = RuntimeProfile;
using Place = std::function<double*(RuntimeProfile&)>;

class Builder {
 public:
  explicit Builder(const RuntimeProfile& profile) : profile_(profile) {}

  // Adds a parameter; `in` returns nullptr if a profile does not have the figure.
  void add(std::string path, double least, double most, Place in, const char* unit = "") {
    const double* value = in(profile_);
    if (!value) return;
    Parameter p;
    p.path = std::move(path);
    p.unit = unit;
    p.prior = std::clamp(*value, least, most);
    p.spread = 1.0;
    p.least = least;
    p.most = most;
    p.in = std::move(in);
    all_.push_back(std::move(p));
  }
  std::vector<Parameter> take() { return std::move(all_); }

 private:
  RuntimeProfile profile_;
  std::vector<Parameter> all_;
};

double* value_of(Sourced<double>& figure) { return &figure.value; }
double* value_of(Sourced<Seconds>& figure) { return &figure.value.value; }
template <class T>
double* value_of(std::optional<Sourced<T>>& figure) {
  return figure ? value_of(*figure) : nullptr;
}

void add_cpu(Builder& build, const Profile& profile) {
  const auto add = [&](const char* key, double least, double most, auto figure,
                       const char* unit = "") {
    const auto in = [figure](Profile& p) { return value_of(p.cpu.*figure); };
    build.add(std::string("cpu.") + key, least, most, in, unit);
  };
  using Cpu = CpuEfficiency;
  add("read", 0.95, 1.0, &Cpu::read);
  add("unoverlapped_share", 0.001, 1, &Cpu::unoverlapped_share);
  add("one_token", 0.01, 4, &Cpu::one_token);
  add("further_token", 0.001, 1, &Cpu::further_token);
  add("cache", 0.01, 4, &Cpu::cache);
  add("cache_element", 0.01, 100, &Cpu::cache_element);
  add("cache_element_quant", 0.01, 100, &Cpu::cache_element_quant);
  add("kv_unoverlapped_share", 0.001, 1, &Cpu::kv_unoverlapped_share);
  add("barrier_time", 0.01e-6, 20e-6, &Cpu::barrier_time, "us");
  add("element", 0.001e-9, 10e-9, &Cpu::element, "ns");
  add("attention", 0.01, 4, &Cpu::attention);
  add("score", 1, 5000, &Cpu::score);
  add("half_rate_batch", 0.1, 1000, &Cpu::half_rate_batch);
  for (const auto& [simd, share] : profile.cpu.int8_share) {
    const auto in = [simd = simd](Profile& p) { return &p.cpu.int8_share.at(simd).value; };
    build.add("cpu.int8_share." + simd, 0.05, 2, in);
  }
}

void add_format(Builder& build, FormatGroup group, const char* key, double least, double most,
                Sourced<double> FormatEfficiency::*figure) {
  const auto in = [group, figure](Profile& p) {
    const bool has = group != FormatGroup::kQ5 || p.has_q5_figures;
    return has ? &(p.formats[std::size_t(group)].*figure).value : nullptr;
  };
  build.add("format." + std::string(name(group)) + "." + key, least, most, in);
}

// Adds formats relative to Q4_K, whose factors are 1.
void add_cpu_formats(Builder& build) {
  for (const FormatGroup group : {FormatGroup::kQ8, FormatGroup::kQ4, FormatGroup::kQ5,
                                  FormatGroup::kQ5K, FormatGroup::kQ6K, FormatGroup::kFloat}) {
    const double least = group == FormatGroup::kFloat ? 0.01 : 0.05;
    add_format(build, group, "cpu", 0.05, 20, &FormatEfficiency::cpu);
    add_format(build, group, "cpu_batch", least, 20, &FormatEfficiency::cpu_batch);
  }
}

void add_gpu(Builder& build) {
  const auto add = [&](const char* key, double least, double most, auto figure) {
    const auto in = [figure](Profile& p) { return value_of(p.gpu.at("default").*figure); };
    build.add(std::string("gpu.default.") + key, least, most, in);
  };
  using Gpu = GpuEfficiency;
  add("read", 0.8, 1.0, &Gpu::read);
  add("kv_read", 0.5, 1.0, &Gpu::kv_read);
  add("launch", 0.5, 10, &Gpu::launch);
  add("cycles", 0.001, 1, &Gpu::cycles);
  add("gemm", 0.1, 1.3, &Gpu::gemm);
  add("tiles", 0.02, 1, &Gpu::tiles);
  add("attention", 0.01, 1, &Gpu::attention);
}

void add_batch(Builder& build) {
  const auto add = [&](const char* key, double least, double most, auto figure) {
    const auto in = [figure](Profile& p) { return value_of(p.batch.*figure); };
    build.add(std::string("batch.") + key, least, most, in);
  };
  add("tile_half_rate_batch", 1, 1000, &BatchEfficiency::tile_half_rate_batch);
  add("expand", 0.05, 1, &BatchEfficiency::expand);
  add("experts", 0.05, 4, &BatchEfficiency::experts);
}

void add_blocks(Builder& build) {
  const auto add = [&](const char* key, double least, double most, auto figure,
                       const char* unit = "") {
    const auto in = [figure](Profile& p) -> double* {
      return p.blocks ? value_of((*p.blocks).*figure) : nullptr;
    };
    build.add(std::string("blocks.") + key, least, most, in, unit);
  };
  using Blocks = BlockEfficiency;
  add("token_idle", 0.01, 1, &Blocks::token_idle);
  add("launch", 0.5, 20, &Blocks::launch);
  add("gap", 0.05, 20, &Blocks::gap);
  add("tile_read", 0.1, 1, &Blocks::tile_read);
  add("tile_start", 0.1e-6, 100e-6, &Blocks::tile_start, "us");
  add("expert_half_rate_batch", 1, 1000, &Blocks::expert_half_rate_batch);
  add("vector_bytes", 0.1, 100, &Blocks::vector_bytes);
  add("attention_key", 0.1e-9, 1000e-9, &Blocks::attention_key, "ns");
  add("attention_step", 0.01e-9, 10e-9, &Blocks::attention_step, "ns");
  add("scan_cycles", 0.0001, 10, &Blocks::scan_cycles);
  add("scan_step", 1e-9, 100e-6, &Blocks::scan_step, "us");
  add("router_column", 0.1e-9, 1e-6, &Blocks::router_column, "ns");
  add("choice_round", 1e-9, 100e-6, &Blocks::choice_round, "us");
  add("sorted_choice", 0.01e-9, 1e-6, &Blocks::sorted_choice, "ns");
  add("single_start", 0.1e-6, 100e-6, &Blocks::single_start, "us");
  add("quantized_cache", 0.05, 4, &Blocks::quantized_cache);
  add("quantized_key", 0.001e-9, 10e-9, &Blocks::quantized_key, "ns");
  add("quantized_start", 0.01e-6, 100e-6, &Blocks::quantized_start, "us");
}

void add_decode(Builder& build) {
  const auto add = [&](const char* key, double least, double most, auto figure,
                       const char* unit = "") {
    const auto in = [figure](Profile& p) { return value_of(p.decode.*figure); };
    build.add(std::string("decode.") + key, least, most, in, unit);
  };
  add("stream_share", 0.8, 1.0, &Profile::Decode::stream_share);
  add("token", 1e-6, 60e-6, &Profile::Decode::token, "us");
  add("kv_cycles", 0.0005, 0.5, &Profile::Decode::kv_cycles);
}

}  // namespace

std::vector<Parameter> run_parameters(const RuntimeProfile& profile, bool on_gpu) {
  Builder build(profile);
  if (!on_gpu) {
    add_cpu(build, profile);
    add_cpu_formats(build);
    return build.take();
  }
  add_gpu(build);
  add_batch(build);
  add_blocks(build);
  const auto start = [](Profile& p) { return value_of(p.prefill.start); };
  build.add("prefill.start", 1e-6, 5e-3, start, "us");
  build.add("kernels.moe", 1, 40, [](Profile& p) { return &p.kernels.moe.value; });
  for (const FormatGroup group : {FormatGroup::kQ8, FormatGroup::kFloat})
    add_format(build, group, "cycles", 0.01, 4, &FormatEfficiency::cycles);
  add_decode(build);
  return build.take();
}

}  // namespace rigcast::calibration
