#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "core/kv_cache.hpp"
#include "core/tensor_table.hpp"
#include "core/unit_text.hpp"

namespace rigcast::cli {
namespace {

struct Options {
  std::string model;
  std::string quant = "Q4_K_M";
  bool tensors = false;
  OutputOptions output;
};

std::vector<std::uint64_t> shape_of(const Tensor& t) {
  return {t.shape.begin(), t.shape.begin() + t.dimensions};
}

std::string as_json(const ModelSpec& m, const std::string& quant, const TensorTable& table) {
  using json = nlohmann::ordered_json;
  json tensors = json::array();
  for (const Tensor& t : table.tensors)
    tensors.push_back({{"name", t.name},
                       {"shape", shape_of(t)},
                       {"type", info(t.format).name},
                       {"bytes", t.bytes}});
  json out = {{"schema", "rigcast.model/1"},
              {"id", m.id},
              {"name", m.name},
              {"architecture", m.architecture},
              {"source", m.source},
              {"quant", quant},
              {"layers", m.layers},
              {"hidden", m.hidden},
              {"heads", m.heads},
              {"kv_heads", m.kv_heads},
              {"head_dim", m.head_dim},
              {"ffn", m.ffn},
              {"vocabulary", m.vocabulary},
              {"context", m.context},
              {"tied_embeddings", m.tied_embeddings}};
  if (m.moe)
    out["moe"] = {{"experts", m.moe->experts},
                  {"experts_used", m.moe->experts_used},
                  {"expert_ffn", m.moe->expert_ffn},
                  {"shared_ffn", m.moe->shared_ffn}};
  if (m.window)
    out["window"] = {{"tokens", m.window->tokens}, {"full_every", m.window->full_every}};
  out["parameters"] = table.elements();
  out["tensor_bytes"] = table.bytes();
  out["active_bytes"] = table.active_bytes(m);
  out["kv_bytes_per_token"] = kv_bytes_per_token(m, {});
  out["tensors"] = std::move(tensors);
  return out.dump(2) + "\n";
}

std::string as_csv(const TensorTable& table) {
  std::string out = "name,shape,type,bytes\n";
  for (const Tensor& t : table.tensors) {
    std::string shape;
    for (const auto n : shape_of(t)) shape += (shape.empty() ? "" : "x") + std::to_string(n);
    out += fmt::format("{},{},{},{}\n", t.name, shape, info(t.format).name, t.bytes);
  }
  return out;
}

std::string kv_line(const ModelSpec& m, TokenCount tokens) {
  const auto at = [&](QuantFormat f) { return text_gib(Bytes{kv_bytes(m, tokens, {f, f})}); };
  return fmt::format("  {:>9} tokens   {:>9} {:>9} {:>9}\n", text_count(tokens),
                     at(QuantFormat::kF16), at(QuantFormat::kQ8_0), at(QuantFormat::kQ4_0));
}

std::string architecture_text(const ModelSpec& m) {
  std::string out = fmt::format("{} layers, hidden {}, {} heads of {}, {} KV heads", m.layers,
                                m.hidden, m.heads, m.head_dim, m.kv_heads);
  if (m.ffn > 0) out += fmt::format(", FFN {}", m.ffn);
  if (m.moe)
    out += fmt::format(", {} of {} experts of {}", m.moe->experts_used, m.moe->experts,
                       m.moe->expert_ffn);
  if (m.window) out += fmt::format(", window {}", text_count(m.window->tokens));
  return out;
}

std::string as_text(const ModelSpec& m, const std::string& quant, const TensorTable& table,
                    bool list_tensors) {
  std::map<std::string_view, std::pair<int, std::uint64_t>> by_format;
  for (const Tensor& t : table.tensors) {
    auto& [count, bytes] = by_format[info(t.format).name];
    ++count;
    bytes += t.bytes;
  }
  const double bits = 8.0 * double(table.bytes()) / double(table.elements());
  std::string out = fmt::format(
      "{} {}   {:.2f} B parameters, {} of tensors, {:.2f} bits a weight\n", m.name, quant,
      double(table.elements()) / 1e9, text_gb(Bytes{double(table.bytes())}), bits);
  out += fmt::format("\n  {}\n  vocabulary {}, trained for {} tokens{}\n", architecture_text(m),
                     text_count(m.vocabulary), text_count(m.context),
                     m.tied_embeddings ? ", tied embeddings" : "");
  out += fmt::format("  read for one token   {} of weights", text_gb(Bytes{table.active_bytes(m)}));
  out += fmt::format(" and {:.0f} B of KV for every cached one\n\n", kv_bytes_per_token(m, {}));
  out += "  format   tensors        bytes\n";
  for (const auto& [name, entry] : by_format)
    out += fmt::format("  {:<8} {:>7} {:>12}\n", name, entry.first,
                       text_gb(Bytes{double(entry.second)}));
  out += "\n  KV cache                 f16      q8_0      q4_0\n";
  for (const TokenCount tokens : {4096, 16384, 32768, 131072})
    if (tokens <= m.context) out += kv_line(m, tokens);
  out += fmt::format("\n  source {}\n", m.source);
  if (list_tensors) {
    out += "\n";
    for (const Tensor& t : table.tensors)
      out += fmt::format("  {:<40} {:<6} {:>14} B\n", t.name, info(t.format).name, t.bytes);
  } else {
    out += fmt::format("\n  rigcast inspect {} --quant {} --tensors lists every tensor\n", m.id,
                       quant);
  }
  return out;
}

int inspect_verb(const Options& options, const Catalogue& catalogue) {
  const auto model = catalogue.model(options.model);
  if (!model) return fail(model.error());
  const auto mix = QuantMix::from_name(options.quant);
  if (!mix) return fail(mix.error());
  const auto table = make_tensor_table(*model, *mix);
  if (!table) return fail(table.error());
  std::string out;
  switch (options.output.format) {
    case Format::kText: out = as_text(*model, mix->name(), *table, options.tensors); break;
    case Format::kJson: out = as_json(*model, mix->name(), *table); break;
    case Format::kCsv: out = as_csv(*table); break;
  }
  if (auto error = emit(options.output, out)) return fail(*error);
  return kDone;
}

}  // namespace

void add_inspect(CLI::App& app, const OpenCatalogue& open, Run& run) {
  CLI::App* verb = app.add_subcommand("inspect", "Show a model's tensors, sizes and KV bytes");
  auto options = std::make_shared<Options>();
  verb->add_option("model", options->model, "a model of the catalogue")
      ->required()
      ->type_name("MODEL");
  verb->add_option("--quant", options->quant, "quant mix")->capture_default_str()->type_name("MIX");
  verb->add_flag("--tensors", options->tensors, "list every tensor");
  options->output.add_to(*verb);
  verb->callback([options, open, &run] {
    run = [options, open] {
      const auto catalogue = open();
      return catalogue ? inspect_verb(*options, *catalogue) : fail(catalogue.error());
    };
  });
}

}  // namespace rigcast::cli
