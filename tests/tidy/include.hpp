#pragma once
// The #include of a line of code.

#include <optional>
#include <sstream>
#include <string>

namespace rigcast::tidy {

struct Include {
  std::string path;
  bool quoted = false;
};

inline std::optional<Include> include_of(const std::string& line) {
  std::istringstream words(line);
  std::string hash, target;
  words >> hash;
  if (hash == "#") words >> target, hash += target;
  if (hash != "#include" || !(words >> target) || target.size() < 3) return std::nullopt;
  return Include{target.substr(1, target.size() - 2), target.front() == '"'};
}

}  // namespace rigcast::tidy
