#pragma once
// Information that NVIDIA's driver has on a GPU without a context. Its library comes with the
// driver; a container may lack it.

#include <optional>
#include <string>

#include "core/base/units.hpp"
#include "engine/cuda/shared_library.hpp"
#include "probe/gpu_link.hpp"

namespace rigcast::probe {

class Nvml {
 public:
  Nvml();
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  struct Memory {
    Bytes total;
    Bytes used;  // used by all programs and by the driver itself
  };
  /// nullopt: the library is missing, or has no answer.
  std::optional<Memory> memory(const std::string& bus_id) const;
  GpuLink link(const std::string& bus_id) const;

 private:
  void* device(const std::string& bus_id) const;

  engine::SharedLibrary library_;
  bool ready_ = false;
};

}  // namespace rigcast::probe
