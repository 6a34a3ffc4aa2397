#include "planner/quality.hpp"

#include <algorithm>
#include <cmath>

#include "core/model/kv_bytes.hpp"
#include "core/model/quant_mix.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast::planner {
namespace {

// The model for which all mixes were measured in nats.
constexpr const char* kReference = "llama-3-8b";
// The ratio of nats to ln(perplexity ratio), from dense models' rows that have both
// (models/quality/README.md).
constexpr double kNatsPerLogRatio = 1.04;
// Smaller values are dominated by noise and by the rounding of stored logits.
constexpr double kMinNats = 0.004;
// Fitted to dense models of 0.5 to 72 billion weights: level = 0.52 (8e9 / weights) ^ 0.25, within
// twice as much and half.
constexpr double kLevelAt8B = 0.52, kLevelFall = 0.25, kLevelDoubt = 2;
// Uncertainty between mixes of one model whose level is known.
constexpr double kCurveDoubt = 1.5;
// An importance matrix lowers the loss: the ratio of nats without one to nats with one, over mixes
// that have both rows.
constexpr double kWithoutMatrix = 1.2;

double geometric_mean(const std::vector<double>& v) {
  double sum = 0;
  for (const double x : v) sum += std::log(x);
  return std::exp(sum / double(v.size()));
}

bool is_lossless(const std::string& mix) { return mix == "F32" || mix == "BF16" || mix == "F16"; }

// What a figure says of a mix as it is made: the smallest are never made without a matrix.
double factor_without_matrix(const std::string& mix, bool imatrix) {
  const bool needs_matrix = mix.starts_with("IQ1_") || mix.starts_with("IQ2_") || mix == "IQ3_XXS";
  return imatrix && !needs_matrix ? kWithoutMatrix : 1.0;
}

}  // namespace

Result<std::vector<QualityTable::Figure>> QualityTable::figures(const std::filesystem::path& file) {
  const auto document = TomlDocument::read(file);
  if (!document) return document.error();
  std::vector<Figure> all;
  const TomlTable root = document->root();
  for (const TomlTable& t : root.tables("figure")) {
    Figure f;
    const auto mix = t.find_text("mix"), k = t.find_text("k"), v = t.find_text("v");
    f.what = mix ? *mix : k.value_or("") + "/" + v.value_or("");
    f.model = t.text("model");
    f.parameters = t.number_or("parameters", 0, 0, 1e15);
    const double ppl = t.number_or("ppl", 0, -0.5, 1e6);
    f.in_nats = t.has("kld");
    f.nats = t.number_or("kld", kNatsPerLogRatio * std::log1p(ppl), -1, 1e3);
    f.imatrix = t.flag("imatrix", false);
    const bool rotated = t.flag("rotated", false);
    t.number_or("active", 0, 0, 1e15);
    t.text("source");
    t.finish();
    if (!rotated) all.push_back(f);
  }
  if (auto error = document->error()) return *error;
  return all;
}

Result<QualityTable> QualityTable::read(const std::filesystem::path& folder) {
  QualityTable table;
  auto mixes = figures(folder / "mixes.toml");
  if (!mixes) return mixes.error();
  table.mixes_ = *std::move(mixes);
  table.fit();
  const auto kv = figures(folder / "kv_types.toml");
  if (!kv) return kv.error();
  for (const Figure& f : *kv)
    if (f.model == kReference) table.kv_.try_emplace(f.what, std::max(0.0, f.nats));
  return table;
}

void QualityTable::fit() {
  const auto of_reference = [&](bool imatrix) {
    for (const Figure& f : mixes_)
      if (f.model == kReference && f.imatrix == imatrix)
        curve_.try_emplace(f.what, f.nats * factor_without_matrix(f.what, imatrix));
  };
  of_reference(false);
  of_reference(true);
  const double floor = curve_.contains("F16") ? curve_.at("F16") : 0.0;
  for (auto& [mix, nats] : curve_) nats = std::max(0.0, nats - floor);
  std::map<std::string, std::vector<double>> ratios;
  for (const Figure& f : mixes_)
    if (const auto at = curve_.find(f.what);
        at != curve_.end() && at->second >= kMinNats && f.nats >= kMinNats)
      ratios[f.model].push_back(f.nats * factor_without_matrix(f.what, f.imatrix) / at->second);
  for (const auto& [model, of_model] : ratios) levels_[model] = geometric_mean(of_model);
  for (const Figure& f : mixes_)
    if (f.model == kReference)
      own_[{f.model, f.what}] = curve_.at(f.what);
    else if (f.in_nats && !f.imatrix && (f.nats >= kMinNats || f.nats == 0))
      own_.try_emplace({f.model, f.what}, f.nats);
}

std::optional<QualityLoss> QualityTable::of_mix(const std::string& mix, const ModelSpec& model,
                                                double parameters) const {
  if (is_lossless(mix) || mix == model.native) return QualityLoss{};
  if (const auto own = own_.find({model.id, mix}); own != own_.end())
    return QualityLoss{own->second};
  const auto at = curve_.find(mix);
  if (at == curve_.end()) return of_similar_mix(mix, model, parameters);
  if (const auto level = levels_.find(model.id); level != levels_.end())
    return QualityLoss{level->second * at->second, SourceKind::kFitted, kCurveDoubt};
  const double level = kLevelAt8B * std::pow(8e9 / std::max(parameters, 1e6), kLevelFall);
  return QualityLoss{level * at->second, SourceKind::kFitted, kLevelDoubt};
}

// A wider embedding and head lose no more than the plain mix; a recipe is as its nearest mix.
std::optional<QualityLoss> QualityTable::of_similar_mix(const std::string& mix,
                                                        const ModelSpec& model,
                                                        double parameters) const {
  const auto known = QuantMix::from_name(mix);
  const auto nearest = known ? std::optional(*known) : QuantMix::nearest_to_recipe(mix);
  if (!nearest || nearest->plain_name() == mix) return std::nullopt;
  const auto loss = of_mix(std::string(nearest->plain_name()), model, parameters);
  if (!loss) return std::nullopt;
  return QualityLoss{loss->nats, SourceKind::kFitted, std::max(loss->factor, kLevelDoubt)};
}

std::optional<QualityLoss> QualityTable::of_kv(KvTypes types) const {
  const auto is_wide = [](QuantFormat f) {
    return f == QuantFormat::kF16 || f == QuantFormat::kBF16 || f == QuantFormat::kF32;
  };
  if (is_wide(types.k) && is_wide(types.v)) return QualityLoss{};
  const auto at = kv_.find(kv_type_name(types.k) + "/" + kv_type_name(types.v));
  if (at == kv_.end()) return std::nullopt;
  return QualityLoss{at->second, SourceKind::kFitted, kLevelDoubt};
}

QualityLoss operator+(const QualityLoss& a, const QualityLoss& b) {
  const bool fitted = a.kind == SourceKind::kFitted || b.kind == SourceKind::kFitted;
  return {a.nats + b.nats, fitted ? SourceKind::kFitted : a.kind, std::max(a.factor, b.factor)};
}

}  // namespace rigcast::planner
