#include <memory>

#include "cli/shared/inspected.hpp"
#include "cli/shared/model_argument.hpp"
#include "cli/shared/output.hpp"
#include "cli/terminal/terminal_width.hpp"
#include "cli/verbs.hpp"
#include "core/catalogue/find_model.hpp"
#include "core/model/quantized_model.hpp"
#include "engine/gguf/clean_text.hpp"
#include "engine/gguf/model/read_spec.hpp"
#include "engine/gguf/model/read_table.hpp"

namespace rigcast::cli {
namespace {

struct Options {
  std::string model;
  std::string quant;  // empty: the model's usual one
  bool tensors = false;
  OutputOptions output;
};

Result<Inspected> inspect_catalogue(const Options& options, const Catalogue& catalogue) {
  auto found = find_model(catalogue, options.model, options.quant);
  if (!found) return found.error();
  const std::string quant = !options.quant.empty()  ? options.quant
                            : !found->quant.empty() ? found->quant
                                                    : default_quant(found->spec);
  const auto quantized = quantize(found->spec, quant);
  if (!quantized) return quantized.error();
  Inspected out;
  out.warnings = std::move(found->warnings);
  out.quant = quantized->quant;
  out.note = quantized->note;
  out.active_bytes = quantized->tensors.active_bytes(found->spec);
  for (const Tensor& t : quantized->tensors.tensors) {
    const auto end = t.shape.begin() + t.dimensions;
    out.tensors.push_back(
        {t.name, {t.shape.begin(), end}, std::string(info(t.format).name), t.bytes});
  }
  out.spec = std::move(found->spec);
  return out;
}

FileValue value_of(const engine::MetadataEntry& entry) {
  const engine::Value& value = entry.value;
  FileValue out{engine::clean_text(entry.key), value_text(value), {}};
  if (const auto flag = value.flag()) {
    out.raw = *flag;
  } else if (const auto whole = value.integer()) {
    out.raw = *whole;
  } else if (const auto number = value.number()) {
    out.raw = *number;
  } else {
    const auto text = value.text();
    out.raw = text ? engine::clean_text(*text) : out.text;
  }
  return out;
}

FileFacts facts_of(const engine::GgufFile& file) {
  FileFacts facts;
  facts.path = file.name();
  facts.version = file.version();
  facts.alignment = file.alignment();
  facts.parts = file.parts().size();
  facts.bytes = file.bytes();
  for (const engine::MetadataEntry& entry : file.metadata().entries())
    facts.metadata.push_back(value_of(entry));
  return facts;
}

// A file's tensors are shown whatever they are; a model is derived from them where that is
// possible. Without any there is none: it would be one of 0 bytes.
Result<Inspected> inspect_file(const Options& options) {
  if (!options.quant.empty())
    return bad_input("--quant: a model file has its own formats", "leave out --quant");
  const auto file = engine::GgufFile::open(options.model);
  if (!file) return file.error();
  if (file->tensors().empty())
    return bad_input("there are no tensors in this file",
                     "a model's .gguf file; of one in parts, the first", SourceRef{file->name()});
  Inspected out;
  out.file = facts_of(*file);
  for (const engine::TensorInfo& t : file->tensors()) {
    const auto end = t.shape.begin() + t.dimensions;
    out.tensors.push_back(
        {engine::clean_text(t.name), {t.shape.begin(), end}, std::string(t.type->name), t.bytes});
  }
  auto spec = engine::read_spec(*file);
  if (!spec) {
    out.reason = spec.error().message;
    return out;
  }
  if (const auto table = engine::read_tensor_table(*file, *spec)) {
    out.active_bytes = table->active_bytes(*spec);
    out.quant = engine::quant_name(*file, *spec, *table);
  } else {
    out.reason = table.error().message;
  }
  out.spec = *std::move(spec);
  return out;
}

int inspect_verb(const Options& options, const OpenCatalogue& open) {
  Result<Inspected> model = Inspected{};
  if (names_model_file(options.model)) {
    model = inspect_file(options);
  } else {
    const auto catalogue = open();
    if (!catalogue) return fail(catalogue.error());
    model = inspect_catalogue(options, *catalogue);
  }
  if (!model) return fail(model.error());
  std::string out;
  switch (options.output.format) {
    case Format::kText:
      out = to_text(*model, options.tensors, terminal_width(options.output));
      break;
    case Format::kJson: out = to_json(*model); break;
    case Format::kCsv: out = to_csv(*model); break;
  }
  if (auto error = emit(options.output, out)) return fail(*error);
  return kDone;
}

}  // namespace

void add_inspect(CLI::App& app, const OpenCatalogue& open, Run& run) {
  CLI::App* verb = app.add_subcommand("inspect", "Show a model's tensors, sizes and KV bytes");
  auto options = std::make_shared<Options>();
  verb->add_option("model", options->model,
                   "a model of the catalogue, an id of Hugging Face or Ollama, a .gguf, "
                   "config.json or .toml file")
      ->required()
      ->type_name("MODEL");
  verb->add_option("--quant", options->quant, "quant mix (default Q4_K_M, or as published)")
      ->type_name("MIX");
  verb->add_flag("--tensors", options->tensors, "list every tensor");
  options->output.add_to(*verb);
  verb->callback(
      [options, open, &run] { run = [options, open] { return inspect_verb(*options, open); }; });
}

}  // namespace rigcast::cli
