#include "engine/cuda/environment.hpp"

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace rigcast::engine {

void ignore_launch_blocking() {
  constexpr const char* kName = "CUDA_LAUNCH_BLOCKING";
  const char* const value = std::getenv(kName);
  if (!value) return;
  if (std::string_view(value) != "0")
    std::fprintf(stderr, "rigcast: %s is ignored: host and GPU would wait for each other\n", kName);
  ::unsetenv(kName);
}

}  // namespace rigcast::engine
