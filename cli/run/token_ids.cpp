#include "cli/run/token_ids.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rigcast::cli {

Result<std::vector<std::int32_t>> read_token_ids(std::istream& in, const std::string& file,
                                                 std::int64_t vocabulary) {
  std::vector<std::int32_t> ids;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    std::replace_if(
        line.begin(), line.end(), [](char c) { return c == ',' || c == '\t'; }, ' ');
    for (std::size_t at = 0; (at = line.find_first_not_of(" \r", at)) != std::string::npos;) {
      const std::size_t end = std::min(line.find_first_of(" \r", at), line.size());
      const std::string word = line.substr(at, end - at);
      const bool digits = word.size() < 10 &&
                          std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
      const std::int64_t id = digits ? std::stoll(word) : -1;
      if (id < 0 || id >= vocabulary)
        return bad_input(fmt::format("\"{}\" is no token id", word.substr(0, 40)),
                         fmt::format("ids go from 0 to {}", vocabulary - 1),
                         SourceRef{file, number, int(at) + 1});
      ids.push_back(std::int32_t(id));
      at = end;
    }
  }
  if (ids.empty()) return bad_input("--tokens: the file holds no ids", {}, SourceRef{file});
  return ids;
}

}  // namespace rigcast::cli
