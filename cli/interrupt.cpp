#include "cli/interrupt.hpp"

#include <csignal>

namespace rigcast::cli {
namespace {

volatile std::sig_atomic_t noted = 0;

}  // namespace

OnInterrupt::OnInterrupt()
    : before_(std::signal(SIGINT, [](int) {
        noted = 1;
        std::signal(SIGINT, SIG_DFL);
      })) {}

OnInterrupt::~OnInterrupt() { std::signal(SIGINT, noted ? SIG_DFL : before_); }

bool interrupted() { return noted != 0; }

}  // namespace rigcast::cli
