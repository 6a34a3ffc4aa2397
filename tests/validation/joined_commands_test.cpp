// Several tests in one command of llama-bench.

#include "validation/runs/llama_cpp/joined_commands.hpp"

#include <string>

#include "planner/commands.hpp"
#include "tests/catch.hpp"

using namespace rigcast;
using planner::Words;
using validation::joined;

namespace {

Words words(const std::string& text) {
  Words out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    out.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

std::string of(const std::vector<std::string>& commands) {
  std::vector<Words> all;
  for (const std::string& command : commands) all.push_back(words(command));
  const auto one = joined(all);
  return one ? planner::shell_text(*one) : "none";
}

}  // namespace

TEST_CASE("Commands that differ in one flag are one with a list", "[llama-bench]") {
  CHECK(of({"bench -m x -p 512 -n 0"}) == "bench -m x -p 512 -n 0");
  CHECK(of({"bench -m x -p 16 -n 0", "bench -m x -p 512 -n 0", "bench -m x -p 64 -n 0"}) ==
        "bench -m x -n 0 -p 16,512,64");
  // A flag that is left out has llama-bench's own value.
  CHECK(of({"bench -p 512 -n 0", "bench -p 512 -n 0 -d 4096"}) == "bench -d 0,4096 -n 0 -p 512");
  CHECK(of({"bench -p 512 -n 0 -ub 128", "bench -p 512 -n 0"}) == "bench -n 0 -p 512 -ub 128,512");
}

TEST_CASE("Commands that differ in more are not joined", "[llama-bench]") {
  CHECK(of({"bench -p 16 -d 0", "bench -p 512 -d 64"}) == "none");
  CHECK(of({"bench -p 16 -t 4", "bench -p 16"}) == "none");  // threads by default: as many as cores
  CHECK(of({"bench -m x -p 16", "bench -m y -p 32"}) == "none");
}

TEST_CASE("Equal commands are a test each, with the fewest repetitions of any", "[llama-bench]") {
  CHECK(of({"bench -p 16 -n 0", "bench -p 16 -n 0"}) == "bench -n 0 -p 16,16");
  CHECK(of({"bench -p 0 -n 8", "bench -p 0 -n 8"}) == "bench -n 8,8 -p 0");
  CHECK(of({"bench -p 16 -r 3", "bench -p 32 -r 1", "bench -p 64"}) == "bench -p 16,32,64 -r 1");
}
