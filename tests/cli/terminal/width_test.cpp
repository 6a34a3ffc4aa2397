// Tables and help on terminals of several widths.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "report/terminal/text_style.hpp"
#include "tests/cli/program.hpp"

using namespace rigcast::cli_test;

namespace {

using Words = std::vector<std::string>;

// A terminal of so many columns; what is written to it is read by a thread.
class Terminal {
 public:
  explicit Terminal(int columns) : master_(posix_openpt(O_RDWR | O_NOCTTY)) {
    check_system(master_ >= 0 && grantpt(master_) == 0 && unlockpt(master_) == 0, "no terminal");
    name_ = ptsname(master_);
    keeper_ = open(name_.c_str(), O_RDWR | O_NOCTTY);  // or its end would be that of the first run
    winsize size{};
    size.ws_col = static_cast<unsigned short>(columns);
    check_system(keeper_ >= 0 && ioctl(keeper_, TIOCSWINSZ, &size) == 0, "no columns");
    reader_ = std::thread([this] {
      char some[4096];
      for (ssize_t n = 0; (n = ::read(master_, some, sizeof some)) > 0;)
        text_.append(some, std::size_t(n));
    });
  }
  const std::string& name() const { return name_; }
  std::string text() {
    close(keeper_);
    reader_.join();
    close(master_);
    return text_;
  }

 private:
  int master_, keeper_ = -1;
  std::string name_, text_;
  std::thread reader_;
};

std::string on_terminal(const Words& words, int columns) {
  Terminal terminal(columns);
  How how;
  how.standard_output = terminal.name();
  const Outcome o = run(words, how);
  const std::string text = terminal.text();
  INFO(o.error);
  CHECK(o.exit == 0);
  return text;
}

// A command and an address are left as they can be copied.
bool is_to_copy(const std::string& line) {
  return contains(line, " rigcast ") || contains(line, " llama-server ") || contains(line, "://") ||
         contains(line, "/hwprofiles/");
}

std::size_t widest(const std::string& text) {
  std::size_t out = 0;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!is_to_copy(line)) out = std::max(out, rigcast::text_width(line));
  }
  return out;
}

}  // namespace

TEST_CASE("Tables fit the terminal", "[cli][width]") {
  const Words model{"--gpu", "rtx-3060-12gb", "--model", "llama-3.1-8b"};
  const auto with = [&](Words words, const Words& more) {
    words.insert(words.end(), model.begin(), model.end());
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const auto check = [](const std::vector<Words>& verbs, const std::vector<int>& widths) {
    for (const Words& words : verbs)
      for (const int columns : widths) {
        const std::string text = on_terminal(words, columns);
        INFO(words[0] << " " << words.back() << " on " << columns << " columns\n" << text);
        CHECK(widest(text) <= std::size_t(columns));
        CHECK(widest(text) > 40);
      }
  };
  // What takes longer, at both ends alone.
  check({with({"simulate"}, {"--users", "2", "--load", "chat", "--slo", "ttft=2s@95"}),
         with({"plan"}, {}),
         with({"capacity"}, {"--load", "chat", "--slo", "ttft=2s@95", "--no-advice"}),
         {"recommend", "--gpu", "rtx-3060-12gb"}},
        {60, 200});
  const std::vector<Words> verbs{
      with({"simulate"}, {}),
      {"compare", "--gpus", "rtx-4090,rtx-3090", "--model", "llama-3.1-8b"},
      {"list", "rigs"},
      {"list", "gpus"},
      {"list", "models"},
      {"explain", "--gpu", "rtx-3090", "--model", "llama-3-8b", "--quant", "Q4_K_M"},
      {"show", "rtx-4090"},
      {"show", "llama.cpp"},
      {"show", "qwen3-30b-a3b"},
      {"inspect", "qwen3-30b-a3b"},
      {"inspect", "qwen3-30b-a3b", "--tensors"},
      {"--help"},
      {"sweep", "--help"},
      {"simulate", "--help"}};
  check(verbs, {60, 80, 120, 200});
}

TEST_CASE("What is no terminal gets the same text whatever the terminal", "[cli][width]") {
  const std::string whole = run({"list", "rigs"}).out;
  CHECK(widest(whole) > 100);
  CHECK(run({"list", "rigs"}, {.environment = {{"COLUMNS", "60"}}}).out == whole);
  CHECK(widest(on_terminal({"list", "rigs"}, 200)) == widest(whole));
}
