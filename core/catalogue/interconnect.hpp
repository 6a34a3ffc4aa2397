#pragma once
// How fast GPUs exchange over their interconnect: files of hwprofiles/interconnects.

#include <string>

#include "core/base/error.hpp"
#include "core/catalogue/catalogue.hpp"
#include "core/hardware/shared_layers.hpp"

namespace rigcast {

/// The exchange of so many GPUs over the interconnect of that id. `link`: what one GPU's PCI-E link
/// carries from pinned memory, of which those over PCI-E reach a share. Figures of the next
/// larger number of GPUs stand for one that was not measured. Errors: no such interconnect, or it
/// joins no such number.
Result<GpuExchange> gpu_exchange(const Catalogue& catalogue, const std::string& id, int gpus,
                                 BytesPerSecond link);

}  // namespace rigcast
