#pragma once
// When the runtime of a measurement was built, as far as its source tells.

#include <optional>
#include <string>

#include "measurements/measurement.hpp"

namespace rigcast {

struct Month {
  int year = 0;
  int month = 0;  // from 1

  std::string text() const;  // "2024-07"
  auto operator<=>(const Month&) const = default;
};

/// Of the build of that number of llama.cpp: between releases whose dates are known. nullopt:
/// before or long after them.
std::optional<Month> month_of_build(int number);

/// From the number of a llama.cpp build where one is stated, else from the date of the source.
/// nullopt: neither tells a month from 2023 to 2099.
std::optional<Month> build_month(const Measurement& m);

/// The default of `-fa` of that day, where a source does not say what it ran with.
bool default_flash_attention(const Measurement& m);

}  // namespace rigcast
