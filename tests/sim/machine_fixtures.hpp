#pragma once
// A machine with round rates, so that expected times can be worked out by hand.

#include "core/hardware/rig.hpp"

namespace rigcast::fixtures {

struct Rates {
  BytesPerSecond ssd{5e9};
  BytesPerSecond ram{80e9};
  BytesPerSecond h2d{25e9};
  BytesPerSecond d2h{20e9};
  BytesPerSecond pageable{10e9};
  BytesPerSecond vram{400e9};
  int gpus = 1;
};

inline Rig machine(const Rates& rates = {}) {
  Rig rig;
  rig.ssd.sequential_read.value = rates.ssd;
  rig.ram.bandwidth.value = rates.ram;
  for (int g = 0; g < rates.gpus; ++g) {
    GpuPart gpu;
    gpu.bandwidth.value = rates.vram;
    rig.gpus.push_back(gpu);
    HostLink link;
    link.h2d.value = rates.h2d;
    link.d2h.value = rates.d2h;
    link.pageable.value = rates.pageable;
    rig.links.push_back(link);
  }
  return rig;
}

}  // namespace rigcast::fixtures
