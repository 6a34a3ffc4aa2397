#pragma once
// Runs that `rigcast validate` kept, as rows for a fit of published speeds.

#include <span>
#include <string>
#include <vector>

#include "core/catalogue/catalogue.hpp"
#include "measurements/resolve.hpp"
#include "validation/validation.hpp"

namespace rigcast::calibration {

struct KeptSpeeds {
  std::vector<ResolvedRun> runs;
  std::vector<SkippedRun> skipped;
};

/// Decode and prefill of every run of folders of --keep and files of --pack, on the rig that was
/// probed for it. Runs during which the machine changed, and those without figures, are skipped.
/// Errors: a path that is no such folder or file.
Result<KeptSpeeds> kept_speeds(std::span<const std::string> paths, const Catalogue& catalogue);

}  // namespace rigcast::calibration
