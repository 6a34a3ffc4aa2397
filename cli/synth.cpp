#include <fmt/format.h>

#include <limits>
#include <memory>

#include "cli/shared/flag_checks.hpp"
#include "cli/shared/output.hpp"
#include "cli/verbs.hpp"
#include "core/catalogue/find_model.hpp"
#include "core/files/interrupt.hpp"
#include "core/text/unit_text.hpp"
#include "engine/synth/synthetic_file.hpp"
#include "report/terminal/progress_line.hpp"

namespace rigcast::cli {
namespace {

struct Options {
  std::string model;
  std::string quant = "Q4_K_M";
  bool quant_given = false;
  std::string file;
  int layers = 0;
  std::uint64_t seed = 1;
  bool no_vocabulary = false;
  bool zeros = false;
};

int synth_verb(const Options& o, const Catalogue& catalogue) {
  auto found = find_model(catalogue, o.model, o.quant_given ? o.quant : "");
  if (!found) return fail(found.error());
  ModelSpec* const model = &found->spec;
  if (o.layers > model->layers)
    return fail(bad_input(fmt::format("--layers: {} has {} layers", model->name, model->layers)));
  if (o.layers > 0) model->layers = o.layers;
  const bool is_named = !o.quant_given && !found->quant.empty();
  const auto mix = QuantMix::from_name(is_named ? found->quant : o.quant);
  if (!mix) return fail(mix.error());
  const auto table = make_tensor_table(*model, *mix);
  if (!table) return fail(table.error());
  const OnInterrupt on_interrupt;  // before anything is written, be it to see whether it can be
  if (const auto error = check_outputs({o.file})) return fail(*error);
  const engine::SyntheticFileOptions file{
      o.no_vocabulary ? engine::FileVocabulary::kNone : engine::FileVocabulary::kWords,
      o.zeros ? engine::FileWeights::kZeros : engine::FileWeights::kRandom};
  std::optional<Error> error;
  {
    ProgressLine line;
    const std::string all = text_gib(Bytes{double(table->bytes())});
    const auto progress = [&](std::uint64_t done) {
      line.show(fmt::format("{} of {}", text_gib(Bytes{double(done)}), all));
    };
    error = engine::write_synthetic_file(*model, *table, mix->name(), o.seed, o.file, progress,
                                         stop_flag(), file);
  }
  if (error && interrupted())
    error = Error{ErrorKind::kMachine, fmt::format("interrupted before {} was written", o.file),
                  "nothing of it is kept"};
  if (error) return fail(*error);
  fmt::print("{}: {} {}, {} of {}\n", o.file, model->name, mix->name(),
             text_gib(Bytes{double(table->bytes())}),
             o.zeros ? "zeros, which take no room on the disk" : "random weights");
  return kDone;
}

}  // namespace

void add_synth(CLI::App& app, const OpenCatalogue& open, Run& run) {
  CLI::App* verb =
      app.add_subcommand("synth", "Write a GGUF file of true shape with random weights");
  auto options = std::make_shared<Options>();
  verb->add_option("model", options->model, "a model of the catalogue, or of a config.json")
      ->required();
  CLI::Option* quant = verb->add_option("--quant", options->quant, "quant mix");
  quant->type_name("MIX")->capture_default_str();
  verb->add_option("-o,--output", options->file, "the file to write")
      ->required()
      ->check(not_empty())
      ->type_name("FILE.gguf");
  verb->add_option("--layers", options->layers, "the first N alone, for a smaller file")
      ->check(integer_within(1, 100'000))
      ->type_name("N");
  CLI::Option* seed = verb->add_option("--seed", options->seed, "equal seeds give equal files");
  seed->check(integer_within(0, std::numeric_limits<std::int64_t>::max()))
      ->type_name("N")
      ->capture_default_str();
  verb->add_flag("--no-vocabulary", options->no_vocabulary,
                 "token ids alone, in place of a tokenizer of invented words");
  verb->add_flag("--zeros", options->zeros,
                 "weights of zeros in a sparse file, which takes no room on the disk: to see what "
                 "loads and what memory it takes, not how fast it runs")
      ->excludes(seed);
  verb->footer(
      "Examples\n"
      "  rigcast synth llama-3.2-1b -o 1b.gguf\n"
      "  rigcast synth llama-3.1-70b --zeros -o 70b.gguf\n"
      "  rigcast synth llama-3.1-70b --quant Q6_K --layers 4 -o part.gguf");
  run_with_catalogue(*verb, open, run, [options, quant](const Catalogue& catalogue) {
    options->quant_given = quant->count() > 0;
    return synth_verb(*options, catalogue);
  });
}

}  // namespace rigcast::cli
