#include "core/text/unit_text.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <span>

namespace rigcast {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr Unit kByteUnits[] = {
    {"B", 1},      {"kB", 1e3},        {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},
    {"KiB", 1024}, {"MiB", 1048576.0}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
};
constexpr Unit kBandwidthUnits[] = {
    {"B/s", 1},      {"kB/s", 1e3},        {"MB/s", 1e6},     {"GB/s", 1e9},     {"TB/s", 1e12},
    {"KiB/s", 1024}, {"MiB/s", 1048576.0}, {"GiB/s", 0x1p30}, {"TiB/s", 0x1p40},
};
constexpr Unit kComputeUnits[] = {
    {"MFLOP/s", 1e6}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15},
    {"MOP/s", 1e6},   {"GOP/s", 1e9},   {"TOP/s", 1e12},   {"POP/s", 1e15},
};
constexpr Unit kTimeUnits[] = {{"s", 1},     {"ms", 1e-3}, {"us", 1e-6},
                               {"ns", 1e-9}, {"min", 60},  {"h", 3600}};
constexpr Unit kFrequencyUnits[] = {
    {"Hz", 1}, {"MHz", 1e6}, {"GHz", 1e9}, {"MT/s", 1e6}, {"GT/s", 1e9}};
constexpr Unit kPowerUnits[] = {{"W", 1}, {"kW", 1e3}};
constexpr Unit kPriceUnits[] = {{"USD", 1}};

struct Kind {
  std::string_view noun;
  std::string_view example;
  std::span<const Unit> units;
};

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

Result<double> parse(std::string_view text, const Kind& kind) {
  const auto refuse = [&](std::string_view why) {
    return bad_input(fmt::format("expected {}, got \"{}\"{}", kind.noun, text, why),
                     fmt::format("write {}, for example \"{}\"", kind.noun, kind.example));
  };
  const std::string_view body = trimmed(text);
  double number = 0;
  const auto [end, code] = std::from_chars(body.data(), body.data() + body.size(), number);
  if (code != std::errc{}) return refuse("");
  const std::string_view unit = trimmed(body.substr(std::size_t(end - body.data())));
  if (unit.empty() && number == 0) return 0.0;  // the same in every unit
  if (unit.empty()) return refuse(" (the unit is missing)");
  for (const Unit& u : kind.units) {
    if (u.name != unit) continue;
    if (!std::isfinite(number) || number < 0) return refuse(" (must not be negative)");
    if (!std::isfinite(number * u.factor)) return refuse(" (too large)");
    return number * u.factor;
  }
  return refuse("");
}

template <class Q>
Result<Q> quantity(Result<double> number) {
  if (!number) return number.error();
  return Q{*number};
}

// Three significant digits, without an exponent.
std::string three_digits(double v) {
  if (v == 0) return "0";
  const double magnitude = std::fabs(v);
  if (magnitude >= 99.95) return fmt::format("{:.0f}", v);
  if (magnitude >= 9.995) return fmt::format("{:.1f}", v);
  return fmt::format("{:.2f}", v);
}

}  // namespace

Result<Bytes> parse_bytes(std::string_view text) {
  return quantity<Bytes>(parse(text, {"a size", "24 GiB", kByteUnits}));
}
Result<BytesPerSecond> parse_bandwidth(std::string_view text) {
  return quantity<BytesPerSecond>(parse(text, {"a rate", "64 GB/s", kBandwidthUnits}));
}
Result<FlopsPerSecond> parse_compute_rate(std::string_view text) {
  return quantity<FlopsPerSecond>(parse(text, {"a compute rate", "51 TFLOP/s", kComputeUnits}));
}
Result<Seconds> parse_duration(std::string_view text) {
  return quantity<Seconds>(parse(text, {"a time", "5 us", kTimeUnits}));
}
Result<Hertz> parse_frequency(std::string_view text) {
  return quantity<Hertz>(parse(text, {"a frequency", "4.3 GHz", kFrequencyUnits}));
}
Result<Watts> parse_power(std::string_view text) {
  return quantity<Watts>(parse(text, {"a power", "170 W", kPowerUnits}));
}
Result<Usd> parse_price(std::string_view text) {
  return quantity<Usd>(parse(text, {"a price", "329 USD", kPriceUnits}));
}

std::string exact_text(Bytes b) {
  for (const auto& [unit, factor] : {Unit{"GiB", 0x1p30}, Unit{"MiB", 0x1p20}})
    if (b.value >= factor && std::fmod(b.value, factor) == 0)
      return fmt::format("{} {}", b.value / factor, unit);
  return fmt::format("{} B", b.value);
}

std::string exact_text(BytesPerSecond r) {
  const double giga = r.value / 1e9;
  return giga * 1e9 == r.value ? fmt::format("{} GB/s", giga) : fmt::format("{} B/s", r.value);
}

std::string text_gib(Bytes b) {
  if (std::fabs(b.value) >= 0.9995 * 0x1p30) return three_digits(b.value / 0x1p30) + " GiB";
  if (std::fabs(b.value) >= 0x1p20) return three_digits(b.value / 0x1p20) + " MiB";
  return fmt::format("{:.0f} B", b.value);
}

std::string text_gb(Bytes b) {
  if (std::fabs(b.value) >= 0.9995e9) return three_digits(b.value / 1e9) + " GB";
  if (std::fabs(b.value) >= 1e6) return three_digits(b.value / 1e6) + " MB";
  return fmt::format("{:.0f} B", b.value);
}

std::string text(BytesPerSecond r) {
  if (r.value >= 0.9995e9) return three_digits(r.value / 1e9) + " GB/s";
  return three_digits(r.value / 1e6) + " MB/s";
}

std::string text(FlopsPerSecond r) {
  if (r.value >= 0.9995e12) return three_digits(r.value / 1e12) + " TFLOP/s";
  return three_digits(r.value / 1e9) + " GFLOP/s";
}

std::string text(Seconds s) {
  const double v = std::fabs(s.value);
  if (v >= 0.9995 || v == 0) return three_digits(s.value) + " s";
  if (v >= 0.9995e-3) return three_digits(s.value * 1e3) + " ms";
  return three_digits(s.value * 1e6) + " us";
}

std::string text_count(std::int64_t n) {
  std::string digits = fmt::format("{}", n < 0 ? -n : n);
  for (int i = int(digits.size()) - 3; i > 0; i -= 3) digits.insert(std::size_t(i), 1, ',');
  return n < 0 ? "-" + digits : digits;
}

}  // namespace rigcast
