// A batch of 512 tokens: every weight is used 512 times, so cores are the limit.

#include <cblas.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "bench/engine/activations.hpp"
#include "bench/engine/bars.hpp"
#include "bench/engine/dequantize.hpp"
#include "bench/engine/peaks.hpp"
#include "bench/engine/weights.hpp"
#include "engine/backends/cpu/products/products.hpp"

namespace rigcast::bench {
namespace {

using engine::Matrix;
using engine::Worker;

constexpr int kTokens = 512, kRounds = 5;
constexpr double kMinOfBlas = 1.3, kMinOfPeak = 0.85;
// The BLAS's threads spin for a while after their work: this pause keeps that out of the next
// measurement.
constexpr std::chrono::milliseconds kBlasSpin{300};

class Layers {
 public:
  Layers(engine::ThreadTeam& team, const ModelSpec& model, const std::string& mix)
      : team_(team), weights_(make_weights(model, mix, team)), scratch_(std::size_t(team.size())) {
    for (const Together& group : weights_.layers)
      for (const Matrix& m : group) {
        auto& x = x_[m.columns];
        if (x.empty()) x = activations(m.columns * kTokens, 1);
        largest_ = std::max(largest_, std::size_t(m.columns * m.rows));
        y_[std::size_t(&m - group.data())].resize(
            std::max(y_[std::size_t(&m - group.data())].size(), std::size_t(m.rows * kTokens)));
      }
  }

  double operations() const { return 2 * weights_.layer_elements() * kTokens; }

  /// The engine's products, including the quantization or layout of activations.
  void multiply_as_engine() {
    team_.run([&](Worker& worker) {
      for (const Together& group : weights_.layers) {
        const std::int64_t columns = group.front().columns;
        const std::vector<float>& x = x_.at(columns);
        const bool integers = engine::needs_integers(group.front());
        worker.run_once([&] { input_.resize(columns, kTokens, integers, !integers); });
        worker.parallel_for(
            kTokens, input_.rows_together(), [&](std::int64_t begin, std::int64_t end) {
              const std::int64_t step = input_.rows_at_once();
              for (std::int64_t t = begin; t < end; t += step)
                input_.set_rows(t, {x.data() + t * columns, std::size_t(step * columns)});
            });
        std::vector<engine::Product> products;
        for (const Matrix& m : group)
          products.push_back({&m, input_, y_[products.size()].data(), m.rows});
        multiply(worker, products, scratch_[std::size_t(worker.index())]);
        worker.barrier();
      }
    });
  }

  /// Products by dequantizing each matrix once, on all threads, and the BLAS.
  void multiply_by_blas() {
    if (floats_.size() == 0) floats_ = engine::LargePages(largest_ * sizeof(float));
    auto* w = reinterpret_cast<float*>(floats_.data());
    for (const Together& group : weights_.layers)
      for (const Matrix& m : group) {
        team_.run([&](Worker& worker) {
          worker.parallel_for(m.rows, 16, [&](std::int64_t begin, std::int64_t end) {
            dequantize_rows(m, begin, end, w + begin * m.columns);
          });
        });
        const int rows = int(m.rows), columns = int(m.columns);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, kTokens, rows, columns, 1.0f,
                    x_.at(m.columns).data(), columns, w, columns, 0.0f,
                    y_[std::size_t(&m - group.data())].data(), rows);
      }
  }

 private:
  engine::ThreadTeam& team_;
  Weights weights_;
  std::map<std::int64_t, std::vector<float>> x_;  // by width, [token][column]
  std::vector<float> y_[3];                       // [token][row], by index in a group
  engine::Input input_;
  std::vector<engine::ProductScratch> scratch_;
  std::size_t largest_ = 0;  // elements of the largest matrix
  engine::LargePages floats_;
};

}  // namespace

std::vector<Bar> prefill_bars(engine::ThreadTeam& team, const ModelSpec& model) {
  Layers quantized(team, model, "Q4_K_M"), f16(team, model, "F16"), f32(team, model, "F32");
  openblas_set_num_threads(team.size());
  std::vector<Contender> contenders = {
      {"integer tiles, Q4_K_M", quantized.operations(), [&] { quantized.multiply_as_engine(); }},
      {"decoded, then OpenBLAS sgemm", quantized.operations(),
       [&] { quantized.multiply_by_blas(); }, kBlasSpin},
      {"float tiles, F16", f16.operations(), [&] { f16.multiply_as_engine(); }},
      {"float tiles, F32", f32.operations(), [&] { f32.multiply_as_engine(); }}};
  const std::size_t peaks = contenders.size();
  for (const Contender& peak : peak_contenders(team)) contenders.push_back(peak);
  const std::vector<Rates> rates = compete(contenders, kRounds, 1e9, "GOP/s");
  std::vector<Bar> out;
  const auto add = [&](const char* mix, std::size_t own, std::size_t of, double least) {
    out.push_back({fmt::format("prefill of 512, {}", mix),
                   fmt::format("{:.0f} GOP/s", rates[own].median() / 1e9),
                   rates[own].median() / rates[of].median(), least,
                   fmt::format("{}, {:.0f}", contenders[of].name, rates[of].median() / 1e9)});
  };
  add("Q4_K_M", 0, 1, kMinOfBlas);
  for (std::size_t i = peaks; i < rates.size(); ++i) add("Q4_K_M", 0, i, 0);
  if (const std::size_t floats = peaks + 1; floats < rates.size()) {
    add("F16", 2, floats, kMinOfPeak);
    add("F32", 3, floats, kMinOfPeak);
  }
  return out;
}

}  // namespace rigcast::bench
