#pragma once
// The GPU interface for which a runtime's kernels are written.

#include <string_view>

namespace rigcast {

class TomlTable;
struct GpuPart;
struct Rig;

/// kCpu: there is no GPU to drive.
enum class Backend { kCpu, kCuda, kRocm, kVulkan, kMetal, kSycl };
inline constexpr int kBackendCount = 6;
std::string_view name(Backend backend);

/// The backend of a scenario's table [runtime], or the usual one of the rig's GPUs. One that does
/// not drive them is refused.
Backend read_backend(const TomlTable& runtime, const Rig& rig);

}  // namespace rigcast
