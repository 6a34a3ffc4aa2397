#pragma once
// rigcast calibrate --own: a few runs of one's own machine tighten the forecasts of its rig.

#include <CLI/App.hpp>
#include <string>

#include "cli/output.hpp"
#include "core/catalogue/catalogue.hpp"

namespace rigcast::cli {

struct OwnRunsOptions {
  std::string runs;  // empty: the verb does something else
  std::string rig;

  void add_to(CLI::App& calibrate);
};

/// Writes the correction to `output`, or beside the rig's file.
int correct_rig(const OwnRunsOptions& options, const std::string& output, Format format,
                const Catalogue& catalogue);

}  // namespace rigcast::cli
