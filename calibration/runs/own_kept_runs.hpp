#pragma once
// Runs by which one's own rig is corrected: files of speeds, and what `rigcast validate` kept.

#include <filesystem>
#include <span>
#include <string>

#include "calibration/own_runs.hpp"
#include "core/catalogue/catalogue.hpp"
#include "validation/runs/run_archive.hpp"

namespace rigcast::calibration {

/// Why a kept run tells nothing of its machine's speed, whatever the rig; empty: it tells it.
std::string useless(const validation::ArchivedRun& kept);

/// The runs of all paths: csv, json or jsonl; folders of --keep; files of --pack. A kept run has
/// the scenario that was run, with its placement and threads, on the rig in place of the one that
/// was probed. Those of another CPU or other GPUs are skipped. Errors: a file or folder that cannot
/// be read, or is named twice.
Result<RunsOfRig> own_runs_of(std::span<const std::string> paths, const std::filesystem::path& rig,
                              const Catalogue& catalogue);

}  // namespace rigcast::calibration
