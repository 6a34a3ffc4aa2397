#pragma once
// Properties of the GPU that kernels and their launches need.

#include <optional>
#include <string>

namespace rigcast::engine {

struct DeviceFacts {
  int capability = 0;  // compute capability of the card: 86 is 8.6
  /// The capability for which the code that runs there was compiled: 75 on a card of 8.6 if the
  /// program holds PTX for 7.5 alone. What code can do follows from this, never from the card.
  int compiled_for = 0;
  int multiprocessors = 0;
  int block_shared_bytes = 0;           // shared memory that one block can ask for
  int multiprocessor_shared_bytes = 0;  // shared memory of all blocks of a multiprocessor
  bool integrated = false;              // the card's memory is the host's
};

/// The properties of this thread's current GPU; queried once per GPU. Thread-safe. Throws
/// MachineError if no code in this program fits the GPU, CudaFailure.
const DeviceFacts& device_facts();

/// Why kernels of this program cannot run on the GPU, in one line with what to do; nullopt where
/// they can.
std::optional<std::string> gpu_unsupported_reason(int device);

}  // namespace rigcast::engine
