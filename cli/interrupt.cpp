#include "cli/interrupt.hpp"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>

namespace rigcast::cli {
namespace {

volatile std::sig_atomic_t noted = 0;

using Clock = std::chrono::steady_clock;
constexpr unsigned kPatience = 30;  // seconds, of what does not look for interrupts
std::atomic<Clock::duration> limit{Clock::duration::max()};  // since the clock's epoch

void end_program(int) {
  constexpr char kText[] = "\nrigcast: no answer within the time limit\n";
  static_cast<void>(!::write(STDERR_FILENO, kText, sizeof kText - 1));
  ::_exit(3);
}

}  // namespace

OnInterrupt::OnInterrupt()
    : before_(std::signal(SIGINT, [](int) {
        noted = 1;
        std::signal(SIGINT, SIG_DFL);
      })) {}

OnInterrupt::~OnInterrupt() { std::signal(SIGINT, noted ? SIG_DFL : before_); }

TimeLimit::TimeLimit(int seconds) {
  limit = (Clock::now() + std::chrono::seconds(seconds)).time_since_epoch();
  std::signal(SIGALRM, end_program);
  ::alarm(unsigned(seconds) + kPatience);
}

TimeLimit::~TimeLimit() {
  ::alarm(0);
  std::signal(SIGALRM, SIG_DFL);
  limit = Clock::duration::max();
}

bool TimeLimit::is_over() const { return Clock::now().time_since_epoch() > limit.load(); }

bool interrupted() { return noted != 0 || Clock::now().time_since_epoch() > limit.load(); }

}  // namespace rigcast::cli
