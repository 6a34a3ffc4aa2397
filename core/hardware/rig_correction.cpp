#include "core/hardware/rig_correction.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace rigcast {
namespace {

constexpr double kMaxSpread = 3;

std::optional<Correction::Speed> read_speed(const TomlTable& t, std::string_view key) {
  const std::string spread = fmt::format("{}_spread", key);
  const std::string regimes = fmt::format("{}_regimes", key);
  const auto factor = t.find_number_figure(key, Correction::kMinFactor, Correction::kMaxFactor);
  if (factor) t.require(spread);
  Correction::Speed speed;
  speed.spread = t.number_or(spread, 0, 0, kMaxSpread);
  speed.regimes = t.texts(regimes);
  if (factor) {
    speed.factor = *factor;
    return speed;
  }
  if (t.has(spread)) t.refuse(spread, fmt::format("a spread of no {}", key));
  if (t.has(regimes)) t.refuse(regimes, fmt::format("regimes of no {}", key));
  return std::nullopt;
}

std::string speed_toml(std::string_view key, const std::optional<Correction::Speed>& speed) {
  if (!speed) return {};
  std::vector<std::string> regimes;
  for (const std::string& regime : speed->regimes) regimes.push_back(toml_text(regime));
  return fmt::format(
      "{0} = {{ value = {1:.4f}, kind = \"{2}\", source = {3} }}\n{0}_spread = {4:.4f}\n"
      "{0}_regimes = [{5}]\n",
      key, speed->factor.value, name(speed->factor.kind), toml_text(speed->factor.source),
      speed->spread, fmt::join(regimes, ", "));
}

}  // namespace

std::map<std::string, Correction> read_corrections(const TomlTable& table) {
  std::map<std::string, Correction> corrections;
  for (const std::string& runtime : table.keys()) {
    const TomlTable t = table.table(runtime);
    Correction c;
    c.decode = read_speed(t, "decode");
    c.prefill = read_speed(t, "prefill");
    c.host_decode = read_speed(t, "host_decode");
    c.runs = int(t.integer_or("runs", 0, 0, 1'000'000));
    t.finish();
    corrections[runtime] = std::move(c);
  }
  return corrections;
}

std::string to_toml(const std::map<std::string, Correction>& corrections, std::string_view source) {
  std::string text = fmt::format(
      "# Written by `rigcast calibrate --own`. Measured speed over the forecast without these\n"
      "# figures; spread: half-width of the 80 % interval that is left, as a logarithm.\n"
      "source = {}\n",
      toml_text(source));
  for (const auto& [runtime, c] : corrections)
    text += fmt::format("\n[correction.{}]\n{}{}{}runs = {}\n", toml_text(runtime),
                        speed_toml("decode", c.decode), speed_toml("prefill", c.prefill),
                        speed_toml("host_decode", c.host_decode), c.runs);
  return text;
}

}  // namespace rigcast
