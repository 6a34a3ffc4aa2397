#pragma once
// Runs the program of tests/peers/llama_bench over llama.cpp's libraries.

#include <sys/wait.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/folder.hpp"
#include "tests/paths.hpp"
#include "tests/peers/llama_cpp.hpp"

namespace rigcast::bench_test {

using test::Folder;
using test::llama_cpp_folder;

struct Outcome {
  int exit = -1;
  std::string out, error;
};

/// By a shell; `before` is a part of its line, such as a limit.
inline Outcome run(const Folder& folder, const std::string& flags, const std::string& before = "",
                   const std::string& program = LLAMA_BENCH_PROGRAM) {
  const std::string line = before + "LLAMA_CPP_FOLDER='" + llama_cpp_folder().value_or("/none") +
                           "' " + program + " " + flags + " >" + (folder / "out") + " 2>" +
                           (folder / "error");
  const int status = std::system(line.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128, test::read(folder / "out"),
          test::read(folder / "error")};
}

/// A small model with random weights.
inline std::string make_model(const Folder& folder,
                              const std::string& flags = "smollm2-135m --layers 2") {
  const std::string file = folder / "model.gguf";
  const std::string line =
      test::program() + " synth " + flags + " -o " + file + " >" + (folder / "synth") + " 2>&1";
  REQUIRE(std::system(line.c_str()) == 0);
  return file;
}

inline std::vector<nlohmann::json> lines(const std::string& text) {
  std::vector<nlohmann::json> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(nlohmann::json::parse(line));
  return out;
}

}  // namespace rigcast::bench_test
