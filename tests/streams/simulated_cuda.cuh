#pragma once
// The calls of the CUDA runtime that code of the host makes, simulated: queued work runs when the
// host waits, in a random order that streams and events allow. GPU memory is the host's.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace rigcast::simulated_cuda {

/// What a piece of work reads and writes, told while it runs.
class Accesses {
 public:
  virtual ~Accesses() = default;
  virtual void read(const void* from, std::size_t bytes) = 0;
  virtual void write(const void* to, std::size_t bytes) = 0;

  template <class T>
  T load(const T* from) {
    read(from, sizeof(T));
    return *from;
  }
  template <class T>
  void store(T* to, T value) {
    write(to, sizeof(T));
    *to = value;
  }
};

/// Forgets all work, accesses and races. No stream or event may be in use. `seed` determines the
/// order of all work that follows, and an even one that kernels read registered memory of the host.
void restart(std::uint64_t seed);

/// Queues a kernel: it runs alone, and after all work before it on the stream.
void launch(cudaStream_t stream, std::function<void(Accesses&)> kernel);

/// Two accesses to the same bytes, one of which writes, that neither streams nor events nor waits
/// of the host order, whatever order they had in this run. Each names both works.
const std::vector<std::string>& races();

}  // namespace rigcast::simulated_cuda
