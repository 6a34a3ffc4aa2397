#pragma once
// Layouts into which a runtime repacks weights for the CPU.

#include <cstdint>

#include "perfmodel/context/step_context.hpp"

namespace rigcast {

/// A matrix as far as its layout depends on it.
struct CpuMatrix {
  QuantFormat format{};
  bool of_experts = false;
  std::int64_t rows = 0;  // 0: as many as any layout wants
};

/// The layout of a matrix on the CPU; nullptr: it is multiplied as it is in the file, as it always
/// is beside a GPU.
const RuntimeProfile::Repacking* cpu_layout(const StepContext& context, const CpuMatrix& matrix);

}  // namespace rigcast
