#include "cli/shared/inspected.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/model/kv_bytes.hpp"
#include "core/text/csv_quote.hpp"
#include "core/text/unit_text.hpp"
#include "report/terminal/text_style.hpp"
#include "report/terminal/wrap_lines.hpp"

namespace rigcast::cli {
namespace {

using Json = nlohmann::ordered_json;

std::uint64_t total_bytes(const Inspected& model) {
  std::uint64_t sum = 0;
  for (const ListedTensor& t : model.tensors) sum += t.bytes;
  return sum;
}

std::uint64_t total_elements(const Inspected& model) {
  std::uint64_t sum = 0;
  for (const ListedTensor& t : model.tensors) sum += t.elements();
  return sum;
}

void add_spec(const ModelSpec& m, Json& out) {
  out["layers"] = m.layers;
  out["hidden"] = m.hidden;
  out["heads"] = m.heads;
  out["kv_heads"] = m.kv_heads;
  out["head_dim"] = m.head_dim;
  out["ffn"] = m.ffn;
  out["vocabulary"] = m.vocabulary;
  out["context"] = m.context;
  out["tied_embeddings"] = m.tied_embeddings;
  if (m.moe)
    out["moe"] = {{"experts", m.moe->experts},
                  {"experts_used", m.moe->experts_used},
                  {"expert_ffn", m.moe->expert_ffn},
                  {"shared_ffn", m.moe->shared_ffn}};
  if (m.window)
    out["window"] = {{"tokens", m.window->tokens}, {"full_every", m.window->full_every}};
}

void add_no_spec(Json& out) {
  for (const char* key : {"layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocabulary",
                          "context", "tied_embeddings"})
    out[key] = nullptr;
}

Json file_json(const FileFacts& file) {
  Json metadata = Json::object();
  for (const FileValue& value : file.metadata)
    metadata[value.key] = std::visit([](const auto& raw) { return Json(raw); }, value.raw);
  return {{"path", file.path},   {"version", file.version},     {"parts", file.parts},
          {"bytes", file.bytes}, {"alignment", file.alignment}, {"metadata", std::move(metadata)}};
}

Json tensors_json(const Inspected& model) {
  Json out = Json::array();
  for (const ListedTensor& t : model.tensors)
    out.push_back({{"name", t.name}, {"shape", t.shape}, {"type", t.type}, {"bytes", t.bytes}});
  return out;
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

}  // namespace

std::uint64_t ListedTensor::elements() const {
  std::uint64_t product = 1;
  for (const std::uint64_t width : shape) product *= width;
  return product;
}

std::string to_json(const Inspected& model) {
  const ModelSpec none;
  const ModelSpec& m = model.spec ? *model.spec : none;
  Json out = {{"schema", "rigcast.model/1"},      {"id", text_or_null(m.id)},
              {"name", text_or_null(m.name)},     {"architecture", text_or_null(m.architecture)},
              {"source", text_or_null(m.source)}, {"quant", text_or_null(model.quant)}};
  if (model.spec) {
    add_spec(m, out);
  } else {
    add_no_spec(out);
  }
  out["parameters"] = total_elements(model);
  out["tensor_bytes"] = total_bytes(model);
  out["active_bytes"] = model.active_bytes ? Json(*model.active_bytes) : Json(nullptr);
  out["kv_bytes_per_token"] = model.spec ? Json(kv_bytes_per_token(m, {})) : Json(nullptr);
  out["kv_bytes_per_token_past_windows"] =
      model.spec ? Json(kv_bytes_per_token_past_windows(m, {})) : Json(nullptr);
  if (model.file) {
    out["file"] = file_json(*model.file);
    out["reason"] = text_or_null(model.reason);
  }
  if (!model.note.empty()) out["note"] = model.note;
  out["tensors"] = tensors_json(model);
  // Names given by the user may hold bytes that are not UTF-8.
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_csv(const Inspected& model) {
  std::string out = "name,shape,type,bytes\n";
  for (const ListedTensor& t : model.tensors) {
    std::string shape;
    for (const auto n : t.shape) shape += (shape.empty() ? "" : "x") + std::to_string(n);
    out += fmt::format("{},{},{},{}\n", csv_quote(t.name), shape, t.type, t.bytes);
  }
  return out;
}

namespace {

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

std::string title_text(const Inspected& model) {
  std::string name = model.spec ? model.spec->name : model.file ? model.file->path : "";
  if (!model.quant.empty()) name += " " + model.quant;
  const double elements = double(total_elements(model));
  const double bytes = double(total_bytes(model));
  return fmt::format("{}   {:.2f} B parameters, {} of tensors, {:.2f} bits a weight\n", name,
                     elements / 1e9, text_gb(Bytes{bytes}),
                     elements > 0 ? 8.0 * bytes / elements : 0.0);
}

std::string spec_text(const Inspected& model) {
  if (!model.spec) return fmt::format("\n  not understood: {}\n\n", model.reason);
  const ModelSpec& m = *model.spec;
  std::string out =
      fmt::format("\n  {}\n  vocabulary {}, trained for {} tokens{}\n", architecture_text(m),
                  text_count(m.vocabulary), text_count(m.context),
                  m.tied_embeddings ? ", tied embeddings" : "");
  if (!model.note.empty()) out += "  " + model.note + "\n";
  if (model.active_bytes) {
    out += fmt::format("  read for one token   {} of weights", text_gb(Bytes{*model.active_bytes}));
    out += fmt::format(" and {} B of KV for every cached one",
                       text_count(std::int64_t(kv_bytes_per_token(m, {}))));
    if (m.window)
      out += fmt::format(",\n                       {} B past the window of {}",
                         text_count(std::int64_t(kv_bytes_per_token_past_windows(m, {}))),
                         text_count(m.window->tokens));
    out += "\n\n";
  } else {
    out += fmt::format("  not understood: {}\n\n", model.reason);
  }
  return out;
}

std::string formats_text(const Inspected& model) {
  std::map<std::string_view, std::pair<int, std::uint64_t>> by_type;
  for (const ListedTensor& t : model.tensors) {
    auto& [count, bytes] = by_type[t.type];
    ++count;
    bytes += t.bytes;
  }
  std::string out = "  format   tensors        bytes\n";
  for (const auto& [name, entry] : by_type)
    out += fmt::format("  {:<8} {:>7} {:>12}\n", name, entry.first,
                       text_gb(Bytes{double(entry.second)}));
  return out;
}

std::string kv_line(const ModelSpec& m, TokenCount tokens) {
  const auto at = [&](QuantFormat f) { return text_gib(Bytes{kv_bytes(m, tokens, {f, f})}); };
  return fmt::format("  {:>9} tokens   {:>9} {:>9} {:>9}\n", text_count(tokens),
                     at(QuantFormat::kF16), at(QuantFormat::kQ8_0), at(QuantFormat::kQ4_0));
}

std::string kv_text(const ModelSpec& m) {
  std::string out = "\n  KV cache                 f16      q8_0      q4_0\n";
  for (const TokenCount tokens : {4096, 16384, 32768, 131072})
    if (tokens <= m.context) out += kv_line(m, tokens);
  if (m.context < 4096) out += kv_line(m, m.context);
  if (m.window)
    out += fmt::format(
        "  layers with a window: its {} tokens alone; llama.cpp keeps a ubatch more (simulate)\n",
        text_count(m.window->tokens));
  return out;
}

std::string file_text(const FileFacts& file, std::size_t tensors) {
  std::string out =
      fmt::format("\n  file   GGUF version {}, {} in {} {}, {} tensors at multiples of {} B\n\n",
                  file.version, text_gb(Bytes{double(file.bytes)}), file.parts,
                  file.parts == 1 ? "part" : "parts", tensors, file.alignment);
  for (const FileValue& v : file.metadata) out += fmt::format("  {} = {}\n", v.key, v.text);
  return out;
}

std::string hint_text(const Inspected& model) {
  if (model.file)
    return fmt::format("\n  rigcast inspect {} --tensors lists every tensor\n", model.file->path);
  return fmt::format("\n  rigcast inspect {} --quant {} --tensors lists every tensor\n",
                     model.spec->id, model.quant);
}

}  // namespace

std::string to_text(const Inspected& model, bool list_tensors, std::size_t width) {
  std::string out = title_text(model) + spec_text(model) + formats_text(model);
  if (model.spec) out += kv_text(*model.spec);
  for (const std::string& warning : model.warnings) out += fmt::format("\n  warning {}\n", warning);
  if (model.file) {
    out += file_text(*model.file, model.tensors.size());
  } else {
    out += fmt::format("\n  source {}\n", model.spec->source);
  }
  out = wrap_lines(out, width, 4);
  if (!list_tensors) return out + hint_text(model);
  out += "\n";
  constexpr std::size_t kWide = 40, kFigures = 26;
  const std::size_t name = width > 0 ? std::min(kWide, width - kFigures) : kWide;
  for (const ListedTensor& t : model.tensors)
    out += fmt::format("  {} {:<6} {:>14} B\n",
                       pad_right(width > 0 ? clip(t.name, name) : t.name, name), t.type, t.bytes);
  return out;
}

}  // namespace rigcast::cli
