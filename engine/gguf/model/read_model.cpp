#include "engine/gguf/model/read_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/architectures/architecture.hpp"
#include "engine/gguf/clean_text.hpp"
#include "engine/gguf/model/executed_keys.hpp"
#include "engine/gguf/model/read_spec.hpp"
#include "engine/gguf/model/read_table.hpp"

namespace rigcast::engine {
namespace {

constexpr double kMax = 1e12;  // largest base or factor
constexpr std::int64_t kMaxTokens = 1ll << 32;
constexpr double kMinMagnitude = 1e-3, kMaxMagnitude = 1e3;

class HyperReader {
 public:
  HyperReader(const GgufFile& file, const ModelSpec& spec)
      : meta_of_(file.metadata()), meta_(file.metadata(), file.name()), spec_(spec) {}

  Result<Hyperparameters> read() && {
    hyper_ = default_hyperparameters(spec_);
    const char* const eps =
        hyper_.layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon";
    hyper_.norm_eps = float(meta_.number_or(key(eps), double(hyper_.norm_eps), 0, 0.1));
    read_rope();
    read_rope_scaling();
    read_sections();
    read_scalars();
    read_routing();
    read_activation();
    if (meta_.error()) return *meta_.error();
    return hyper_;
  }

 private:
  void read_rope();
  void read_rope_scaling();
  void read_yarn(bool is_yarn, double factor);
  void read_sections();
  void read_scalars();
  double trained_context() {
    return double(meta_.integer_or(key("rope.scaling.original_context_length"), spec_.context, 1,
                                   kMaxTokens));
  }
  void read_routing();
  void read_activation();
  std::string key(std::string_view end) const {
    return fmt::format("{}.{}", spec_.architecture, end);
  }

