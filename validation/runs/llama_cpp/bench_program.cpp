#include "validation/runs/llama_cpp/bench_program.hpp"

#include <regex>
#include <sstream>

namespace rigcast::validation {

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

Error process_error(const ProcessOutput& p, std::string message) {
  const std::string told = last_lines(p.err);
  const bool is_memory = tells_of_memory(p.err);
  if (!told.empty()) message += ": " + told;
  return Error{is_memory ? ErrorKind::kDoesNotFit : ErrorKind::kMachine, message,
               is_memory || p.end == ProcessEnd::kTimeLimit ? "" : "run it with -v for its log"};
}

}  // namespace rigcast::validation
