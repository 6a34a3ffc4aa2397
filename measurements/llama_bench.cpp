#include "measurements/llama_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

namespace rigcast {
namespace {

using Json = nlohmann::json;

constexpr int kMaxLayers = 1'000'000;

int line_of(std::string_view text, std::size_t at) {
  return 1 + int(std::ranges::count(text.substr(0, at), '\n'));
}

Error not_json(std::string_view text, const std::string& file, std::size_t byte, int line) {
  const std::size_t at = std::min(byte > 0 ? byte - 1 : 0, text.size());
  const auto newline = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
  const std::size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
  return bad_input("this is no JSON",
                   "llama-bench -o json prints an array, -o jsonl one object a line",
                   SourceRef{file, line + line_of(text, at) - 1, int(at - begin) + 1});
}

// The lines on which the objects of an array begin, which a parsed value no longer knows.
std::vector<int> lines_of_objects(std::string_view text) {
  std::vector<int> lines;
  int line = 1;
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    line += c == '\n';
    if (c == '\\' && quoted) {
      ++i;
      continue;
    }
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '{' && depth == 1) lines.push_back(line);
    depth += (c == '{' || c == '[') - (c == '}' || c == ']');
  }
  return lines;
}

FieldRow row_of(const Json& object, const std::string& file, int line) {
  FieldRow field_row(file, line);
  for (const auto& [key, value] : object.items()) {
    if (value.is_string()) field_row.set(key, value.get<std::string>(), line, 1);
    if (value.is_number()) field_row.set(key, value.dump(), line, 1);
    if (value.is_boolean()) field_row.set(key, value.get<bool>() ? "1" : "0", line, 1);
  }
  return field_row;
}

Result<Json> parse(std::string_view text, const std::string& file, int line) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& e) {
    return not_json(text, file, e.byte, line);
  } catch (const Json::exception&) {  // a number beyond what a double holds
    return bad_input("this JSON holds a number out of range", {}, SourceRef{file, line, 1});
  }
}

Result<std::vector<FieldRow>> rows_of_array(std::string_view text, const std::string& file) {
  const auto array = parse(text, file, 1);
  if (!array) return array.error();
  const std::vector<int> lines = lines_of_objects(text);
  std::vector<FieldRow> records;
  for (const Json& item : *array) {
    if (!item.is_object())
      return bad_input("an array of something else than runs", {}, SourceRef{file, 1, 1});
    const std::size_t i = std::min(records.size(), lines.size() - 1);
    records.push_back(row_of(item, file, lines[i]));
  }
  return records;
}

Result<std::vector<FieldRow>> rows_of_lines(std::string_view text, const std::string& file) {
  std::vector<FieldRow> records;
  int line = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view row = text.substr(begin, end - begin);
    begin = end + 1;
    ++line;
    if (row.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const auto object = parse(row, file, line);
    if (!object) return object.error();
    if (!object->is_object())
      return bad_input("a line that is no run", {}, SourceRef{file, line, 1});
    records.push_back(row_of(*object, file, line));
  }
  return records;
}

// "/models/Qwen2.5-7B-Instruct-Q4_K_M-00001-of-00002.gguf" without folder, part and ending.
std::string model_of_file(std::string name) {
  if (const auto slash = name.find_last_of("/\\"); slash != std::string::npos)
    name = name.substr(slash + 1);
  if (const auto dot = name.rfind(".gguf"); dot != std::string::npos) name.resize(dot);
  if (const auto of = name.rfind("-of-"); of != std::string::npos && of > 6) name.resize(of - 6);
  return name;
}

int count_of_gpus(const std::string& gpus) {
  return gpus.empty() ? 0 : 1 + int(std::ranges::count(gpus, ','));
}

// Settings that a Measurement has no field for, in the words that notes of people use.
std::string notes_of(const FieldRow& r) {
  std::string notes = fmt::format("backend={}", r.text("backends"));
  if (r.flag("use_mmap") == false) notes += " mmap=0";
  if (r.flag("no_kv_offload") == true) notes += " nkvo=1";
  if (r.flag("no_op_offload") == true) notes += " nopo=1";
  if (const std::string mode = r.text("split_mode");
      mode == "row" || mode == "tensor" || mode == "graph")
    notes += " split-mode " + mode;
  const std::string split = r.text("tensor_split");
  if (split.find('/') != std::string::npos) notes += " ts=" + split;
  return notes;
}

void read_setup(const FieldRow& r, Measurement& m) {
  m.tool = "llama-bench";
  m.build = fmt::format("{} ({})", r.text("build_number"), r.text("build_commit"));
  m.date = r.text("test_time").substr(0, 10);
  m.cpu = r.text("cpu_info");
  m.gpu = r.text("gpu_info");
  const std::string backends = r.text("backends");
  if (backends == "CPU" || backends == "BLAS") m.gpu.clear();
  m.gpu_count = count_of_gpus(m.gpu);
  m.gpu_layers = r.integer_or_automatic("n_gpu_layers", kMaxLayers);
  m.cpu_moe_layers = r.integer_or_automatic("n_cpu_moe", kMaxLayers);
  m.type_k = r.text("type_k");
  m.type_v = r.text("type_v");
  m.flash_attention = r.flag("flash_attn");
  m.threads = r.integer("n_threads", kMaxLayers);
  m.batch = r.integer("n_batch", 1 << 24);
  m.ubatch = r.integer("n_ubatch", 1 << 24);
  m.notes = notes_of(r);
}

void read_model(const FieldRow& r, Measurement& m) {
  const ModelType type = split_model_type(r.text("model_type"));
  m.model = model_of_file(r.text("model_filename"));
  if (m.model.empty()) m.model = type.model;
  m.quant = type.quant;
  if (const auto bytes = r.number("model_size", 1e15); bytes && *bytes > 0) m.size = Bytes{*bytes};
  if (const auto params = r.number("model_n_params", 1e15)) m.params_b = *params / 1e9;
}

}  // namespace

ModelType split_model_type(std::string_view text) {
  const auto first = text.find(' ');
  const auto second = first == std::string_view::npos ? first : text.find(' ', first + 1);
  if (second == std::string_view::npos) return {std::string(text), {}};
  std::string quant(text.substr(second + 1));
  for (const std::string_view word : {"mostly ", "all "})  // as builds of 2023 put it
    if (quant.rfind(word, 0) == 0) quant.erase(0, word.size());
  return {std::string(text.substr(0, second)), std::move(quant)};
}

Result<std::vector<FieldRow>> llama_bench_json(std::string_view text, const std::string& file) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  const bool array = begin != std::string_view::npos && text[begin] == '[';
  return array ? rows_of_array(text, file) : rows_of_lines(text, file);
}

Result<std::optional<Measurement>> llama_bench_run(const FieldRow& r) {
  Measurement m;
  m.line = r.line();
  read_setup(r, m);
  read_model(r, m);
  m.prompt = r.tokens("n_prompt");
  m.generated = r.tokens("n_gen");
  m.depth = r.tokens("n_depth");
  m.metric = m.generated > 0 ? Metric::kTg : Metric::kPp;
  if (!r.has("avg_ts")) r.refuse("avg_ts", "this run has no speed");
  m.value = r.number("avg_ts", 1e12).value_or(0);
  m.stdev = r.number("stddev_ts", 1e12);
  if (m.prompt == 0 && m.generated == 0)
    r.refuse("n_prompt", "a run without a prompt and without output");
  if (r.error()) return *r.error();
  if (m.prompt > 0 && m.generated > 0) return std::optional<Measurement>{};
  return std::optional<Measurement>{std::move(m)};
}

}  // namespace rigcast
