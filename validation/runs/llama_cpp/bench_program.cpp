#include "validation/runs/llama_cpp/bench_program.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <regex>
#include <sstream>

namespace rigcast::validation {
namespace {

namespace fs = std::filesystem;

// Whether it wrote that memory did not suffice, as llama.cpp, CUDA and C++ say it.
bool tells_of_memory(const std::string& text) {
  constexpr const char* kTexts[] = {
      "out of memory", "failed to allocate", "unable to allocate", "cannot allocate",
      "bad_alloc",     "cudaMalloc failed",  "insufficient memory"};
  std::string lower = text;
  for (char& c : lower) c = char(std::tolower(static_cast<unsigned char>(c)));
  return std::ranges::any_of(kTexts, [&](const char* t) {
    std::string wanted = t;
    for (char& c : wanted) c = char(std::tolower(static_cast<unsigned char>(c)));
    return lower.find(wanted) != std::string::npos;
  });
}

}  // namespace

bool is_program(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0;
}

std::optional<std::string> program_on_path(const std::string& name) {
  const char* all = std::getenv("PATH");
  std::istringstream folders(all ? all : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const fs::path file = fs::path(folder) / name; is_program(file))
      return fs::absolute(file).string();
  return std::nullopt;
}

std::set<std::string> flags_in(const std::string& help) {
  static const std::regex kFlag("(?:^|[\\s,])(--?[A-Za-z][A-Za-z0-9-]*)(?=[\\s,]|$)");
  constexpr std::size_t kLineBytes = 1000;  // longer ones are no help
  std::set<std::string> out;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    const auto begin = line.find_first_not_of(' ');
    if (begin == std::string::npos || line[begin] != '-' || line.size() > kLineBytes) continue;
    const std::string flags = line.substr(0, line.find('('));
    for (std::sregex_iterator it(flags.begin(), flags.end(), kFlag), end; it != end; ++it)
      out.insert((*it)[1]);
  }
  return out;
}

std::string last_lines(const std::string& text) {
  constexpr std::size_t kShown = 400;
  std::string out = text.substr(text.size() - std::min(text.size(), kShown));
  if (text.size() > kShown)
    out.erase(0, out.find('\n') == std::string::npos ? 0 : out.find('\n') + 1);
  while (!out.empty() && (out.back() == '\n' || out.back() == ' ')) out.pop_back();
  for (char& c : out)
    if (static_cast<unsigned char>(c) < ' ' && c != '\n') c = ' ';
  return out;
}

std::string end_text(const ProcessOutput& p, const std::string& name, Seconds limit) {
  switch (p.end) {
    case ProcessEnd::kTimeLimit:
      return fmt::format("{} was stopped after {:g} s", name, limit.value);
    case ProcessEnd::kOutputLimit: return name + " wrote more than results: it was stopped";
    case ProcessEnd::kSignal:
      return fmt::format("{} was ended by signal {} ({}){}", name, p.code, ::strsignal(p.code),
                         p.code == SIGKILL ? ": is there too little memory?" : "");
    case ProcessEnd::kExit: break;
  }
  return p.code == 0 ? "" : fmt::format("{} ended with exit code {}", name, p.code);
}

Error process_error(const ProcessOutput& p, std::string message) {
  const std::string told = last_lines(p.err);
  const bool is_memory = tells_of_memory(p.err);
  if (!told.empty()) message += ": " + told;
  return Error{is_memory ? ErrorKind::kDoesNotFit : ErrorKind::kMachine, message,
               is_memory || p.end == ProcessEnd::kTimeLimit ? "" : "run it with -v for its log"};
}

}  // namespace rigcast::validation
