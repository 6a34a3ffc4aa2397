#pragma once
// Measures a scenario with Hugging Face transformers, by scripts/run_transformers.py.
//
//   const auto python = find_transformers(path, catalogue.root());  // once
//   const auto request = transformers_request(forecast, 3);
//   const auto run = run_transformers(*python, *request, limit);

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/units.hpp"
#include "validation/runs/transformers/output.hpp"

namespace rigcast::validation {

/// A Python that has torch and transformers, and the script that it runs.
struct TransformersPython {
  std::string program;  // a path
  std::filesystem::path script;
  TransformersVersions versions;
};

/// The Python at `path` (of --python), or the first python3 of $PATH, with the script of the
/// catalogue's folder `root`. Errors: kBadInput where one of them is missing, or a package that it
/// needs is missing or too old.
Result<TransformersPython> find_transformers(const std::optional<std::string>& path,
                                             const std::filesystem::path& root);

/// One run of the script, whatever came of it: one of `output` and `error` is there.
struct TransformersRun {
  std::vector<std::string> command;  // as it was run
  std::string out, err;              // as it wrote them; of `err` the last 64 KiB
  std::optional<TransformersOutput> output;
  std::optional<Error> error;  // kDoesNotFit: out of memory; kMachine: crash, time limit, no result
};

/// Runs the script in a process of its own, which is killed past the limit, and checks that it
/// measured what `request` (of transformers_request) asks for.
TransformersRun run_transformers(const TransformersPython& python, const std::string& request,
                                 Seconds time_limit);

}  // namespace rigcast::validation
