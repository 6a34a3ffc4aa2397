#pragma once
// From what a source states to the scenario that a user would give for the same run.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/catalogue/catalogue.hpp"
#include "core/scenario/regime.hpp"
#include "core/scenario/scenario.hpp"
#include "measurements/measurement.hpp"
#include "measurements/name_resolver.hpp"

namespace rigcast {

struct ParsedNotes;
struct RigFragment;

struct ResolvedRun {
  Measurement measured;
  std::shared_ptr<const Scenario> scenario;
  std::string rig;   // "2 x RTX 3090, Core i9-10900X"
  std::string chip;  // what to leave out together: GPU ids without counts, else the CPU's
  std::vector<std::string> families{};  // of the chips that computed, as chip_families() gives them
  bool slow_host = false;               // a CPU with small cores launched the GPUs' kernels
  bool ram_known = false;               // the RAM's bandwidth follows from what is stated
  Regime regime = Regime::kResident;
  bool deep = false;  // 8,192 tokens or more in the cache
  bool quantized_kv = false;
  // One of many that were measured densely on one machine: a fit learns structure by it, but how
  // far off forecasts are elsewhere is told by rows of other people alone.
  bool dense = false;

  /// True if its GPUs computed every layer together.
  bool shares_layers() const;
};

/// What is left out together: the GPUs' ids without counts, or the CPU's where there is none.
std::string chip_of(const Rig& rig);

inline constexpr TokenCount kDeep = 8192;  // tokens in the cache of a deep run

/// Resolves runs against one catalogue; equal settings share a scenario.
class Resolver {
 public:
  explicit Resolver(const Catalogue& catalogue) : resolver_(catalogue) {}

  /// Every run is taken to be of the rig of this file or name; one that names parts of another kind
  /// is refused.
  static Result<Resolver> on_rig(const Catalogue& catalogue, const std::string& rig);

  /// An error's message says why no scenario stands for this run.
  Result<ResolvedRun> resolve(const Measurement& m);

 private:
  struct ResolvedScenario {
    std::shared_ptr<const Scenario> scenario;
    Regime regime = Regime::kResident;
    bool fits = true;  // or nearly: what is stated leaves some room for error
  };
  Result<ResolvedScenario> make(const std::string& toml);
  std::optional<ResolvedScenario> fewest_experts_in_ram(
      const Measurement& m, const ParsedNotes& parsed_notes, const ModelSpec& model,
      const RigFragment& rig, const std::string& head, const std::string& rest);

  Result<RigFragment> own_rig(const Measurement& m);

  NameResolver resolver_;
  std::shared_ptr<const RigFragment> own_rig_;  // nullptr: the rig that a run names
  std::map<std::string, Result<ResolvedScenario>> resolved_;
};

Result<ResolvedRun> resolve(const Measurement& m, const Catalogue& catalogue);

}  // namespace rigcast
