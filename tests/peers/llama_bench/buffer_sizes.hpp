#pragma once
// Memory as llama.cpp itself reports it, in its log.

#include <cstdint>
#include <string>
#include <vector>

namespace llama_bench {

struct Buffer {
  std::string name;  // of the device or kind of memory: "CUDA0", "CUDA_Host", "CPU_Mapped"
  std::string kind;  // "model", "KV", "RS", "compute", "output"
  std::int64_t bytes = 0;
};

/// Collects lines such as "load_tensors: CUDA0 model buffer size = 4096.00 MiB", whose figures have
/// two decimals of a MiB.
class BufferSizes {
 public:
  /// A line of the log. Buffers of one name and kind add up: a file in parts has several, and so
  /// have caches of sliding windows. A compute buffer is reserved anew for larger graphs: its last
  /// size counts.
  void add_line(const std::string& line);
  /// Forgets buffers of contexts: what is not a model's.
  void forget_context();
  void forget_all() { buffers_.clear(); }

  const std::vector<Buffer>& buffers() const { return buffers_; }

 private:
  std::vector<Buffer> buffers_;
};

}  // namespace llama_bench
