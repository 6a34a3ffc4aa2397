#pragma once
// Of which month a llama-bench is, which no flag of it tells.

#include <filesystem>
#include <optional>
#include <string>

#include "core/catalogue/catalogue.hpp"
#include "validation/runs/llama_cpp/llama_bench.hpp"

namespace rigcast::validation {

/// "2025-12", as `runtime.build` has it. nullopt: its number is not known.
std::optional<std::string> build_month_of(const BenchBuild& build);

/// The same by the number that it prints for one token of a model of one layer, whose file is in
/// `folder` meanwhile. nullopt: it does not run, or its number is not known.
std::optional<std::string> build_month_of(const LlamaBench& bench,
                                          const std::filesystem::path& folder,
                                          const Catalogue& catalogue);

}  // namespace rigcast::validation
