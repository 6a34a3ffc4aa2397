#pragma once
// Requests as they arrive at a server: from a list, or from users who wait for their answers.

#include <cstddef>
#include <functional>
#include <optional>
#include <queue>
#include <vector>

#include "core/base/units.hpp"

namespace rigcast {

/// A request of a load.
struct ServedRequest {
  Seconds arrival;
  TokenCount prompt = 0;  // at least 1
  TokenCount output = 0;  // at least 1
  /// The prompt begins with the first `shared` tokens of prompt and answer of an earlier request.
  std::optional<std::size_t> continues;
  TokenCount shared = 0;
};

/// Where requests come from, in order of arrival. They are numbered in the order in which they are
/// taken.
class Arrivals {
 public:
  virtual ~Arrivals() = default;
  /// When the next request arrives; none: no further one, unless one that was taken ends first.
  [[nodiscard]] virtual std::optional<Seconds> next() const = 0;
  /// The next request. Requires that there is one.
  virtual ServedRequest take() = 0;
  /// A request has its last token.
  virtual void ended(std::size_t request, Seconds at) = 0;
};

/// Requests of a list, sorted by arrival, whatever becomes of them (an open load).
class ListedArrivals : public Arrivals {
 public:
  /// The list must outlive this.
  explicit ListedArrivals(const std::vector<ServedRequest>& list) : list_(list) {}
  [[nodiscard]] std::optional<Seconds> next() const override;
  ServedRequest take() override { return list_[taken_++]; }
  void ended(std::size_t, Seconds) override {}

 private:
  const std::vector<ServedRequest>& list_;
  std::size_t taken_ = 0;
};

/// Users who think after every answer, then ask again (a closed load). All ask at the start.
class ClosedLoop : public Arrivals {
 public:
  /// A request, but for its arrival, and how long its user thinks after the answer.
  struct Turn {
    ServedRequest request;
    Seconds think;
  };
  /// `turn` gives the request of a number below `requests`, which are asked in all.
  ClosedLoop(std::size_t users, std::size_t requests, std::function<Turn(std::size_t)> turn);
  [[nodiscard]] std::optional<Seconds> next() const override;
  ServedRequest take() override;
  void ended(std::size_t request, Seconds at) override;

 private:
  std::size_t requests_, taken_ = 0;
  std::function<Turn(std::size_t)> turn_;
  std::vector<Seconds> think_;                                              // by request
  std::priority_queue<double, std::vector<double>, std::greater<>> asked_;  // seconds
};

}  // namespace rigcast
