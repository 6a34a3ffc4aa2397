// Any text as the result of a benchmark of servers: the first letter says of which form, or leaves
// that to the text. What is read has figures that can be compared.

#include <array>
#include <cmath>
#include <initializer_list>

#include "measurements/serving/measured_lengths.hpp"
#include "measurements/serving/serving_results.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace rigcast;

void check_figure(std::optional<double> figure) {
  RIGCAST_ASSERT(!figure || (std::isfinite(*figure) && *figure >= 0));
}

void check_run(const ServingMeasurement& m) {
  for (const MeasuredPercentiles& p : {m.ttft, m.tpot, m.itl, m.e2e})
    for (const auto& figure : {p.mean, p.p50, p.p90, p.p95, p.p99}) check_figure(figure);
  for (const auto& figure :
       {m.output_tokens_per_s, m.prompt_tokens_per_s, m.rate, std::optional(m.cv),
        std::optional(m.prompt_tokens), std::optional(m.output_tokens)})
    check_figure(figure);
  for (const LengthSpread& spread : {m.prompt_spread, m.output_spread}) {
    RIGCAST_ASSERT(spread.histogram.size() <= 256);
    RIGCAST_ASSERT(!lengths_toml(m.prompt_tokens, spread, m.varied_lengths).empty());
    RIGCAST_ASSERT(longest(m.prompt_tokens, spread, m.varied_lengths) >= 0);
  }
}

ServingForm form_of(unsigned letter, std::string_view text) {
  switch (letter) {
    case 't': return ServingForm::kTable;
    case 'v': return ServingForm::kVllmBench;
    case 's': return ServingForm::kSglangBench;
    case 'b': return ServingForm::kBatchedBench;
    case 'g': return ServingForm::kGuideLlm;
    case 'a': return ServingForm::kAiPerf;
    default: return serving_form(text);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input in(data, size);
  const unsigned letter = in.byte();
  const ServingForm form = form_of(letter, in.rest());
  if (form == ServingForm::kNone) return 0;
  const auto runs = parse_serving_results(in.rest(), form, "fuzz.json");
  if (!fuzz::check(runs)) return 0;
  for (const ServingMeasurement& m : *runs) check_run(m);
  return 0;
}
