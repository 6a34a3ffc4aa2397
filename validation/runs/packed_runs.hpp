#pragma once
// A validation in one file: lines of JSON, compressed as gzip does it. The first line is
// {"schema": "rigcast.runs/1", "device": "cpu"}, every other one a run with its name, its scenario
// and the rig as probed before it (both TOML), its times, forecast, measured report and activities.

#include <filesystem>
#include <optional>

#include "validation/runs/run_archive.hpp"

namespace rigcast::validation {

/// Errors: a part of a run that is no JSON; a file that cannot be written.
std::optional<Error> write_packed(const ArchivedSuite& suite, const std::filesystem::path& file);

/// A folder, or a file that begins as gzip's do: what read_archive() reads, whatever is in it.
bool is_archive(const std::filesystem::path& path);

/// Reads a folder of `rigcast validate --keep`, or a packed file. Errors: a packed file that holds
/// more than 64 MiB, is damaged, or has a line that is not a run.
Result<ArchivedSuite> read_archive(const std::filesystem::path& path);

}  // namespace rigcast::validation
