#pragma once
// This machine as a rig file, without a measurement: what the operating system and its tools tell
// (kind spec), and what the parts' data sheets say of the rest (kind assumed).

#include <string>

#include "core/base/error.hpp"
#include "core/catalogue/catalogue.hpp"
#include "probe/detect/system.hpp"

namespace rigcast::probe {

/// The rig file's text. Its `notes` say in one line what was detected and what was assumed, and
/// name the GPUs that are left out because the catalogue lacks them. Errors: the system tells
/// neither a CPU nor a size of memory.
Result<std::string> detected_rig(const Catalogue& catalogue, const System& system = this_system());

}  // namespace rigcast::probe
