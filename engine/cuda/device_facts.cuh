#pragma once
// What kernels and their launches ask about the GPU that they run on.

#include <optional>
#include <string>

namespace rigcast::engine {

struct DeviceFacts {
  int capability = 0;  // of the card: 86 is compute capability 8.6
  /// The capability that the code which runs there was compiled for: 75 on a card of 8.6 where the
  /// program holds PTX for 7.5 alone. What code can do follows from this, never from the card.
  int compiled_for = 0;
  int multiprocessors = 0;
  int block_shared_bytes = 0;           // shared memory that one block can ask for
  int multiprocessor_shared_bytes = 0;  // that the blocks of a multiprocessor have together
  bool integrated = false;              // the card's memory is the host's
};

/// Of the GPU that is current for this thread; asked once for each GPU. For use by several threads.
/// Throws MachineError where no code in this program fits the GPU, CudaFailure.
const DeviceFacts& device_facts();

/// Why kernels of this program cannot run on the GPU, in one line with what to do; nullopt where
/// they can.
std::optional<std::string> refuse_gpu(int device);

}  // namespace rigcast::engine
