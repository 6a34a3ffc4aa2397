#pragma once
// Quantities as people write them: "25.6 GB/s", "24 GiB", "5 us". There is no default unit.

#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/units.hpp"

namespace rigcast {

/// Each parser takes a number, optional spaces and one of its units; anything else is an Error
/// that names an example. Negative, infinite and not-a-number values are refused.
Result<Bytes> parse_bytes(std::string_view text);                  // B kB MB GB TB KiB MiB GiB TiB
Result<BytesPerSecond> parse_bandwidth(std::string_view text);     // MB/s GB/s TB/s MiB/s GiB/s
Result<FlopsPerSecond> parse_compute_rate(std::string_view text);  // GFLOP/s TFLOP/s GOP/s TOP/s
Result<Seconds> parse_duration(std::string_view text);             // s ms us ns
Result<Hertz> parse_frequency(std::string_view text);              // MHz GHz MT/s
Result<Watts> parse_power(std::string_view text);                  // W kW
Result<Usd> parse_price(std::string_view text);                    // USD

/// Overloads chosen by the quantity, for generic readers.
inline Result<Bytes> parse_quantity(std::string_view t, Bytes*) { return parse_bytes(t); }
inline Result<BytesPerSecond> parse_quantity(std::string_view t, BytesPerSecond*) {
  return parse_bandwidth(t);
}
inline Result<FlopsPerSecond> parse_quantity(std::string_view t, FlopsPerSecond*) {
  return parse_compute_rate(t);
}
inline Result<Seconds> parse_quantity(std::string_view t, Seconds*) { return parse_duration(t); }
inline Result<Hertz> parse_quantity(std::string_view t, Hertz*) { return parse_frequency(t); }
inline Result<Watts> parse_quantity(std::string_view t, Watts*) { return parse_power(t); }
inline Result<Usd> parse_quantity(std::string_view t, Usd*) { return parse_price(t); }

/// Exact text of a quantity in its plainest unit that parses back to the same value.
std::string exact_text(Bytes b);
std::string exact_text(BytesPerSecond r);

/// For people: three significant digits and a fitting unit.
std::string text_gib(Bytes b);           // "24.0 GiB", "310 MiB"
std::string text_gb(Bytes b);            // "4.37 GB", "310 MB": file sizes, traffic
std::string text(BytesPerSecond r);      // "360 GB/s"
std::string text(FlopsPerSecond r);      // "51.2 TFLOP/s"
std::string text(Seconds s);             // "13.8 s", "310 ms", "4.2 us"
std::string text_count(std::int64_t n);  // "30,200"

}  // namespace rigcast
