#include "measurements/read_measurements.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/files/input_file.hpp"
#include "core/text/csv.hpp"
#include "measurements/field_row.hpp"
#include "measurements/llama_bench.hpp"

namespace rigcast {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxBytes = 100 << 20;
constexpr int kMaxLayers = 1'000'000;

bool has_column(const CsvRow& header, std::string_view name) {
  return std::ranges::any_of(header, [&](const CsvField& f) { return f.text == name; });
}

std::optional<Error> missing_columns(const CsvRow& header, std::vector<std::string> needed,
                                     const std::string& file) {
  std::erase_if(needed, [&](const std::string& name) { return has_column(header, name); });
  if (needed.empty()) return std::nullopt;
  return bad_input(fmt::format("no column {}", fmt::join(needed, ", ")),
                   "expected the columns of runtimes/measurements/README.md, or what llama-bench "
                   "prints with -o csv",
                   SourceRef{file, header.front().line, 1});
}

void read_machine(const FieldRow& r, Measurement& m) {
  m.gpu = r.text("gpu");
  m.gpu_count = r.integer("gpu_count", 1000).value_or(m.gpu.empty() || m.gpu == "none" ? 0 : 1);
  m.cpu = r.text("cpu");
  m.ram_type = r.text("ram_type");
  if (const auto rate = r.number("ram_gbps_if_stated", 1e6); rate && *rate > 0)
    m.ram_bandwidth = BytesPerSecond{*rate * 1e9};
  m.pcie = r.text("pcie_if_stated");
  m.os = r.text("os");
}

void read_model(const FieldRow& r, Measurement& m) {
  m.model = r.text("model");
  m.params_b = r.number("params_b", 1e6);
  m.quant = r.text("quant");
  if (const auto gib = r.number("size_gib_if_stated", 1e6); gib && *gib > 0)
    m.size = Bytes{*gib * (1_GiB).value};
}

void read_placement(const FieldRow& r, Measurement& m) {
  m.gpu_layers = r.integer_or_automatic("ngl", kMaxLayers);
  m.layers = r.integer("n_layers", kMaxLayers);
  m.ram_expert_layers = r.integer("n_cpu_moe", kMaxLayers);
  m.kv_location = r.text("kv_location");
  m.type_k = r.text("ctk");
  m.type_v = r.text("ctv");
  m.flash_attention = r.flag("flash_attn");
  m.threads = r.integer("threads", kMaxLayers);
  m.batch = r.integer("batch", 1 << 24);
  m.ubatch = r.integer("ubatch", 1 << 24);
}

void read_figure(const FieldRow& r, Measurement& m) {
  m.depth = r.tokens("depth");
  m.prompt = r.tokens("n_prompt");
  m.generated = r.tokens("n_gen");
  if (const auto metric = metric_from(r.text("metric"))) {
    m.metric = *metric;
  } else {
    r.refuse("metric", "no metric of that name", "known: tg_tps, pp_tps, ttft_s, load_s, vram_gb");
  }
  if (!r.has("value")) r.refuse("value", "this row has no value");
  m.value = r.number("value", 1e12).value_or(0);
  m.stdev = r.number("stdev", 1e12);
}

Result<std::optional<Measurement>> own_run(const FieldRow& r) {
  Measurement m;
  m.line = r.line();
  m.id = r.text("id");
  m.source = r.text("source");
  m.date = r.text("source_date");
  m.tool = r.text("tool");
  m.build = r.text("tool_build");
  m.notes = r.text("notes");
  read_machine(r, m);
  read_model(r, m);
  read_placement(r, m);
  read_figure(r, m);
  if (r.error()) return *r.error();
  return std::optional<Measurement>{std::move(m)};
}

template <class Run>
Result<std::vector<Measurement>> runs_of(const Result<std::vector<FieldRow>>& records, Run run,
                                         const std::string& file,
                                         std::vector<std::string>* skipped) {
  if (!records) return records.error();
  std::vector<Measurement> out;
  for (const FieldRow& field_row : *records) {
    auto measured = run(field_row);
    if (!measured) return measured.error();
    if (*measured) {
      Measurement& m = out.emplace_back(*std::move(*measured));
      if (m.source.empty()) m.source = file;
      if (m.id.empty()) m.id = fmt::format("{}:{}", file, m.line);
    } else if (skipped) {
      skipped->push_back(
          fmt::format("{}:{}: prompt and output measured as one", file, field_row.line()));
    }
  }
  return out;
}

Result<std::vector<Measurement>> parse_table(std::string_view text, const std::string& file,
                                             std::vector<std::string>* skipped) {
  const auto rows = parse_csv(text, file);
  if (!rows) return rows.error();
  if (rows->empty())
    return bad_input("there are no measurements in this file", {}, SourceRef{file, 1, 1});
  const CsvRow& header = rows->front();
  const bool bench = has_column(header, "avg_ts") || has_column(header, "model_filename");
  const auto missing =
      bench ? missing_columns(header, {"model_type", "n_prompt", "n_gen", "n_gpu_layers", "avg_ts"},
                              file)
            : missing_columns(header, {"gpu", "model", "quant", "metric", "value"}, file);
  if (missing) return *missing;
  const auto records = field_rows(*rows, file);
  return bench ? runs_of(records, llama_bench_run, file, skipped)
               : runs_of(records, own_run, file, skipped);
}

}  // namespace

Result<std::vector<Measurement>> parse_measurements(std::string_view text, const std::string& file,
                                                    std::vector<std::string>* skipped) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  const bool json = begin != std::string_view::npos && (text[begin] == '[' || text[begin] == '{');
  if (json) return runs_of(llama_bench_json(text, file), llama_bench_run, file, skipped);
  return parse_table(text, file, skipped);
}

Result<std::vector<Measurement>> read_measurements(const fs::path& path,
                                                   std::vector<std::string>* skipped) {
  const auto text = read_input(path, kMaxBytes);
  if (!text) return text.error();
  return parse_measurements(*text, path.string(), skipped);
}

}  // namespace rigcast
