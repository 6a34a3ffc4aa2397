#include "sim/prepare.hpp"

#include "sim/machine/platform.hpp"

namespace rigcast::sim {

void prepare() { Platform::instance(); }

}  // namespace rigcast::sim
