#pragma once
// Checks of flags' values. Their messages name the form that is expected, and the value.

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace rigcast::cli {

/// Numbers from `lo` to `hi`; neither text nor NaN.
CLI::Validator number_within(double lo, double hi);
/// Whole numbers in decimal digits.
CLI::Validator integer_within(std::int64_t lo, std::int64_t hi);
/// Any text but none: what an unset variable of a shell leaves of a name.
CLI::Validator not_empty();

/// A flag whose value is a list, "A,B"; given twice, the lists are joined. Items are trimmed. A
/// list with an empty item is refused, and so is the first item of which `check` gives a complaint.
CLI::Option* add_list(CLI::App& verb, const std::string& name, std::vector<std::string>& items,
                      const std::string& help,
                      const std::function<std::string(std::string&)>& check = {});

}  // namespace rigcast::cli
