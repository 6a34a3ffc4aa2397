#pragma once
// Reads runtime profiles. Schema of the files: runtimes/README.md.

#include <filesystem>

#include "core/base/error.hpp"
#include "core/runtime/runtime_profile.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {

/// The file's figures; missing ones come from the profile that it names as its `base`, which is
/// beside it or in `shipped`. Figures in fitted/ beside it, written by `rigcast calibrate`,
/// override both unless `with_fit` is false.
Result<RuntimeProfile> load_runtime_profile(const std::filesystem::path& file, bool with_fit = true,
                                            const std::filesystem::path& shipped = {});

/// The figures as they are before they are read: the file with its fit above, and its base below.
Result<TomlDocument> read_runtime_layers(const std::filesystem::path& file,
                                         const std::filesystem::path& shipped = {});

}  // namespace rigcast
