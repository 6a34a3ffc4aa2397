#include "load/arrivals.hpp"

#include <utility>

namespace rigcast {

std::optional<Seconds> ListedArrivals::next() const {
  if (taken_ == list_.size()) return std::nullopt;
  return list_[taken_].arrival;
}

ClosedLoop::ClosedLoop(std::size_t users, std::size_t requests,
                       std::function<Turn(std::size_t)> turn)
    : requests_(requests), turn_(std::move(turn)) {
  for (std::size_t user = 0; user < users; ++user) asked_.push(0);
}

std::optional<Seconds> ClosedLoop::next() const {
  if (asked_.empty() || taken_ == requests_) return std::nullopt;
  return Seconds{asked_.top()};
}

ServedRequest ClosedLoop::take() {
  Turn turn = turn_(taken_++);
  turn.request.arrival = Seconds{asked_.top()};
  asked_.pop();
  think_.push_back(turn.think);
  return turn.request;
}

void ClosedLoop::ended(std::size_t request, Seconds at) {
  asked_.push((at + think_[request]).value);
}

}  // namespace rigcast
