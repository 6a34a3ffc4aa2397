#pragma once
// Values that a shell made of nothing: --gpu "$GPU" where GPU is not set.

#include <CLI/App.hpp>
#include <optional>
#include <string>

#include "core/base/error.hpp"

namespace rigcast::cli {

/// "--gpu: an empty value (an unset shell variable?)".
Error empty_value(const std::string& option);

/// The first option of a parsed verb that was given an empty text.
std::optional<Error> find_empty_value(const CLI::App& verb);

}  // namespace rigcast::cli
