#pragma once
// The GPU interface for which a runtime's kernels are written.

#include <string_view>

namespace rigcast {

/// kCpu: there is no GPU to drive.
enum class Backend { kCpu, kCuda, kRocm, kVulkan, kMetal, kSycl };
inline constexpr int kBackendCount = 6;
std::string_view name(Backend backend);

}  // namespace rigcast
