// Replaces probe/gpu/ in a build without CUDA.

#include "probe/gpu/measure_gpus.hpp"
#include "probe/gpu/vram_rates.hpp"

namespace rigcast::probe {

Gpus measure_gpus(const Progress&, const StopFlag&) {
  return {{}, "this build has no GPU code: build with a CUDA toolkit, -DRIGCAST_CUDA=ON"};
}

Samples vram_read(const StopFlag&) { return {}; }

}  // namespace rigcast::probe
