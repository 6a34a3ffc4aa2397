#include "calibration/left_out_table.hpp"

#include <fmt/format.h>

#include <cmath>

#include "core/text/csv_quote.hpp"

namespace rigcast::calibration {

std::string left_out_table(const std::vector<Sample>& samples, const LeftOut& errors) {
  std::string out =
      "id,chip,rig,model,quant,regime,deep,quantized_kv,ram_known,metric,measured,fitted,"
      "left_out\n";
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const ResolvedRun& run = samples[i].run();
    const double measured = run.measured.value;
    out += fmt::format("{},{},{},{},{},{},{:d},{:d},{:d},{},{},{:.6g},{:.6g}\n",
                       csv_quote(run.measured.id), csv_quote(run.chip), csv_quote(run.rig),
                       csv_quote(run.scenario->model.id), csv_quote(run.scenario->quant),
                       name(run.regime), run.deep, run.quantized_kv, run.ram_known,
                       name(run.measured.metric), measured, measured * std::exp(errors.fitted[i]),
                       measured * std::exp(errors.left_out[i]));
  }
  return out;
}

}  // namespace rigcast::calibration
