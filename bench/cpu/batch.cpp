// Tokens a second of many sequences that the CPU decodes together, relative to one: every width in
// turn, so that a busy machine slows all alike; medians. Beside them the floor: the bytes of
// weights and cache that a step moves, at the rate at which memory is read meanwhile. Exits with 1
// if a bar is missed.
//
//   bench_cpu_batch [model [quant [threads]]]     qwen3-0.6b Q4_K_M, all threads

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/base/quantile.hpp"
#include "core/catalogue/catalogue.hpp"
#include "core/model/tensor_table.hpp"
#include "engine/backends/cpu/batch/cpu_batch_executor.hpp"
#include "engine/backends/cpu/cpu_executor.hpp"
#include "engine/synth/synthetic_model.hpp"
#include "probe/dram_read.hpp"

using namespace rigcast;
using namespace rigcast::engine;

namespace {

constexpr TokenCount kCached = 512, kBlock = 16;
constexpr int kWidths[] = {1, 2, 4, 8, 16}, kMaxWidth = 16, kTurns = 15;
constexpr int kBarWidth = 8;
constexpr double kBar = 2.5;        // tokens a second of kBarWidth sequences, relative to one
constexpr double kAloneBar = 0.97;  // of one sequence, relative to the executor of one

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Blocks of a sequence, scattered over the pool.
std::vector<int> blocks_of(int sequence) {
  std::vector<int> blocks;
  for (int i = 0; i < int(kCached / kBlock) + 1; ++i) blocks.push_back(i * kMaxWidth + sequence);
  return blocks;
}

class Users {
 public:
  Users(std::shared_ptr<const Model> model, int threads)
      : executor_(std::move(model), {threads, KvTypes()},
                  {kBlock, kMaxWidth * int(kCached / kBlock + 1), 0, 512, kMaxWidth}) {
    for (int i = 0; i < kMaxWidth; ++i) {
      blocks_.push_back(blocks_of(i));
      tokens_.push_back(i + 3);
      samplers_.emplace_back(Sampling{});
      executor_.fill(blocks_.back(), kCached);
    }
  }

  // Seconds of a step in which `width` sequences decode.
  double step(int width) {
    std::vector<SequenceStep> steps;
    for (std::size_t i = 0; i < std::size_t(width); ++i)
      steps.push_back({{&tokens_[i], 1}, kCached, blocks_[i], &samplers_[i]});
    executor_.take_bytes();
    const auto begin = std::chrono::steady_clock::now();
    executor_.step(steps);
    return seconds_since(begin);
  }
  double bytes() { return executor_.take_bytes().total(); }

 private:
  CpuBatchExecutor executor_;
  std::vector<std::vector<int>> blocks_;
  std::vector<std::int32_t> tokens_;
  std::vector<Sampler> samplers_;
};

// Seconds of a token of the executor of one sequence. Its last block has room for the token: a new
// one would have to be cleared.
constexpr TokenCount kAlone = kCached - 1;
double decode_alone(CpuExecutor& executor) {
  Sampler sampler{Sampling{}};
  const auto begin = std::chrono::steady_clock::now();
  executor.decode(3, sampler);
  const double seconds = seconds_since(begin);
  executor.truncate(kAlone);
  return seconds;
}

double read_rate(probe::DramRead& dram) {
  double best = 0;
  for (const auto& pattern : probe::DramRead::read_patterns()) {
    const auto begin = std::chrono::steady_clock::now();
    dram.read(pattern);
    best = std::max(best, double(dram.bytes()) / seconds_since(begin));
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "qwen3-0.6b", quant = argc > 2 ? argv[2] : "Q4_K_M";
  const int threads = argc > 3 ? std::stoi(argv[3]) : int(std::thread::hardware_concurrency());
  const auto spec = Catalogue{RIGCAST_SOURCE_DIR}.model(name);
  const auto mix = QuantMix::from_name(quant);
  if (!spec || !mix) return fmt::print("no such model or quant\n"), 2;
  ThreadTeam team(threads);
  auto made = make_synthetic_model(*spec, *make_tensor_table(*spec, *mix), 1, team);
  if (!made) return fmt::print("{}\n", made.error().text()), 2;
  const auto model = std::make_shared<const Model>(*std::move(made));
  Users users(model, threads);
  CpuExecutor one(model, {threads, KvTypes(), kBlock});
  one.fill(kAlone);
  probe::DramRead dram(team);

  std::vector<double> alone, rates, seconds[std::size(kWidths)];
  double bytes[std::size(kWidths)] = {};
  for (int turn = 0; turn <= kTurns; ++turn) {
    if (turn == 1) alone.clear(), rates.clear();  // the first round touches memory and buffers
    rates.push_back(read_rate(dram));
    decode_alone(one);  // after another's work, threads and caches are cold: not counted
    alone.push_back(decode_alone(one));
    for (std::size_t w = 0; w < std::size(kWidths); ++w) {
      if (turn == 1) seconds[w].clear();
      users.step(kWidths[w]);
      seconds[w].push_back(users.step(kWidths[w]));
      bytes[w] = users.bytes();
    }
  }

  const double rate = *std::ranges::max_element(rates), first = median(seconds[0]);
  fmt::print(
      "{} {}, {} threads, {} tokens cached each; memory is read at {:.1f} GB/s; medians of {}\n",
      name, quant, threads, kCached, rate / 1e9, kTurns);
  fmt::print("{:>10} {:>9} {:>9} {:>9} {:>12} {:>9}\n", "sequences", "step, ms", "tokens/s",
             "of one", "floor, ms", "of floor");
  bool missed = false;
  for (std::size_t w = 0; w < std::size(kWidths); ++w) {
    const double s = median(seconds[w]), ratio = kWidths[w] * first / s, floor = bytes[w] / rate;
    const bool low = kWidths[w] == kBarWidth && ratio < kBar;
    missed |= low;
    fmt::print("{:>10} {:>9.2f} {:>9.1f} {:>9.2f} {:>12.2f} {:>9.2f}{}\n", kWidths[w], s * 1e3,
               kWidths[w] / s, ratio, floor * 1e3, floor / s, low ? "   MISSED" : "");
  }
  const double of_alone = median(alone) / first;
  missed |= of_alone < kAloneBar;
  fmt::print("one sequence: {:.2f} of the speed of the executor of one{}\n", of_alone,
             of_alone < kAloneBar ? "   MISSED" : "");
  fmt::print(
      "bars: {} sequences {} times the tokens a second of one; one {} of the executor of one\n",
      kBarWidth, kBar, kAloneBar);
  return missed ? 1 : 0;
}
