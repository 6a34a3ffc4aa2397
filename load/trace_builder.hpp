#pragma once
// The requests of a trace as its lines are read, in whatever format.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/units.hpp"
#include "load/arrivals.hpp"

namespace rigcast {

/// Recorded requests.
struct Trace {
  std::vector<ServedRequest> requests;  // by arrival; the first at 0, but in our own format
  std::size_t failed = 0;               // that have no answer in BurstGPT's, and are left out
};

class TraceBuilder {
 public:
  /// Adds a request. Times may begin anywhere. Returns what is wrong with it; nullopt: nothing.
  std::optional<std::string> add(double seconds, std::int64_t input, std::int64_t output);
  /// The last request's prompt begins with the first `tokens` tokens of prompt and answer of an
  /// earlier one, or with as many of them as both have.
  void share(std::size_t earlier, TokenCount tokens);
  void add_failed() { ++trace_.failed; }

  const std::vector<ServedRequest>& requests() const { return trace_.requests; }
  /// With the first arrival at 0 if `from_first`.
  Trace finish(bool from_first) &&;

 private:
  Trace trace_;
};

}  // namespace rigcast
