#pragma once
// Token ids for the requests of a load: random ones, but for what a request shares with an earlier
// one.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "load/arrivals.hpp"

namespace rigcast::validation {

class LoadPrompts {
 public:
  /// Ids below `vocabulary`, the same for the same seed.
  LoadPrompts(std::int64_t vocabulary, std::uint64_t seed) : vocabulary_(vocabulary), seed_(seed) {}

  /// The prompt of the next request; requests are numbered from 0. What it shares of an answer that
  /// is not known yet is random.
  std::vector<std::int32_t> next(const ServedRequest& request);
  /// More tokens of a request's answer, of which later requests may share some.
  void add_answer(std::size_t request, std::span<const std::int32_t> ids);

 private:
  std::int32_t id(std::size_t request, std::size_t position) const;

  std::int64_t vocabulary_;
  std::uint64_t seed_;
  std::vector<std::vector<std::int32_t>> said_;  // by request, prompt and answer
};

}  // namespace rigcast::validation
