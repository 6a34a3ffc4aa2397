#pragma once
// What to do with runs that `rigcast validate` kept.

#include <filesystem>
#include <string>

#include "core/catalogue/catalogue.hpp"

namespace rigcast::cli {

/// The command that corrects this machine's forecasts by the runs of llama.cpp that a folder keeps,
/// "rigcast calibrate --own mine --rig my-rig.toml"; empty where there is none that would work.
std::string calibrate_command(const std::filesystem::path& kept, const Catalogue& catalogue);

}  // namespace rigcast::cli
