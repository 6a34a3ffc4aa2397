// A token's chosen experts, which the host computes where a GPU has chosen them.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/backends/cpu/cpu_layers.hpp"
#include "engine/kernels/ref/dequantize.hpp"
#include "tests/catch.hpp"
#include "tests/engine/executor_fixture.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

const std::vector<int> kChosen = {6, 1, 3};  // not in order
const std::vector<float> kWeights = {0.5f, 0.3f, 0.2f};

TinyModel model_with_experts(const std::string& architecture, const std::string& mix) {
  TinyTraits traits;
  traits.architecture = architecture;
  traits.mix = mix;
  traits.layers = 2;
  traits.experts = 8;
  traits.experts_used = int(kChosen.size());
  return model_of(traits);
}

std::vector<float> computed(const Model& model, std::span<const float> normed, int threads) {
  CpuOptions options;
  options.threads = threads;
  CpuLayers layers(std::make_shared<const Model>(model), options);
  ThreadTeam team(threads);
  std::vector<float> out(normed.size(), NAN);
  team.run([&](Worker& worker) {
    layers.begin(worker, 0, 1);
    for (int layer = 0; layer < 2; ++layer)
      layers.experts().run_chosen(worker, layer, normed.data(), kChosen, kWeights, out.data());
  });
  return out;
}

std::vector<double> product(const Matrix& w, const std::vector<double>& x) {
  std::vector<float> row(static_cast<std::size_t>(w.columns));
  std::vector<double> y;
  for (std::int64_t i = 0; i < w.rows; ++i) {
    ref::dequantize(w.format, w.row(i), row);
    double sum = 0;
    for (std::size_t k = 0; k < row.size(); ++k) sum += double(row[k]) * x[k];
    y.push_back(sum);
  }
  return y;
}

// Those of the last layer, in double.
std::vector<double> expected(const Model& model, std::span<const float> normed) {
  const Layer& layer = model.layers[1];
  const std::vector<double> x(normed.begin(), normed.end());
  std::vector<double> sum(x.size());
  for (std::size_t i = 0; i < kChosen.size(); ++i) {
    std::vector<double> inner = product(layer.expert_gate.at(kChosen[i]), x);
    const std::vector<double> up = product(layer.expert_up.at(kChosen[i]), x);
    for (std::size_t k = 0; k < inner.size(); ++k)
      inner[k] = inner[k] / (1 + std::exp(-inner[k])) * up[k];
    const std::vector<double> out = product(layer.expert_down.at(kChosen[i]), inner);
    for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += double(kWeights[i]) * out[k];
  }
  return sum;
}

double relative_error(const std::vector<float>& got, const std::vector<double>& wanted) {
  double error = 0, power = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    error += (double(got[i]) - wanted[i]) * (double(got[i]) - wanted[i]);
    power += wanted[i] * wanted[i];
  }
  return std::sqrt(error / power);
}

}  // namespace

TEST_CASE("Experts that were chosen elsewhere give the sum by their weights", "[engine][experts]") {
  const auto normed = normal_values(256, 3);
  // F32 products are sums of 512 roundings at most. Activations that are rounded in blocks of 32 by
  // steps of max / 127 have an error of 2.6 / 127 / sqrt(12) of theirs; three products have it, and
  // that of gate and up counts twice.
  for (const auto& [mix, most] :
       {std::pair("F32", 512 * 0x1p-24), std::pair("Q4_K_M", 2.0 * 2.6 / 127 / std::sqrt(12.0))}) {
    INFO(mix);
    const TinyModel tiny = model_with_experts("qwen3moe", mix);
    CHECK(relative_error(computed(tiny.model, normed, 1), expected(tiny.model, normed)) < most);
  }
}

TEST_CASE("Chosen experts have the same bits for any number of threads", "[engine][experts]") {
  const auto normed = normal_values(256, 4);
  for (const char* architecture : {"qwen3moe", "gpt-oss"})
    for (const char* mix : {"F32", "Q4_K_M"}) {
      INFO(architecture << " " << mix);
      const TinyModel tiny = model_with_experts(architecture, mix);
      const auto one = computed(tiny.model, normed, 1);
      CHECK(std::ranges::all_of(one, [](float x) { return std::isfinite(x); }));
      CHECK(std::ranges::any_of(one, [](float x) { return x != 0; }));
      for (const int threads : {2, 5}) CHECK(computed(tiny.model, normed, threads) == one);
    }
}