  const Metadata& meta_of_;
  MetadataReader meta_;
  const ModelSpec& spec_;
  Hyperparameters hyper_;
};

void HyperReader::read_rope() {
  constexpr double kBaseOfNoKey = 10'000;
  hyper_.rope_base = float(meta_.number_or(key("rope.freq_base"), kBaseOfNoKey, 1, kMax));
  const bool wider = spec_.window && spec_.window->full_head_dim > 0;
  const std::int64_t head = wider ? spec_.window->full_head_dim : spec_.head_dim;
  hyper_.rope_dims = int(meta_.integer_or(key("rope.dimension_count"), head, 2, head));
  if (wider)
    hyper_.local_rope_dims =
        int(meta_.integer_or(key("rope.dimension_count_swa"), spec_.head_dim, 2, spec_.head_dim));
  hyper_.rope_context = 0;
  if (spec_.rope_factors > 0) hyper_.rope_context = float(trained_context());
  if (hyper_.rope_dims % 2 != 0)
    meta_.refuse(fmt::format("\"{}\" is {}, expected an even number", key("rope.dimension_count"),
                             hyper_.rope_dims));
}

// Reads RoPE scaling. Older files have a factor without a type, which is linear. If both keys exist
// the new one counts, as in llama.cpp.
void HyperReader::read_rope_scaling() {
  const std::string old = key("rope.scale_linear");
  const std::string now = key("rope.scaling.factor");
  const std::string factor_key = meta_.has(old) && !meta_.has(now) ? old : now;
  const double factor = meta_.number_or(factor_key, 1, 0, kMax);
  const std::string_view type = meta_.text_or(key("rope.scaling.type"), "linear");
  if (type == "linear" || type == "yarn") {
    if (factor > 0) hyper_.rope_scale = float(1.0 / factor);
    if (factor > 0 && factor < 1e-6) meta_.refuse(fmt::format("\"{}\" is {}", factor_key, factor));
  } else if (type == "longrope" && factor != 0 && factor != 1) {
    meta_.refuse(
        fmt::format("\"{}\" is {}, and longrope scales by vectors of factors", factor_key, factor));
  } else if (type != "none" && type != "longrope") {
    meta_.refuse(fmt::format(
        "\"{}\" is not \"none\", \"linear\", \"yarn\" or \"longrope\", which is not executed",
        key("rope.scaling.type")));
  }
  hyper_.rope_magnitude =
      float(meta_.number_or(key("rope.scaling.attn_factor"), 1, kMinMagnitude, kMaxMagnitude));
  read_yarn(type == "yarn", factor);
}

// YaRN's magnitude is 1 + 0.1 ln(factor), of which models that scale scores otherwise take a part
// back: the key's number is by how much.
void HyperReader::read_yarn(bool is_yarn, double factor) {
  const double mix = meta_.number_or(key("rope.scaling.yarn_ext_factor"), is_yarn ? 1 : 0, -1, 1);
  if (mix != (is_yarn ? 1 : 0) && mix != -1)
    meta_.refuse(fmt::format("\"{}\" is {}, which is not executed",
                             key("rope.scaling.yarn_ext_factor"), mix));
  if (!is_yarn) return;
  Yarn yarn;
  yarn.context = float(trained_context());
  yarn.fast = float(meta_.number_or(key("rope.scaling.yarn_beta_fast"), 32, 1e-3, 1e6));
  yarn.slow = float(meta_.number_or(key("rope.scaling.yarn_beta_slow"), 1, 1e-3, 1e6));
  hyper_.yarn = yarn;
  const double taken = meta_.number_or(key("rope.scaling.yarn_log_multiplier"), 0, 0, 1e3);
  const auto magnitude = [&](double of) {
    return factor > 1 ? 1 + 0.1 * of * std::log(factor) : 1.0;
  };
  hyper_.rope_magnitude *= float(magnitude(1) / magnitude(taken));
}

// Sections of a head whose pairs turn by positions in time, height and width. For a text these are
// one, but there may be a fourth, of a position of its own.
void HyperReader::read_sections() {
  const std::string name = key("rope.dimension_sections");
  const Value* const value = meta_of_.find(name);
  if (!value) return;
  const auto sections = value->integers();
  constexpr std::size_t kSections = 4;
  const auto pairs = std::int64_t(hyper_.rope_dims / 2);
  const bool sound =
      sections && (sections->size() == kSections || sections->size() == 3) &&
      std::ranges::all_of(*sections, [&](std::int64_t n) { return n >= 0 && n <= pairs; });
  if (!sound)
    return meta_.refuse(
        fmt::format("\"{}\" is not three or four numbers of pairs up to {}", name, pairs));
  if (sections->size() == kSections && sections->back() != 0)
    return meta_.refuse(fmt::format("\"{}\" has a fourth section, which is not executed", name));
  if (std::accumulate(sections->begin(), sections->end(), std::int64_t(0)) != pairs)
    meta_.refuse(fmt::format("\"{}\" are not the {} pairs that turn", name, pairs));
}

void HyperReader::read_scalars() {
  const Architecture* const architecture = find_architecture(spec_.architecture);
  if (!architecture) return;
  for (const ScalarKey& scalar : architecture->scalars) {
    float& to = hyper_.*scalar.to;
    const std::string name = key(scalar.key);
    if (!meta_.has(name)) {
      to = float(scalar.absent.value_or(double(to)));
      continue;
    }
    const double number = meta_.number_or(name, 1, 0, kMax);
    if (scalar.reciprocal && number <= 0)
      meta_.refuse(fmt::format("\"{}\" is {}, expected more than 0", name, number));
    else
      to = float(scalar.reciprocal ? 1 / number : number);
  }
  const bool read = std::ranges::find(architecture->scalars, &Hyperparameters::temperature,
                                      &ScalarKey::to) != architecture->scalars.end();
  if (read && hyper_.temperature != 0) hyper_.temperature_tokens = float(trained_context());
  set_local_rope(spec_, hyper_);
}

void HyperReader::read_routing() {
  if (!spec_.moe) return;
  constexpr std::int64_t kByArchitecture = 0, kSoftmax = 1, kSigmoid = 2;
  const Architecture* const architecture = find_architecture(spec_.architecture);
  ExpertRouting& r = hyper_.routing;
  const bool of_no_key = !(architecture && architecture->reads_routing) && r.normalised;
  r.normalised = meta_.flag_or(key("expert_weights_norm"), of_no_key);
  // Files that were converted without a scale have 0.
  const double scale = meta_.number_or(key("expert_weights_scale"), 1, 0, kMax);
  r.scale = scale == 0 ? 1.0f : float(scale);
  const std::int64_t function =
      meta_.integer_or(key("expert_gating_func"), kByArchitecture, 0, 1000);
  if (function > kSigmoid)
    meta_.refuse(
        fmt::format("\"{}\" is {}, which is not executed", key("expert_gating_func"), function),
        "softmax (1) and sigmoid (2) are");
  if (function != kByArchitecture) r.sigmoid = function != kSoftmax;
  r.groups = int(std::max<std::int64_t>(
      1, meta_.integer_or(key("expert_group_count"), 1, 0, spec_.moe->experts)));
  r.groups_used = int(std::max<std::int64_t>(
      1, meta_.integer_or(key("expert_group_used_count"), r.groups, 0, r.groups)));
  if (r.groups == 1) r.groups_used = 1;
}

// The numbers of Apertus' activation, whose keys have no architecture's name: one for all layers,
// or one for each.
void HyperReader::read_activation() {
  if (hyper_.xielu.empty()) return;
  std::vector<std::vector<double>> numbers;
  for (const char* name : {"xielu.alpha_p", "xielu.alpha_n", "xielu.beta", "xielu.eps"}) {
    const Value* const value = meta_of_.find(name);
    std::vector<double> read;
    if (value && value->type() == ValueType::kArray)
      read = value->numbers().value_or(std::vector<double>());
    else if (value && value->number())
      read.assign(hyper_.xielu.size(), *value->number());
    const bool sound = read.size() >= hyper_.xielu.size() &&
                       std::ranges::all_of(read, [](double x) { return std::abs(x) < 1e3; });
    if (!sound)
      return meta_.refuse(
          fmt::format("\"{}\" is not a number for each of {} layers", name, hyper_.xielu.size()));
    numbers.push_back(std::move(read));
  }
  for (std::size_t i = 0; i < hyper_.xielu.size(); ++i)
    hyper_.xielu[i] = xielu_of(numbers[0][i], numbers[1][i], numbers[2][i], numbers[3][i]);
}

}  // namespace

Result<Hyperparameters> read_hyperparameters(const GgufFile& file, const ModelSpec& spec) {
  auto hyper = HyperReader(file, spec).read();
  if (!hyper) return hyper;
  if (auto error = check_executed_keys(file, spec)) return *error;
  return hyper;
}

Result<ModelFile> read_model_file(const std::filesystem::path& path) {
  const auto file = GgufFile::open(path);
  if (!file) return file.error();
  auto spec = read_spec(*file);
  if (!spec) return spec.error();
  auto tensors = read_tensor_table(*file, *spec);
  if (!tensors) return tensors.error();
  std::string quant = quant_name(*file, *spec, *tensors);
  return ModelFile{*std::move(spec), *std::move(tensors), std::move(quant)};
}

Result<Bytes> read_projector_file(const std::filesystem::path& path) {
  const auto file = GgufFile::open(path);
  if (!file) return file.error();
  // llama.cpp writes it into every projector's file.
  MetadataReader meta(file->metadata(), file->name());
  const std::string_view architecture = meta.text_or("general.architecture", "");
  if (meta.error()) return *meta.error();
  if (architecture != "clip")
    return bad_input(fmt::format("a file of architecture \"{}\" is no vision projector",
                                 clean_text(architecture)),
                     "projectors are published beside the model, as mmproj-*.gguf",
                     SourceRef{file->name()});
  Bytes bytes;
  for (const TensorInfo& tensor : file->tensors()) bytes += Bytes{double(tensor.bytes)};
  return bytes;
}

Result<Model> load_model(const GgufFile& file) {
  auto spec = read_spec(file);
  if (!spec) return spec.error();
  if (auto error = check_executable(*spec)) {
    if (!error->where) error->where = SourceRef{file.name()};
    return *error;
  }
  const auto hyper = read_hyperparameters(file, *spec);
  if (!hyper) return hyper.error();
  const auto tensors = named_tensors(file);
  if (!tensors) return tensors.error();
  auto model = bind_model(*std::move(spec), *hyper, *tensors, file.storage());
  if (model) return model;
  Error error = model.error();
  if (!error.where) error.where = SourceRef{file.name()};
  return error;
}

}  // namespace rigcast::engine
