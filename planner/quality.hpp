#pragma once
// What quantising costs in quality: nats of the next token's distribution from the unquantised
// model's, from figures that others published (models/quality).

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/sourced.hpp"
#include "core/model/kv_cache.hpp"
#include "core/model/model_spec.hpp"

namespace rigcast::planner {

/// Of weights, a cache, or both.
struct QualityLoss {
  double nats = 0;
  SourceKind kind = SourceKind::kPublished;  // of this model; fitted: from others
  double doubt = 1;                          // it may be so many times as much, or as little
};

class QualityTable {
 public:
  /// From mixes.toml and kv_types.toml of `folder`.
  static Result<QualityTable> read(const std::filesystem::path& folder);

  /// Of a mix in a model of so many weights. nullopt: nothing is known of the mix.
  std::optional<QualityLoss> of_mix(const std::string& mix, const ModelSpec& model,
                                    double parameters) const;
  /// Of a cache's types. nullopt: nothing is known of them.
  std::optional<QualityLoss> of_kv(KvTypes types) const;

 private:
  struct Figure {
    std::string what, model;  // a mix, or "q8_0/q4_0"
    double parameters = 0;
    double nats = 0;
    bool in_nats = false;  // else from perplexities
    bool imatrix = false;
  };
  static Result<std::vector<Figure>> figures(const std::filesystem::path& file);
  void fit();

  std::vector<Figure> mixes_;
  std::map<std::pair<std::string, std::string>, double> own_;  // nats by model and mix, measured
  std::map<std::string, double> curve_;                        // nats of the reference model by mix
  std::map<std::string, double> levels_;  // of a model: its nats over the curve's
  std::map<std::string, double> kv_;      // nats of the reference model by types
};

/// Both add up as far as both are small.
QualityLoss operator+(const QualityLoss& a, const QualityLoss& b);

}  // namespace rigcast::planner
