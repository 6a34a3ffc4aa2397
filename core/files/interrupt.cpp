#include "core/files/interrupt.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>

#include "core/files/temporary_file.hpp"

namespace rigcast {
namespace {

constexpr unsigned kGracePeriod = 30;  // seconds, of what does not look for interrupts

constinit std::atomic<bool> stop{false};  // one of these two
volatile std::sig_atomic_t noted = 0, over = 0;

void note(int signal) {
  if (noted == 0) {
    noted = 1;
    stop = true;
    return;
  }
  remove_temporary_files();
  std::signal(signal, SIG_DFL);
  std::raise(signal);  // it comes when this handler has returned
}

void end_in_time(int) {
  if (over == 0) {
    over = 1;
    stop = true;
    ::alarm(kGracePeriod);
    return;
  }
  constexpr char kText[] = "\nrigcast: no answer within the time limit\n";
  static_cast<void>(!::write(STDERR_FILENO, kText, sizeof kText - 1));
  remove_temporary_files();
  ::_exit(3);
}

}  // namespace

// Signals that were ignored at the start, by nohup or for a background job, stay ignored.
OnInterrupt::OnInterrupt() {
  struct sigaction noting {};
  noting.sa_handler = note;
  noting.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &noting, nullptr);
  }
}

// The second interrupt may still come.
OnInterrupt::~OnInterrupt() {
  for (std::size_t i = 0; i < kSignals.size() && noted == 0; ++i)
    ::sigaction(kSignals[i], &before_[i], nullptr);
}

TimeLimit::TimeLimit(int seconds) {
  std::signal(SIGALRM, end_in_time);
  ::alarm(unsigned(seconds));
}

TimeLimit::~TimeLimit() {
  ::alarm(0);
  std::signal(SIGALRM, SIG_DFL);
  over = 0;
  stop = false;
  if (noted != 0) stop = true;  // also one that came in between
}

bool TimeLimit::is_over() const { return over != 0; }

bool interrupted() { return stop; }

StopFlag stop_flag() { return StopFlag(stop); }

}  // namespace rigcast
