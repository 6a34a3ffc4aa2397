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

}  // namespace

std::vector<Parameter> server_parameters(const RuntimeProfile& profile) {
  std::vector<Parameter> all = {
      figure("gpu.default.read", 0.5, 0.98, [](RuntimeProfile& p) { return &gpu(p).read.value; }),
      figure("gpu.default.kv_read", 0.2, 0.98,
             [](RuntimeProfile& p) { return &gpu(p).kv_read.value; }),
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
      figure("batch.experts", 0.05, 1.5, [](RuntimeProfile& p) { return &p.batch.experts.value; }),
      figure("batch.gemm_half_rate_batch", 0.5, 500,
             [](RuntimeProfile& p) { return &p.batch.gemm_half_rate_batch.value; }),
      figure("batch.vector_bytes", 0.5, 20,
             [](RuntimeProfile& p) { return &p.batch.vector_bytes.value; }),
      figure(
          "format.q8.batch", 0.2, 1.5,
          [](RuntimeProfile& p) { return &p.formats[std::size_t(FormatGroup::kQ8)].batch.value; }),
      figure(
          "format.q4.batch", 0.2, 1.5,
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
  RuntimeProfile copy = profile;
  for (Parameter& p : all) p.prior = std::max(*p.in(copy), p.least);
  return all;
}

}  // namespace rigcast::calibration
