#include "core/runtime/backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/hardware/rig.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {
namespace {

bool drives(Backend backend, const GpuPart& gpu, OperatingSystem os) {
  const bool apple = gpu.vendor == "apple";
  switch (backend) {
    case Backend::kCpu: return false;
    case Backend::kCuda: return gpu.vendor == "nvidia";
    case Backend::kRocm: return gpu.vendor == "amd";
    case Backend::kVulkan: return !apple;
    case Backend::kMetal: return apple || os == OperatingSystem::kMacos;
    case Backend::kSycl: return !apple;
  }
  return false;
}

Backend default_backend(const GpuPart& gpu, OperatingSystem os) {
  if (gpu.vendor == "apple" || os == OperatingSystem::kMacos) return Backend::kMetal;
  if (gpu.vendor == "nvidia") return Backend::kCuda;
  if (gpu.vendor == "amd" && os == OperatingSystem::kLinux) return Backend::kRocm;
  return Backend::kVulkan;
}

}  // namespace

std::string_view name(Backend backend) {
  switch (backend) {
    case Backend::kCpu: return "cpu";
    case Backend::kCuda: return "cuda";
    case Backend::kRocm: return "rocm";
    case Backend::kVulkan: return "vulkan";
    case Backend::kMetal: return "metal";
    case Backend::kSycl: return "sycl";
  }
  return "";
}

Backend read_backend(const TomlTable& t, const Rig& rig) {
  const auto wanted = t.choice<std::optional<Backend>>("backend", std::nullopt,
                                                       {{"auto", std::nullopt},
                                                        {"cuda", Backend::kCuda},
                                                        {"rocm", Backend::kRocm},
                                                        {"vulkan", Backend::kVulkan},
                                                        {"metal", Backend::kMetal},
                                                        {"sycl", Backend::kSycl}});
  if (rig.gpus.empty()) return Backend::kCpu;
  const auto refused_by = [&](Backend backend) {
    return std::ranges::find_if(rig.gpus,
                                [&](const GpuPart& gpu) { return !drives(backend, gpu, rig.os); });
  };
  const Backend usual = default_backend(rig.gpus.front(), rig.os);
  // Cards of several vendors have one backend in common.
  if (!wanted) return refused_by(usual) == rig.gpus.end() ? usual : Backend::kVulkan;
  if (const auto gpu = refused_by(*wanted); gpu != rig.gpus.end())
    t.refuse("backend", fmt::format("{} does not drive {}", name(*wanted), gpu->name),
             fmt::format("\"auto\" is {} here", name(default_backend(*gpu, rig.os))));
  return *wanted;
}

}  // namespace rigcast
