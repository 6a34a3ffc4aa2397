#include <fmt/format.h>

#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/shared/output.hpp"
#include "cli/verbs.hpp"
#include "engine/tokenizer/file_vocabulary.hpp"

namespace rigcast::cli {
namespace {

struct Options {
  std::string weights;
  std::string text;
  bool no_special = false;
  OutputOptions output;
};

// A token in readable form, on one line.
std::string shown(std::string_view piece) {
  return nlohmann::json(std::string(piece))
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string render(const std::vector<engine::TokenId>& ids, const engine::Tokenizer& tokenizer,
                   Format format) {
  if (format == Format::kJson) {
    nlohmann::ordered_json tokens = nlohmann::ordered_json::array();
    for (const engine::TokenId id : ids)
      tokens.push_back({{"id", id}, {"text", std::string(tokenizer.piece(id))}});
    const nlohmann::ordered_json all = {{"schema", "rigcast.tokens/1"}, {"tokens", tokens}};
    return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  std::string out = format == Format::kCsv ? "id,text\n" : "";
  for (const engine::TokenId id : ids)
    out += format == Format::kCsv ? fmt::format("{},{}\n", id, shown(tokenizer.piece(id)))
                                  : fmt::format("{:>7}  {}\n", id, shown(tokenizer.piece(id)));
  return out;
}

int tokenize_verb(const Options& o) {
  const auto file = engine::GgufFile::open(o.weights);
  if (!file) return fail(file.error());
  const auto tokenizer = engine::file_tokenizer(*file);
  if (!tokenizer) return fail(tokenizer.error());
  if (!*tokenizer) return fail(bad_input("the file has no vocabulary", {}, SourceRef{o.weights}));
  std::string text = o.text;
  if (text == "-") text.assign(std::istreambuf_iterator<char>(std::cin), {});
  for (const std::string& warning : (*tokenizer)->warnings())
    std::cerr << "rigcast: " << warning << '\n';
  const auto ids = (*tokenizer)->encode(text, {!o.no_special, !o.no_special});
  if (auto error = emit(o.output, render(ids, **tokenizer, o.output.format))) return fail(*error);
  return kDone;
}

}  // namespace

void add_tokenize(CLI::App& app, const OpenCatalogue&, Run& run) {
  CLI::App* verb = app.add_subcommand("tokenize", "Show the tokens of a text");
  auto options = std::make_shared<Options>();
  verb->add_option("--weights", options->weights, "a GGUF file with a vocabulary")
      ->required()
      ->type_name("FILE");
  verb->add_option("text", options->text, "what to tokenize; - reads standard input")->required();
  verb->add_flag("--no-special", options->no_special,
                 "add no token of the model's own, and read none in the text");
  options->output.add_to(*verb);
  verb->footer("Example\n  rigcast tokenize --weights model.gguf \"Hello, world\"");
  verb->callback([options, &run] { run = [options] { return tokenize_verb(*options); }; });
}

}  // namespace rigcast::cli
