#pragma once

#include <functional>
#include <string>

namespace rigcast::probe {

/// Told what comes next.
using Say = std::function<void(const std::string&)>;

}  // namespace rigcast::probe
