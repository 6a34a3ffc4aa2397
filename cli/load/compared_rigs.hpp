#pragma once
// The machines that a verb puts side by side, and what they cost.

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/catalogue/catalogue.hpp"
#include "core/catalogue/price_list.hpp"
#include "core/text/toml_reader.hpp"
#include "planner/compare.hpp"

namespace rigcast::cli {

inline constexpr const char* kOldest = "2020";  // older cards are hardly sold

/// A rig that is compared: its name, the scenario with it, and the part that is new in it.
struct NamedRig {
  std::string name;
  TomlDocument document;
  std::optional<GpuPart> new_gpu{};
  std::optional<SsdPart> new_ssd{};
  bool new_ram = false;
};

/// --rigs, --gpus and prices as the user typed them.
struct RigFlags {
  std::vector<std::string> rigs, gpus, prices;
  std::string price_file;

  void add_to(CLI::App& verb, const char* group);
  /// The list that ships, the user's file before it, and single prices before both.
  Result<PriceList> prices_of(const Catalogue& catalogue) const;
  /// What --rigs and --gpus name, each once, in the scenario of `base`.
  Result<std::vector<NamedRig>> rigs_of(const TomlDocument& base, const Catalogue& catalogue) const;
};

/// "2xrtx-3090" and "rtx-3090+rtx-3060-12gb" as the scenario key takes them.
std::string gpu_list(const std::string& text);
/// Without spaces around it.
std::string trimmed(const std::string& text);

/// Every GPU that is sold within the budget (USD), alone in a usual machine.
Result<std::vector<NamedRig>> gpus_within(double budget, const TomlDocument& base,
                                          const PriceList& prices, const Catalogue& catalogue);

/// The price of what is compared: the machine, its GPUs, or the new part in it. A slot has none.
PartsPrice price_of(const NamedRig& named, const Rig& rig, planner::Comparison::What what,
                    const PriceList& prices);

}  // namespace rigcast::cli
