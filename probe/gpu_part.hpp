#pragma once
// Identifies the part of the catalogue that a GPU is.

#include <string>

#include "core/catalogue/catalogue.hpp"
#include "probe/gpu.hpp"

namespace rigcast::probe {

/// The part's id, by the driver's name and, for names with several sizes, by the memory. Empty: the
/// catalogue does not have the name, or only another size.
std::string gpu_of_catalogue(const Gpu& gpu, const Catalogue& catalogue);
std::string gpu_of_catalogue(const std::string& name, Bytes memory, const Catalogue& catalogue);

}  // namespace rigcast::probe
