#pragma once
// The inputs of a sweep's results besides its own words.

#include <span>
#include <string>

#include "cli/sweep/space.hpp"
#include "core/catalogue/catalogue.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast::cli {

/// Stands for the program, the catalogue, and the rigs, runtimes and model files that the base or a
/// swept key names: another text once one of them has changed. TOML files count by what they say,
/// the program and model files by size and time.
std::string inputs_id(const Catalogue& catalogue, const TomlDocument& base,
                      std::span<const SweptKey> keys);

/// The same for processes and machines that share the work: copies of files count as the same, by
/// their names and what they say; of model files, their sizes and how they begin.
struct SharedInputs {
  std::string program, files;
};
SharedInputs shared_inputs(const Catalogue& catalogue, const TomlDocument& base,
                           std::span<const SweptKey> keys);

}  // namespace rigcast::cli
