#pragma once

namespace rigcast::sim {

/// How closely to look. A sweep compares thousands of scenarios, a report is one.
enum class Detail { kSweep, kFinal, kExact };

}  // namespace rigcast::sim
