#pragma once

#include <functional>
#include <string>

namespace rigcast::probe {

/// Called with the name of the next measurement.
using Progress = std::function<void(const std::string&)>;

}  // namespace rigcast::probe
