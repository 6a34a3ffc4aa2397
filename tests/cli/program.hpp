#pragma once
// Runs the real program and keeps what it said.

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/catch.hpp"

namespace rigcast::cli_test {

namespace fs = std::filesystem;

/// A folder of its own that goes away with it.
class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "rigcast-cli-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()));
    path_ = pattern;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  const fs::path& path() const { return path_; }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return *this / name;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(path_))
      out.push_back(entry.path().filename().string());
    return out;
  }

 private:
  fs::path path_;
};

inline std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

struct Outcome {
  int exit = -1;  // 128 + n: ended by signal n
  std::string out;
  std::string error;
};

struct How {
  std::map<std::string, std::optional<std::string>> environment{};  // nullopt: unset
  std::string folder{};                                             // to run in
  std::string standard_output{};                                    // a file to write to
};

inline Outcome run(const std::vector<std::string>& arguments, const How& how = {}) {
  const Folder place;
  const std::string out = how.standard_output.empty() ? place / "out" : how.standard_output;
  const std::string error = place / "error";
  std::vector<std::string> words = {RIGCAST_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const int out_file = open(out.c_str(), O_WRONLY | O_CREAT, 0600);
    const int error_file = open(error.c_str(), O_WRONLY | O_CREAT, 0600);
    if (out_file < 0 || error_file < 0 || dup2(out_file, 1) < 0 || dup2(error_file, 2) < 0)
      _exit(126);
    for (const auto& [name, value] : how.environment) {
      if (value)
        setenv(name.c_str(), value->c_str(), 1);
      else
        unsetenv(name.c_str());
    }
    if (!how.folder.empty() && chdir(how.folder.c_str()) != 0) _exit(126);
    execv(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  Outcome outcome;
  outcome.exit = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (how.standard_output.empty()) outcome.out = read(out);
  outcome.error = read(error);
  return outcome;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A forecast that is quick to make.
inline std::vector<std::string> quick(const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"simulate",     "--gpu",     "rtx-3060-12gb", "--model",
                                    "llama-3.2-1b", "--context", "2048",          "--no-advice"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace rigcast::cli_test
