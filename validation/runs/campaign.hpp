#pragma once
// A suite's forecasts are written down, then its runs are executed, and both are compared.

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "core/catalogue/catalogue.hpp"
#include "validation/runs/llama_cpp/llama_bench.hpp"
#include "validation/runs/llama_cpp/server.hpp"
#include "validation/runs/suite.hpp"
#include "validation/runs/transformers/run_transformers.hpp"
#include "validation/validation.hpp"

namespace rigcast::validation {

struct CampaignOptions {
  std::filesystem::path folder = "rigcast-validation";  // for rigs, forecasts and runs
  // For weights and the disk's test file; empty: the system's temporary folder.
  std::filesystem::path scratch{};
  int repeat = 3;                                    // timed runs, where the suite does not say
  int time_limit = 600;                              // seconds, of a try of one run
  bool resume = false;                               // runs of the folder that are over stay
  std::optional<LlamaBench> llama_bench{};           // for runs whose runtime is llama.cpp
  std::optional<LlamaServer> llama_server{};         // instead: one that runs already
  std::optional<TransformersPython> transformers{};  // for those of Hugging Face transformers
};

/// Measures the machine, forecasts, writes the forecast down, runs, and compares: for every run of
/// the suite; with our engine, or, where a run's runtime is llama.cpp, with llama-bench or a
/// llama-server, and where it is transformers, with a script that runs it. Where the machine itself
/// changed meanwhile, again. kMachine where a suite of GPUs finds none, or it no longer answers.
Result<Validation> run_campaign(const Suite& suite, const CampaignOptions& options,
                                const Catalogue& catalogue);

/// Which forecasts kept runs are held against: as the program makes them now, or those that were
/// written before the runs.
enum class Forecasts { kAnew, kAsWritten };
/// Compares archived validations, in folders or packed files, without running anything.
Result<Validation> replay_runs(std::span<const std::string> archives, const Catalogue& catalogue,
                               Forecasts forecasts = Forecasts::kAnew);

}  // namespace rigcast::validation
