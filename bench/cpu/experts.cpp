// The host's part of a token whose experts are in RAM while the GPU computes the rest: a layer's
// chosen experts, beside the time in which memory delivers their weights; medians. Between layers
// the team waits as long as a GPU takes for its part.
//
//   bench_cpu_experts [model [quant [threads [layers [GPU's microseconds]]]]]
//                      qwen3-30b-a3b Q4_K_M, all threads, 8 layers, 40 us

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/base/quantile.hpp"
#include "core/catalogue/catalogue.hpp"
#include "core/model/tensor_table.hpp"
#include "engine/backends/cpu/cpu_layers.hpp"
#include "engine/synth/synthetic_model.hpp"
#include "probe/dram_read.hpp"

using namespace rigcast;
using namespace rigcast::engine;

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kTurns = 15, kTokens = 8;  // of a turn; memory's rate is read before each turn

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double read_rate(probe::DramRead& dram) {
  double best = 0;
  for (const auto& pattern : probe::DramRead::read_patterns()) {
    const auto begin = Clock::now();
    dram.read(pattern);
    best = std::max(best, double(dram.bytes()) / seconds_since(begin));
  }
  return best;
}

// Chosen experts of each layer, other ones for every token.
class Choices {
 public:
  explicit Choices(const MixtureOfExperts& moe) : used_(std::size_t(moe.experts_used)) {
    all_.resize(std::size_t(moe.experts));
    std::iota(all_.begin(), all_.end(), 0);
    weights_.assign(used_, 1.0f / float(used_));
  }
  void choose() { std::ranges::shuffle(all_, random_); }
  std::span<const int> ids() const { return {all_.data(), used_}; }
  std::span<const float> weights() const { return weights_; }

 private:
  std::size_t used_;
  std::vector<int> all_;
  std::vector<float> weights_;
  std::mt19937 random_{1};
};

struct Token {
  int layers = 0;  // with experts
  double seconds = 0, bytes = 0;
};

// Seconds of all layers' experts, without the waits.
Token token(ThreadTeam& team, CpuLayers& layers, Choices& choices, double gpu_seconds) {
  std::vector<float> normed(std::size_t(layers.model().spec.hidden), 0.5f), out(normed.size());
  Token all;
  layers.take_bytes();
  team.run([&](Worker& worker) {
    layers.begin(worker, 0, 1);
    for (int layer = 0; layer < layers.model().spec.layers; ++layer) {
      if (!layers.model().spec.is_moe_layer(layer)) continue;
      Clock::time_point begin;
      worker.barrier();
      if (worker.first()) {
        choices.choose();
        const auto since = Clock::now();
        while (seconds_since(since) < gpu_seconds) {
        }
        begin = Clock::now();
      }
      worker.barrier();
      layers.experts().run_chosen(worker, layer, normed.data(), choices.ids(), choices.weights(),
                                  out.data());
      if (worker.first()) ++all.layers, all.seconds += seconds_since(begin);
    }
  });
  all.bytes = layers.take_bytes().weights;
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "qwen3-30b-a3b",
                    quant = argc > 2 ? argv[2] : "Q4_K_M";
  const int threads = argc > 3 ? std::stoi(argv[3]) : int(std::thread::hardware_concurrency()),
            depth = argc > 4 ? std::stoi(argv[4]) : 8;
  const double gpu_seconds = (argc > 5 ? std::stod(argv[5]) : 40) * 1e-6;
  auto spec = Catalogue{RIGCAST_SOURCE_DIR}.model(name);
  const auto mix = QuantMix::from_name(quant);
  if (!spec || !mix || !spec->moe) return fmt::print("no such model of experts, or quant\n"), 2;
  spec->layers = std::min(spec->layers, depth);
  ThreadTeam team(threads, ThreadTeam::kGpuSpinTime);
  auto made = make_synthetic_model(*spec, *make_tensor_table(*spec, *mix), 1, team);
  if (!made) return fmt::print("{}\n", made.error().text()), 2;
  CpuLayers layers(std::make_shared<const Model>(*std::move(made)), {threads, KvTypes()});
  probe::DramRead dram(team);
  Choices choices(*spec->moe);

  std::vector<double> rates, times, shares;
  double bytes = 0;
  token(team, layers, choices, gpu_seconds);  // buffers grow
  for (int turn = 0; turn < kTurns; ++turn) {
    rates.push_back(read_rate(dram));
    for (int i = 0; i < kTokens; ++i) {
      const Token one = token(team, layers, choices, gpu_seconds);
      times.push_back(one.seconds / one.layers);
      shares.push_back(one.bytes / one.seconds / rates.back());
      bytes = one.bytes / one.layers;
    }
  }
  fmt::print(
      "{} {}, {} threads: experts of a layer {:.1f} us, {:.1f} MB; memory is read at {:.1f} "
      "GB/s, of which they have {:.2f}\n",
      name, quant, threads, median(times) * 1e6, bytes / 1e6, median(rates) / 1e9, median(shares));
}
