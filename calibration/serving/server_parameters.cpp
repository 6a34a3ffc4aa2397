#include "calibration/serving/server_parameters.hpp"

#include <utility>

namespace rigcast::calibration {
namespace {

constexpr double kMicro = 1e-6;

Parameter figure(std::string path, double least, double most,
                 std::function<double*(RuntimeProfile&)> in) {
  Parameter p;
  p.path = std::move(path);
  p.least = least;
  p.most = most;
  p.spread = 1.0;
  p.in = std::move(in);
  return p;
}

Parameter time(std::string path, double least, double most,
               std::function<double*(RuntimeProfile&)> in) {
  Parameter p = figure(std::move(path), least * kMicro, most * kMicro, std::move(in));
  p.unit = "us";
  return p;
}

GpuEfficiency& gpu(RuntimeProfile& p) { return p.gpu.at("default"); }

// A factor of a backend that has figures of its own.
Parameter of_backend(Backend backend, const char* key, double least, double most,
                     double* (*in)(BackendEfficiency&)) {
  return figure(std::string("backend.") + std::string(name(backend)) + "." + key, least, most,
                [backend, in](RuntimeProfile& p) { return in(p.backends[std::size_t(backend)]); });
}

// Factors on the speed of one chip: of a few tokens, and of batches.
void add_chip(const std::string& id, std::vector<Parameter>& all) {
  using Factors = RuntimeProfile::ChipFactors;
  constexpr double kChipSpread = 0.15;  // of chips of one architecture
  for (const auto& [key, factor] :
       {std::pair{"decode", &Factors::decode}, {"prefill", &Factors::prefill}}) {
    Parameter p =
        figure("chip.\"" + id + "\"." + key, 0.3, 3, [id, factor = factor](RuntimeProfile& r) {
          const Sourced<double> one{1.0, SourceKind::kAssumed, {}};
          return &(r.chips.try_emplace(id, Factors{one, one}).first->second.*factor).value;
        });
    p.spread = kChipSpread;
    p.chip = id;
    all.push_back(std::move(p));
  }
}

}  // namespace

std::vector<Parameter> server_parameters(const RuntimeProfile& profile,
                                         const std::set<std::string>& chips) {
  // Caches keep their ratio to weights, as no load has them apart: a chip whose memory is faster
  // reads both so.
  std::vector<Parameter> all = {
      figure("gpu.default.read", 0.5, 0.98, [](RuntimeProfile& p) { return &gpu(p).read.value; }),
      figure("gpu.default.gemm", 0.2, 0.95, [](RuntimeProfile& p) { return &gpu(p).gemm.value; }),
      figure("gpu.default.attention", 0.1, 0.95,
             [](RuntimeProfile& p) { return &gpu(p).attention.value; }),
      time("backend.cuda.launch", 0.2, 20,
           [](RuntimeProfile& p) {
             return &p.backends[std::size_t(Backend::kCuda)].launch.value.value;
           }),
      time("backend.rocm.launch", 0.2, 60,
           [](RuntimeProfile& p) {
             return &p.backends[std::size_t(Backend::kRocm)].launch.value.value;
           }),
      of_backend(Backend::kRocm, "batch", 0.1, 1.5,
                 [](BackendEfficiency& b) { return &b.batch.value; }),
      of_backend(Backend::kRocm, "read", 0.2, 1.0,
                 [](BackendEfficiency& b) { return &b.read.value; }),
      figure("batch.low_precision", 0.5, 1.0,
             [](RuntimeProfile& p) { return &p.batch.low_precision.value; }),
      figure("batch.power", 0.05, 1.5, [](RuntimeProfile& p) { return &p.batch.power.value; }),
      figure("batch.experts", 0.05, 1.5, [](RuntimeProfile& p) { return &p.batch.experts.value; }),
      figure("batch.packed_experts", 0.05, 1.5,
             [](RuntimeProfile& p) { return &p.batch.packed_experts.value; }),
      figure("batch.gemm_half_rate_batch", 0.5, 500,
             [](RuntimeProfile& p) { return &p.batch.gemm_half_rate_batch.value; }),
      figure("batch.vector_bytes", 0.5, 20,
             [](RuntimeProfile& p) { return &p.batch.vector_bytes.value; }),
      // Of kernels that turn weights into 16 bits: no faster than products of 16 bits.
      figure(
          "format.q8.batch", 0.2, 1.0,
          [](RuntimeProfile& p) { return &p.formats[std::size_t(FormatGroup::kQ8)].batch.value; }),
      figure(
          "format.q4.batch", 0.2, 1.0,
          [](RuntimeProfile& p) { return &p.formats[std::size_t(FormatGroup::kQ4)].batch.value; }),
  };
  if (profile.server) {
    all.push_back(time("server.step", 10, 20000,
                       [](RuntimeProfile& p) { return &p.server->step.value.value; }));
    all.push_back(time("server.sequence", 0.5, 300,
                       [](RuntimeProfile& p) { return &p.server->sequence.value.value; }));
    all.push_back(time("server.request", 100, 100'000,
                       [](RuntimeProfile& p) { return &p.server->request.value.value; }));
  }
  for (const std::string& id : chips) add_chip(id, all);
  RuntimeProfile copy = profile;
  constexpr double kPower = 0.5;  // where the profile has none: as 61 chips have by llama.cpp
  for (Parameter& p : all) {
    const double own = *p.in(copy);
    p.prior = p.path == "batch.power" && own <= 0 ? kPower : std::max(own, p.least);
  }
  return all;
}

double kv_read_beside(const RuntimeProfile& profile, double read) {
  const GpuEfficiency& own = profile.gpu.at("default");
  return std::min(1.0, own.kv_read.value * read / own.read.value);
}

}  // namespace rigcast::calibration
