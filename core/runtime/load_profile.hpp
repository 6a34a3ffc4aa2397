#pragma once
// Reads runtime profiles. Schema of the files: runtimes/README.md.

#include <filesystem>

#include "core/base/error.hpp"
#include "core/runtime/runtime_profile.hpp"

namespace rigcast {

/// The file's figures; missing ones come from the profile that it names as its `base`. Figures in
/// fitted/ beside it, written by `rigcast calibrate`, override both unless `with_fit` is false.
Result<RuntimeProfile> load_runtime_profile(const std::filesystem::path& file,
                                            bool with_fit = true);

}  // namespace rigcast
