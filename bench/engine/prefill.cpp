// 512 tokens at once: every weight is used 512 times, so that cores are the bound.

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
#include "engine/runtime/products.hpp"

namespace rigcast::bench {
namespace {

using engine::Matrix;
using engine::Worker;

constexpr int kTokens = 512, kRounds = 5;
constexpr double kLeast = 1.3;
// The BLAS's threads spin a while after their work: not beside what is measured next.
constexpr std::chrono::milliseconds kBlasSpin{300};

class Layers {
 public:
  Layers(engine::Team& team, const ModelSpec& model)
      : team_(team),
        weights_(make_weights(model, "Q4_K_M", team)),
        scratch_(std::size_t(team.size())) {
    std::size_t largest = 0;
    for (const Together& group : weights_.layers)
      for (const Matrix& m : group) {
        auto& x = x_[m.columns];
        if (x.empty()) x = activations(m.columns * kTokens, 1);
        largest = std::max(largest, std::size_t(m.columns * m.rows));
        y_[std::size_t(&m - group.data())].resize(
            std::max(y_[std::size_t(&m - group.data())].size(), std::size_t(m.rows * kTokens)));
      }
    floats_ = engine::LargePages(largest * sizeof(float));
  }

  double operations() const { return 2 * weights_.layer_elements() * kTokens; }

  /// The engine's products, the rounding of activations included.
  void multiply_integers() {
    team_.run([&](Worker& worker) {
      for (const Together& group : weights_.layers) {
        const std::int64_t columns = group.front().columns;
        const std::vector<float>& x = x_.at(columns);
        worker.alone([&] { input_.resize(columns, kTokens, true, false); });
        worker.share(kTokens, 8, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t t = begin; t < end; ++t)
            input_.set_row(t, {x.data() + t * columns, std::size_t(columns)});
        });
        std::vector<engine::Product> products;
        for (const Matrix& m : group)
          products.push_back({&m, &input_, y_[products.size()].data(), m.rows});
        multiply(worker, products, scratch_[std::size_t(worker.index())]);
        worker.barrier();
      }
    });
  }

  /// Each matrix decoded once by all threads, then multiplied by the BLAS.
  void multiply_floats() {
    auto* w = reinterpret_cast<float*>(floats_.data());
    for (const Together& group : weights_.layers)
      for (const Matrix& m : group) {
        team_.run([&](Worker& worker) {
          worker.share(m.rows, 16, [&](std::int64_t begin, std::int64_t end) {
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
  engine::Team& team_;
  Weights weights_;
  std::map<std::int64_t, std::vector<float>> x_;  // by width, [token][column]
  std::vector<float> y_[3];                       // [token][row], by place in a group
  engine::Input input_;
  std::vector<engine::ProductScratch> scratch_;
  engine::LargePages floats_;
};

}  // namespace

std::vector<Bar> prefill_bars(engine::Team& team, const ModelSpec& model) {
  Layers layers(team, model);
  openblas_set_num_threads(team.size());
  std::vector<Contender> contenders = {
      {"integer tiles, Q4_K_M", layers.operations(), [&] { layers.multiply_integers(); }},
      {"decoded, then OpenBLAS sgemm", layers.operations(), [&] { layers.multiply_floats(); },
       kBlasSpin}};
  for (const Contender& peak : peak_contenders(team)) contenders.push_back(peak);
  const std::vector<Rates> rates = compete(contenders, kRounds, 1e9, "GOP/s");
  const double own = rates[0].median();
  const std::string figure = fmt::format("{:.0f} GOP/s", own / 1e9);
  std::vector<Bar> out = {{"prefill of 512, Q4_K_M", figure, own / rates[1].median(), kLeast,
                           fmt::format("decoded + sgemm, {:.0f}", rates[1].median() / 1e9)}};
  for (std::size_t i = 2; i < rates.size(); ++i)
    out.push_back({"prefill of 512, Q4_K_M", figure, own / rates[i].median(), 0,
                   fmt::format("{}, {:.0f}", contenders[i].name, rates[i].median() / 1e9)});
  return out;
}

}  // namespace rigcast::bench
