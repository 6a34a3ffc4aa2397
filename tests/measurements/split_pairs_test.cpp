// Runs whose only difference is the split mode: the gain that is forecast beside the measured one.
// No figure of the model was fitted on them.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "measurements/parsed_notes.hpp"
#include "measurements/read_measurements.hpp"
#include "measurements/resolve.hpp"
#include "perfmodel/serial_time.hpp"
#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"
#include "tests/paths.hpp"

using namespace rigcast;

namespace {

struct Pair {
  std::string id;
  bool experts = false;
  double measured = 0, forecast = 0;  // speed over that by layers

  double error() const { return forecast / measured - 1; }
  bool same_sign() const { return (measured > 1) == (forecast > 1); }
};

using Setting = std::tuple<std::string, std::string, int, std::string, std::string, TokenCount,
                           TokenCount, TokenCount, Metric, std::string>;

Setting setting_of(const Measurement& m) {
  return {m.source, m.gpu,    m.gpu_count, m.model,  m.quant,
          m.depth,  m.prompt, m.generated, m.metric, m.os};
}

// Answers alone: what several GPUs do with the ubatches of a prompt is no closed form.
std::vector<Pair> pairs_of_answers() {
  std::vector<Measurement> rows;
  for (const char* file : {"splits.csv", "benchmarks.csv"}) {
    const auto read =
        read_measurements(std::string(test::source_dir()) + "/runtimes/measurements/" + file);
    REQUIRE(read);
    std::ranges::copy_if(*read, std::back_inserter(rows), [](const Measurement& m) {
      return m.gpu_count > 1 && m.metric == Metric::kTg && !m.doubtful();
    });
  }
  std::map<Setting, const Measurement*> by_layers;
  for (const Measurement& m : rows)
    if (m.notes.find("mode layer") != std::string::npos) by_layers.emplace(setting_of(m), &m);
  Resolver resolver(fixtures::catalogue());
  const auto speed = [&](const Measurement& m) {
    const auto run = resolver.resolve(m);
    return run ? 1 / SerialForecast(*run->scenario).mean_token().value : 0.0;
  };
  std::vector<Pair> pairs;
  for (const Measurement& m : rows) {
    const auto layers = by_layers.find(setting_of(m));
    if (parse_notes(m).split_mode.empty() || layers == by_layers.end()) continue;
    const double own = speed(m), theirs = speed(*layers->second);
    if (own <= 0 || theirs <= 0) continue;
    const auto run = resolver.resolve(m);
    pairs.push_back({m.id, run->scenario->model.moe.has_value(), m.value / layers->second->value,
                     own / theirs});
  }
  return pairs;
}

double median_error(const std::vector<Pair>& pairs, bool experts) {
  std::vector<double> errors;
  for (const Pair& p : pairs)
    if (p.experts == experts) errors.push_back(std::abs(p.error()));
  REQUIRE_FALSE(errors.empty());
  std::ranges::sort(errors);
  return errors[errors.size() / 2];
}

}  // namespace

TEST_CASE("What a split mode gains over layers is forecast as measured", "[split][measured]") {
  const std::vector<Pair> pairs = pairs_of_answers();
  std::ostringstream all;
  for (const Pair& p : pairs)
    all << p.id << (p.experts ? " experts" : " dense") << ": measured " << p.measured
        << ", forecast " << p.forecast << "\n";
  INFO(all.str());
  CHECK(pairs.size() >= 6);
  // The bar, a median of 10 %, holds for dense models; docs/accuracy.md tells the rest.
  CHECK(median_error(pairs, false) < 0.10);
  for (const Pair& p : pairs)
    if (!p.experts) CHECK(p.same_sign());
}
