#pragma once
// The loss of quality by quantization, in nats: the divergence of the next token's distribution
// from the unquantised model's, from published figures (models/quality).

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/sourced.hpp"
#include "core/model/kv_bytes.hpp"
#include "core/model/model_spec.hpp"

namespace rigcast::planner {

/// The loss by quantized weights, a quantized cache, or both.
struct QualityLoss {
  double nats = 0;
  SourceKind kind = SourceKind::kPublished;  // published: for this model; fitted: from other models
  double factor = 1;                         // factor of uncertainty, in both directions
};

class QualityTable {
 public:
  /// Reads mixes.toml and kv_types.toml of `folder`.
  static Result<QualityTable> read(const std::filesystem::path& folder);

  /// The loss of a mix in a model of `parameters` weights; none in the format in which the model
  /// was published. nullopt: nothing is known of the mix.
  std::optional<QualityLoss> of_mix(const std::string& mix, const ModelSpec& model,
                                    double parameters) const;
  /// The loss of a cache's types. nullopt: nothing is known of them.
  std::optional<QualityLoss> of_kv(KvTypes types) const;

 private:
  struct Figure {
    std::string what, model;  // a mix, or "q8_0/q4_0"
    double parameters = 0;
    double nats = 0;
    bool in_nats = false;  // otherwise derived from perplexities
    bool imatrix = false;
  };
  static Result<std::vector<Figure>> figures(const std::filesystem::path& file);
  void fit();
  std::optional<QualityLoss> of_similar_mix(const std::string& mix, const ModelSpec& model,
                                            double parameters) const;

  std::vector<Figure> mixes_;
  std::map<std::pair<std::string, std::string>, double> own_;  // nats by model and mix, measured
  std::map<std::string, double> curve_;                        // nats of the reference model by mix
  std::map<std::string, double> levels_;  // by model: the ratio of its nats to the curve's
  std::map<std::string, double> kv_;      // nats of the reference model by types
};

/// The loss of both together: small losses add up.
QualityLoss operator+(const QualityLoss& a, const QualityLoss& b);

}  // namespace rigcast::planner
