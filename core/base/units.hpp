#pragma once
// The physical quantities of a forecast. A value is always in base units: bytes, seconds,
// floating-point operations, and their rates. GB is 10^9 bytes, GiB is 2^30.

#include <compare>
#include <cstdint>

namespace rigcast {

template <class Tag>
struct Quantity {
  double value = 0.0;

  constexpr auto operator<=>(const Quantity&) const = default;

  constexpr Quantity& operator+=(Quantity other) {
    value += other.value;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value -= other.value;
    return *this;
  }
  constexpr Quantity& operator*=(double factor) {
    value *= factor;
    return *this;
  }

  friend constexpr Quantity operator+(Quantity a, Quantity b) { return {a.value + b.value}; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return {a.value - b.value}; }
  friend constexpr Quantity operator-(Quantity a) { return {-a.value}; }
  friend constexpr Quantity operator*(Quantity a, double b) { return {a.value * b}; }
  friend constexpr Quantity operator*(double a, Quantity b) { return {a * b.value}; }
  friend constexpr Quantity operator/(Quantity a, double b) { return {a.value / b}; }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.value / b.value; }
};

using Bytes = Quantity<struct BytesTag>;
using Seconds = Quantity<struct SecondsTag>;
using Flops = Quantity<struct FlopsTag>;  // an amount of work: multiply and add count as two
using BytesPerSecond = Quantity<struct BytesPerSecondTag>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag>;
using Hertz = Quantity<struct HertzTag>;
using Watts = Quantity<struct WattsTag>;
using Usd = Quantity<struct UsdTag>;

constexpr Seconds operator/(Bytes b, BytesPerSecond r) { return {b.value / r.value}; }
constexpr Seconds operator/(Flops f, FlopsPerSecond r) { return {f.value / r.value}; }
constexpr BytesPerSecond operator/(Bytes b, Seconds s) { return {b.value / s.value}; }
constexpr FlopsPerSecond operator/(Flops f, Seconds s) { return {f.value / s.value}; }
constexpr Bytes operator*(BytesPerSecond r, Seconds s) { return {r.value * s.value}; }

inline namespace literals {
constexpr Bytes operator""_B(unsigned long long v) { return {double(v)}; }
constexpr Bytes operator""_KiB(unsigned long long v) { return {double(v) * 1024.0}; }
constexpr Bytes operator""_MiB(unsigned long long v) { return {double(v) * 1048576.0}; }
constexpr Bytes operator""_GiB(unsigned long long v) { return {double(v) * 1073741824.0}; }
constexpr Bytes operator""_MB(unsigned long long v) { return {double(v) * 1e6}; }
constexpr Bytes operator""_GB(unsigned long long v) { return {double(v) * 1e9}; }
constexpr BytesPerSecond operator""_GBps(unsigned long long v) { return {double(v) * 1e9}; }
constexpr BytesPerSecond operator""_GBps(long double v) { return {double(v) * 1e9}; }
constexpr BytesPerSecond operator""_MBps(unsigned long long v) { return {double(v) * 1e6}; }
constexpr FlopsPerSecond operator""_TFLOPs(unsigned long long v) { return {double(v) * 1e12}; }
constexpr Seconds operator""_s(long double v) { return {double(v)}; }
constexpr Seconds operator""_s(unsigned long long v) { return {double(v)}; }
constexpr Seconds operator""_ms(unsigned long long v) { return {double(v) * 1e-3}; }
constexpr Seconds operator""_us(unsigned long long v) { return {double(v) * 1e-6}; }
constexpr Seconds operator""_us(long double v) { return {double(v) * 1e-6}; }
}  // namespace literals

static_assert(50_GB / 25_GBps == 2_s);
static_assert(1_GiB > 1_GB);
static_assert(1_GiB == 1073741824_B && 1_GB == 1000000000_B);

/// A number of tokens: a position in the context, a prompt's length, a batch.
using TokenCount = std::int64_t;

}  // namespace rigcast
