#include "validation/runs/pressure/other_program.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <thread>

#include "core/files/interrupt.hpp"

namespace rigcast::validation {
namespace {

constexpr std::chrono::milliseconds kLook{1};

Error failed(const char* what) {
  return {ErrorKind::kMachine, fmt::format("{}: {}", what, std::strerror(errno)), {}, {}};
}

void pause_a_moment() {
  const ::timespec moment{0, 1'000'000};
  ::nanosleep(&moment, nullptr);
}

}  // namespace

Result<std::unique_ptr<OtherProgram>> OtherProgram::begin(const std::function<bool()>& prepare,
                                                          const Work& work) {
  std::unique_ptr<OtherProgram> out(new OtherProgram);
  void* const memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return failed("no memory to share with another program");
  out->shared_ = new (memory) Shared;
  const ::pid_t parent = ::getpid();
  out->child_ = ::fork();
  if (out->child_ < 0) return failed("no other program can be started");
  if (out->child_ == 0) {
#ifdef __linux__
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (::getppid() == parent) out->run(prepare, work);
    ::_exit(1);
  }
  if (!out->wait_until_ready())
    return Error{ErrorKind::kMachine,
                 "a program beside the run ended at once",
                 "it needs memory of its own: 256 MiB for each neighbour",
                 {}};
  return out;
}

OtherProgram::~OtherProgram() {
  if (child_ > 0) {
    ::kill(child_, SIGKILL);
    while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) continue;
  }
  if (shared_) ::munmap(shared_, sizeof(Shared));
}

void OtherProgram::run(const std::function<bool()>& prepare, const Work& work) {
  if (!prepare()) return;
  shared_->ready = true;
  while (!shared_->go) pause_a_moment();
  work(shared_->bytes);
}

bool OtherProgram::wait_until_ready() {
  while (!shared_->ready) {
    if (::waitpid(child_, nullptr, WNOHANG) != 0) {
      child_ = -1;  // its number may be another's from here on
      return false;
    }
    if (interrupted()) return false;
    std::this_thread::sleep_for(kLook);
  }
  return true;
}

void OtherProgram::start() {
  started_ = std::chrono::steady_clock::now();
  shared_->go = true;
}

BytesPerSecond OtherProgram::rate() const {
  const std::chrono::duration<double> since = std::chrono::steady_clock::now() - started_;
  return BytesPerSecond{double(shared_->bytes) / since.count()};
}

}  // namespace rigcast::validation
