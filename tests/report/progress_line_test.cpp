// The line that says what happens now, on a terminal and for a process that asks.
#include "report/terminal/progress_line.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "report/terminal/text_style.hpp"
#include "tests/catch.hpp"

using namespace rigcast;

namespace {

// Standard error is a terminal of so many columns, while this lives.
class ErrorTerminal {
 public:
  explicit ErrorTerminal(int columns)
      : master_(::posix_openpt(O_RDWR | O_NOCTTY)), before_(::dup(STDERR_FILENO)) {
    REQUIRE(::grantpt(master_) == 0);
    REQUIRE(::unlockpt(master_) == 0);
    const int end = ::open(::ptsname(master_), O_RDWR | O_NOCTTY);
    winsize size{};
    size.ws_col = static_cast<unsigned short>(columns);
    REQUIRE(::ioctl(end, TIOCSWINSZ, &size) == 0);
    ::dup2(end, STDERR_FILENO);
    ::close(end);
  }
  ~ErrorTerminal() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
    ::close(master_);
  }
  ErrorTerminal(const ErrorTerminal&) = delete;
  ErrorTerminal& operator=(const ErrorTerminal&) = delete;

  std::string text() const {
    std::string out;
    char part[4096];
    for (pollfd one{master_, POLLIN, 0}; ::poll(&one, 1, 100) > 0;) {
      const ssize_t got = ::read(master_, part, sizeof part);
      if (got <= 0) break;
      out.append(part, std::size_t(got));
    }
    return out;
  }

 private:
  int master_, before_;
};

}  // namespace

TEST_CASE("Progress is cut to the terminal, and obeys nothing that is in it", "[progress]") {
  const std::string begin = "\r\033[K";
  for (const int columns : {20, 60, 200}) {
    const ErrorTerminal terminal(columns);
    show_progress("3 of 7 rigs: \033[31m" + std::string(300, 'x'));
    const std::string text = terminal.text();
    REQUIRE(text.rfind(begin, 0) == 0);
    const std::string shown = text.substr(begin.size());
    CHECK(text_width(shown) == std::size_t(columns - 1));
    CHECK(shown.find('\033') == std::string::npos);
    CHECK(shown.find("…") != std::string::npos);
  }
}

TEST_CASE("A listener gets progress in place of the terminal", "[progress]") {
  const ErrorTerminal terminal(80);
  std::vector<std::string> texts;
  std::vector<double> shares;
  watch_progress([&](const Progress& progress) {
    texts.emplace_back(progress.text);
    shares.push_back(progress.share.value_or(-1));
  });
  {
    ProgressLine line;
    line.show("too soon");
    line.done({"one of two", 0.5});
    line.done({"two of two", 1.0});
    show_progress("by itself");
  }
  watch_progress({});
  CHECK(texts == std::vector<std::string>{"one of two", "two of two", "by itself"});
  CHECK(shares == std::vector<double>{0.5, 1.0, -1});
  CHECK(terminal.text().empty());
}
