#include "tests/peers/llama_bench/buffer_sizes.hpp"

#include <algorithm>
#include <cmath>
#include <regex>

namespace llama_bench {

void BufferSizes::add_line(const std::string& line) {
  static const std::regex kPattern(
      R"(:\s+(\S+)\s+(model|KV|RS|compute|output) buffer size\s*=\s*([0-9.]+) MiB)");
  if (line.find(" buffer size") == std::string::npos) return;  // most lines, some of them long
  std::smatch m;
  if (!std::regex_search(line, m, kPattern)) return;
  const std::string name = m[1], kind = m[2];
  const auto bytes = std::int64_t(std::llround(std::stod(m[3]) * (1 << 20)));
  const auto same = std::ranges::find_if(
      buffers_, [&](const Buffer& b) { return b.name == name && b.kind == kind; });
  if (same == buffers_.end())
    buffers_.push_back({name, kind, bytes});
  else
    same->bytes = kind == "compute" ? bytes : same->bytes + bytes;
}

void BufferSizes::forget_context() {
  std::erase_if(buffers_, [](const Buffer& b) { return b.kind != "model"; });
}

}  // namespace llama_bench
