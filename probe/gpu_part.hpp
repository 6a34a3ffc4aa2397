#pragma once
// Which part of the catalogue a GPU is.

#include <string>

#include "core/catalogue/catalogue.hpp"
#include "probe/gpu.hpp"

namespace rigcast::probe {

/// Its id, by the driver's name and by its memory, for names that come in several sizes. Empty: the
/// catalogue has none of that name, or another size alone.
std::string gpu_of_catalogue(const Gpu& gpu, const Catalogue& catalogue);

}  // namespace rigcast::probe
