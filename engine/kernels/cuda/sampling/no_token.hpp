#pragma once

#include <cstdint>

namespace rigcast::engine::cuda {

/// What is chosen where a logit is no number.
inline constexpr std::int32_t kNoToken = -1;

}  // namespace rigcast::engine::cuda
