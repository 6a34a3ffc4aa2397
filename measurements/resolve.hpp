#pragma once
// From what a source states to the scenario that a user would give for the same run.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/catalogue/catalogue.hpp"
#include "core/scenario/regime.hpp"
#include "core/scenario/scenario.hpp"
#include "measurements/lookup.hpp"
#include "measurements/measurement.hpp"

namespace rigcast {

struct NotedSettings;
struct RigDraft;

struct ResolvedRun {
  Measurement measured;
  std::shared_ptr<const Scenario> scenario;
  std::string rig;         // "2 x RTX 3090, Core i9-10900X"
  std::string chip;        // what to leave out together: GPU ids without counts, else the CPU's
  bool ram_known = false;  // the RAM's bandwidth follows from what is stated
  Regime regime = Regime::kResident;
  bool deep = false;  // 8,192 tokens or more in the cache
  bool quantized_kv = false;
};

/// Resolves runs against one catalogue; equal settings share a scenario.
class Resolver {
 public:
  explicit Resolver(const Catalogue& catalogue) : lookup_(catalogue) {}

  /// Every run is taken to be of the rig of this file or name; one that names parts of another kind
  /// is refused.
  static Result<Resolver> on_rig(const Catalogue& catalogue, const std::string& rig);

  /// An error's message says why no scenario stands for this run.
  Result<ResolvedRun> resolve(const Measurement& m);

 private:
  struct Made {
    std::shared_ptr<const Scenario> scenario;
    Regime regime = Regime::kResident;
    bool fits = true;  // or nearly: what is stated leaves some room for error
  };
  Result<Made> make(const std::string& toml);
  std::optional<Made> fewest_experts_in_ram(const Measurement& m, const NotedSettings& noted,
                                            const ModelSpec& model, const RigDraft& rig,
                                            const std::string& head, const std::string& rest);

  Result<RigDraft> own_rig(const Measurement& m);

  Lookup lookup_;
  std::shared_ptr<const RigDraft> own_rig_;  // nullptr: the rig that a run names
  std::map<std::string, Result<Made>> made_;
};

Result<ResolvedRun> resolve(const Measurement& m, const Catalogue& catalogue);

}  // namespace rigcast
