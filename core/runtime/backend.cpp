#include "core/runtime/backend.hpp"

namespace rigcast {

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

}  // namespace rigcast
