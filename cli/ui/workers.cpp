#include "cli/ui/workers.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "core/files/file_io.hpp"

namespace rigcast::cli {
namespace {

constexpr rlim_t kMaxMemory = 1 << 30;  // bytes of address space
constexpr rlim_t kMaxCpu_s = 120;
constexpr std::chrono::milliseconds kRetryFork{100};

// Ends of a pair of sockets, of which others that are started later get none.
std::optional<std::pair<int, int>> socket_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return std::nullopt;
  return std::pair(ends[0], ends[1]);
}

// One byte that carries a descriptor to another process.
struct DescriptorMessage {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};

  DescriptorMessage() {
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
  }
};

bool send_descriptor(int control, int descriptor) {
  DescriptorMessage m;
  cmsghdr* head = CMSG_FIRSTHDR(&m.message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
  return ::sendmsg(control, &m.message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

// nullopt: the other side is gone.
std::optional<int> receive_descriptor(int control) {
  for (;;) {
    DescriptorMessage m;
    const ssize_t got = ::recvmsg(control, &m.message, MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    const cmsghdr* head = got == 1 ? CMSG_FIRSTHDR(&m.message) : nullptr;
    if (!head || head->cmsg_type != SCM_RIGHTS) return std::nullopt;
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(head), sizeof descriptor);
    return descriptor;
  }
}

// A question on its way: its length, and its words with a zero behind each.
std::string wire_text(const Words& question) {
  std::string words;
  for (const std::string& word : question) words.append(word).push_back('\0');
  const auto length = std::uint32_t(words.size());
  std::string out(sizeof length, '\0');
  std::memcpy(out.data(), &length, sizeof length);
  return out + words;
}

bool read_whole(int socket, char* to, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = ::read(socket, to, bytes);
    if (got <= 0) return false;
    to += got;
    bytes -= std::size_t(got);
  }
  return true;
}

std::optional<Words> read_question(int socket) {
  std::uint32_t length = 0;
  if (!read_whole(socket, reinterpret_cast<char*>(&length), sizeof length)) return std::nullopt;
  std::string text(length, '\0');
  if (!read_whole(socket, text.data(), length)) return std::nullopt;
  Words words;
  for (std::size_t at = 0; at < text.size(); at += words.back().size() + 1)
    words.emplace_back(text.c_str() + at);
  return words;
}

void limit(int resource, rlim_t most) {
  const rlimit both{most, most};
  ::setrlimit(__rlimit_resource(resource), &both);
}

// What is printed goes to `output`; nothing is read, and no complaint is heard.
void set_standard_files(int output) {
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(nothing, STDERR_FILENO);
  ::close(nothing);
}

// Ends this process once nobody waits for its answer.
void end_with(int socket) {
  std::thread([socket] {
    char ignored = 0;
    while (::read(socket, &ignored, 1) > 0) {
    }
    ::_exit(kLastExitCode);
  }).detach();
}

[[noreturn]] void work(const WorkerTask& task, int socket) {
  std::signal(SIGCHLD, SIG_DFL);
  const auto question = read_question(socket);
  if (!question) ::_exit(kLastExitCode);
  end_with(socket);
  set_standard_files(socket);
#ifndef __SANITIZE_ADDRESS__  // whose shadow of memory is larger
  limit(RLIMIT_AS, kMaxMemory);
#endif
  limit(RLIMIT_CPU, kMaxCpu_s);
  limit(RLIMIT_CORE, 0);
  char code = kLastExitCode;
  try {
    code = char(task.answer(*question));
  } catch (const std::exception&) {
    // An answer without JSON says that the machine failed.
  }
  std::fflush(stdout);
  write_all(socket, std::as_bytes(std::span(&code, 1)));
  ::_exit(0);
}

// What the newest worker says to the process that forked it.
constexpr char kHasQuestion = 'q', kServerEnded = 'e';

[[noreturn]] void await_question(const WorkerTask& task, int control, int to_parent) {
  const auto socket = receive_descriptor(control);
  const char said = socket ? kHasQuestion : kServerEnded;
  write_all(to_parent, std::as_bytes(std::span(&said, 1)));
  ::close(to_parent);
  ::close(control);
  if (!socket) ::_exit(0);
  work(task, *socket);
}

// The process from which workers are forked, each before its question comes. It ends with the
// server's.
[[noreturn]] void fork_workers(const WorkerTask& task, int control) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) std::signal(signal, SIG_IGN);
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  task.prepare();
  for (char said = kHasQuestion; said != kServerEnded;) {
    const auto ends = socket_pair();
    const pid_t worker = ends ? ::fork() : -1;
    if (worker < 0) {  // there are too many processes: the server's questions wait
      std::this_thread::sleep_for(kRetryFork);
      continue;
    }
    if (worker == 0) {
      ::close(ends->first);
      await_question(task, control, ends->second);
    }
    ::close(ends->second);
    if (!read_whole(ends->first, &said, 1)) said = kHasQuestion;  // it was killed: the next one
    ::close(ends->first);
  }
  ::_exit(0);
}

}  // namespace

Result<Workers> Workers::start(const WorkerTask& task) {
  const auto ends = socket_pair();
  std::fflush(nullptr);  // or the process would print it, too
  const pid_t process = ends ? ::fork() : -1;
  if (process < 0)
    return Error{ErrorKind::kMachine,
                 fmt::format("cannot start a process: {}", std::strerror(errno)),
                 "",
                 {}};
  if (process == 0) {
    ::close(ends->first);
    try {
      fork_workers(task, ends->second);
    } catch (const std::exception&) {
      ::_exit(kLastExitCode);
    }
  }
  ::close(ends->second);
  return Workers(ends->first, process);
}

Workers::Workers(Workers&& other) noexcept
    : control_(std::exchange(other.control_, -1)), process_(std::exchange(other.process_, -1)) {}

Workers::~Workers() {
  if (process_ < 0) return;
  ::close(control_);
  ::waitpid(process_, nullptr, 0);
}

int Workers::ask(const Words& question) const {
  const auto ends = socket_pair();
  if (!ends) return -1;
  const std::string text = wire_text(question);
  const bool asked = ::send(ends->first, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
                         ssize_t(text.size()) &&
                     send_descriptor(control_, ends->second);
  ::close(ends->second);
  if (asked) return ends->first;
  ::close(ends->first);
  return -1;
}

}  // namespace rigcast::cli
