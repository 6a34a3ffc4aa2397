#pragma once
// Results as llama-bench prints them.

#include <cstdio>

#include "tests/peers/llama_bench/bench.hpp"

namespace llama_bench {

/// Prints results to a file, each when it is there.
class Output {
 public:
  Output(Format format, std::FILE* file) : format_(format), file_(file) {}

  /// Keys are llama-bench's, and one more, "library": what the library itself reports.
  void print(const TestResult& result, const Library& library);
  /// Closes the list; nothing where nothing was printed.
  void end();

 private:
  Format format_;
  std::FILE* file_;
  bool has_printed_ = false;
};

}  // namespace llama_bench
