#pragma once
// Errors of page-locked memory that the system or the driver refuses, with its purpose.

#include <cuda_runtime.h>

#include <cstddef>
#include <string>

#include "core/base/error.hpp"
#include "core/text/unit_text.hpp"

namespace rigcast::engine {

inline std::string pinned_failure_text(std::size_t bytes, const char* what, const char* why) {
  return "pinned memory: " + text_gib(Bytes{double(bytes)}) + " asked for the " + what +
         ", refused: " + why;
}

/// Checks the result of an allocation or a registration of `bytes`. Throws ShortOfMemory if memory
/// was exhausted, MachineError for any other failure.
inline void check_pinned(cudaError_t code, std::size_t bytes, const char* what) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // clears the error, so that the next call does not report it again
  const std::string text = pinned_failure_text(bytes, what, cudaGetErrorString(code));
  if (code == cudaErrorMemoryAllocation) throw ShortOfMemory(text);
  throw MachineError(text);
}

}  // namespace rigcast::engine
