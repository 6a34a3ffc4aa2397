// The time that all threads take to choose a token from a vocabulary's logits in RAM, beside one
// thread's; medians. The logits were written by all threads, as a product writes them.
//
//   bench_cpu_sample [threads]

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/base/quantile.hpp"
#include "engine/backends/cpu/sampling/choose_tokens.hpp"
#include "engine/run/executor.hpp"

using namespace rigcast;
using namespace rigcast::engine;

namespace {

constexpr std::size_t kVocabulary = 128256;  // of Llama 3
constexpr int kTurns = 101;

template <class Work>
double seconds_of(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

int main(int argc, char** argv) {
  ThreadTeam team(argc > 1 ? std::stoi(argv[1]) : int(std::thread::hardware_concurrency()));
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> made(kVocabulary), logits(kVocabulary);
  for (float& logit : made) logit = normal(random);
  const auto write = [&] {
    team.run([&](Worker& worker) {
      worker.parallel_for(kVocabulary, 4096, [&](std::int64_t begin, std::int64_t end) {
        std::copy(made.begin() + begin, made.begin() + end, logits.begin() + begin);
      });
    });
  };
  fmt::print("{} logits, {} threads\n", kVocabulary, team.size());
  for (const Sampling sampling :
       {Sampling{}, Sampling{.temperature = 0.8f, .top_k = 40},
        Sampling{.temperature = 0.8f, .top_k = 1024}, Sampling{.temperature = 0.8f, .top_k = 0}}) {
    Sampler one(sampling), all(sampling);
    std::vector<double> alone, together;
    for (int turn = 0; turn < kTurns; ++turn) {
      write();
      alone.push_back(seconds_of([&] { sample(one, logits, 1, nullptr); }));
      write();
      together.push_back(seconds_of([&] { sample(team, {&all, logits}, 1, nullptr); }));
    }
    fmt::print(
        "temperature {}, top k {:>4}: one thread {:>7.1f} us, all {:>7.1f}, {:.2f} times as "
        "fast\n",
        sampling.temperature, sampling.top_k, median(alone) * 1e6, median(together) * 1e6,
        median(alone) / median(together));
  }
}
