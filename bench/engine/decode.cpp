// Decode of one token: every weight is read once and used once, so memory is the limit.

#include <fmt/format.h>

#include <map>

#include "bench/engine/activations.hpp"
#include "bench/engine/bars.hpp"
#include "bench/engine/dram_read.hpp"
#include "bench/engine/weights.hpp"
#include "engine/backends/cpu/products/products.hpp"

namespace rigcast::bench {
namespace {

using engine::Matrix;
using engine::Worker;

constexpr int kRounds = 15;
constexpr double kMin = 0.85;
constexpr std::int64_t kResident = 384 << 10;  // bytes per thread, within its own cache
constexpr int kRepeats = 400;                  // repeats, some milliseconds in total

// A pass over all weights, as for one token.
class Pass {
 public:
  Pass(engine::ThreadTeam& team, const ModelSpec& model, const std::string& mix)
      : team_(team), weights_(make_weights(model, mix, team)), scratch_(std::size_t(team.size())) {
    for (const Together& group : weights_.layers) add(group);
    add(weights_.head);
  }

  double bytes() const { return bytes_; }
  /// The largest matrix of every format, and the bytes of all of them.
  struct Share {
    Matrix largest;
    double bytes = 0;
  };
  const std::map<QuantFormat, Share>& shares() const { return shares_; }

  void run() {
    team_.run([&](Worker& worker) {
      for (const auto& step : steps_) {
        multiply(worker, step, scratch_[std::size_t(worker.index())]);
        worker.barrier();
      }
    });
  }

 private:
  void add(const Together& group) {
    auto& step = steps_.emplace_back();
    for (const Matrix& m : group) {
      engine::Input& x = inputs_[m.columns];
      if (x.rows() == 0) {
        x.resize(m.columns, 1, true, true);
        x.set_row(0, activations(m.columns, 1));
      }
      auto& y = outputs_.emplace_back(std::size_t(m.rows));
      step.push_back({&m, x, y.data(), m.rows});
      Share& share = shares_[m.format];
      if (m.bytes() > share.largest.bytes()) share.largest = m;
      share.bytes += double(m.bytes());
      bytes_ += double(m.bytes());
    }
  }

  engine::ThreadTeam& team_;
  Weights weights_;
  std::map<std::int64_t, engine::Input> inputs_;  // by width
  std::vector<std::vector<float>> outputs_;
  std::vector<std::vector<engine::Product>> steps_;
  std::vector<engine::ProductScratch> scratch_;
  std::map<QuantFormat, Share> shares_;
  double bytes_ = 0;
};

// Every thread multiplies a few rows of its own repeatedly.
class Resident {
 public:
  Resident(engine::ThreadTeam& team, const Matrix& m)
      : team_(team),
        m_(m),
        rows_(kResident / m.row_bytes()),
        x_(activations(m.columns, 1)),
        outputs_(std::size_t(team.size()), std::vector<float>(std::size_t(rows_))) {
    quantized_.resize(m.columns);
    engine::cpu::quantize_row(x_, quantized_);
  }

  double bytes() const { return double(rows_ * m_.row_bytes()) * kRepeats * team_.size(); }
  void run() {
    const bool integers = engine::needs_integers(m_);
    team_.run([&](Worker& worker) {
      const std::int64_t first = worker.index() * rows_ % (m_.rows - rows_);
      float* y = outputs_[std::size_t(worker.index())].data();
      for (int i = 0; i < kRepeats; ++i)
        integers ? engine::cpu::int8_kernels().multiply_row(m_, first, first + rows_, quantized_, y)
                 : engine::cpu::multiply_row_f32(m_, first, first + rows_, x_.data(), y);
    });
  }

 private:
  engine::ThreadTeam& team_;
  Matrix m_;
  std::int64_t rows_;
  std::vector<float> x_;
  engine::cpu::QuantizedRow quantized_;
  std::vector<std::vector<float>> outputs_;
};

// The bytes that the pass would read per second if all weights were in the cache.
double resident_rate(const Pass& pass, const std::map<QuantFormat, double>& rates) {
  double seconds = 0;
  for (const auto& [format, share] : pass.shares()) seconds += share.bytes / rates.at(format);
  return pass.bytes() / seconds;
}

void add_bars(const std::string& name, double rate, double dram, double resident,
              std::vector<Bar>& out) {
  // The bar applies to the tighter limit; the other ratio is for information.
  const bool memory = dram < resident;
  const std::string figure = fmt::format("{:.1f} GB/s", rate / 1e9);
  out.push_back({"decode " + name, figure, rate / dram, memory ? kMin : 0, "DRAM read"});
  out.push_back({"decode " + name, figure, rate / resident, memory ? 0 : kMin,
                 fmt::format("in cache, {:.1f}", resident / 1e9)});
}

}  // namespace

std::vector<Bar> decode_bars(engine::ThreadTeam& team, const ModelSpec& model) {
  probe::DramRead dram(team);
  std::vector<Contender> contenders = read_contenders(dram);
  const std::size_t reads = contenders.size();
  const std::vector<std::string> mixes = {"F16", "Q8_0", "Q4_K_M"};
  std::vector<Pass> passes;
  passes.reserve(mixes.size());
  std::map<QuantFormat, Resident> residents;
  for (const std::string& mix : mixes) {
    Pass& pass = passes.emplace_back(team, model, mix);
    contenders.push_back({"all weights, " + mix, pass.bytes(), [&pass] { pass.run(); }});
    for (const auto& [format, share] : pass.shares())
      residents.try_emplace(format, team, share.largest);
  }
  for (auto& [format, resident] : residents)
    contenders.push_back({fmt::format("{} in the cache", info(format).name), resident.bytes(),
                          [&r = resident] { r.run(); }});

  const std::vector<Rates> rates = compete(contenders, kRounds, 1e9, "GB/s");
  std::map<QuantFormat, double> in_cache;
  for (std::size_t at = reads + passes.size(); const auto& [format, resident] : residents)
    in_cache[format] = rates[at++].median();
  const double best = best_median(rates, reads);
  std::vector<Bar> out;
  for (std::size_t i = 0; i < passes.size(); ++i)
    add_bars(mixes[i], rates[reads + i].median(), best, resident_rate(passes[i], in_cache), out);
  return out;
}

}  // namespace rigcast::bench
