#pragma once
// Memory that the system or the driver will not lock: said with what it was for.

#include <cuda_runtime.h>

#include <cstddef>
#include <string>

#include "core/base/error.hpp"
#include "core/text/unit_text.hpp"

namespace rigcast::engine {

inline std::string refused_pinned_text(std::size_t bytes, const char* what, const char* why) {
  return "pinned memory: " + text_gib(Bytes{double(bytes)}) + " asked for the " + what +
         ", refused: " + why;
}

/// Of an allocation or a registration of `bytes`. Throws ShortOfMemory where there was no more,
/// MachineError where it failed for another reason.
inline void check_pinned(cudaError_t code, std::size_t bytes, const char* what) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // what was said is not said again by the next call
  const std::string text = refused_pinned_text(bytes, what, cudaGetErrorString(code));
  if (code == cudaErrorMemoryAllocation) throw ShortOfMemory(text);
  throw MachineError(text);
}

}  // namespace rigcast::engine
