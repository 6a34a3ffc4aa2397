#include "tests/peers/llama_bench/output.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace llama_bench {
namespace {

using Json = nlohmann::ordered_json;

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / double(values.size());
}

double deviation(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  double sum = 0;
  for (const double v : values) sum += (v - mean(values)) * (v - mean(values));
  return std::sqrt(sum / double(values.size() - 1));
}

std::string split_text(const std::vector<float>& shares) {
  std::string out;
  for (const float share : shares.empty() ? std::vector{0.0f} : shares) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", double(share));
    out += (out.empty() ? "" : "/") + std::string(text);
  }
  return out;
}

std::string overrides_text(const std::vector<Override>& overrides) {
  std::string out;
  for (const Override& o : overrides)
    out += (out.empty() ? "" : ";") + o.pattern + "=" + o.buffer_type;
  return out.empty() ? "none" : out;
}

Json library_json(const TestResult& r) {
  Json buffers = Json::array(), gpus = Json::array(), samples = Json::array();
  for (const Buffer& b : r.buffers)
    buffers.push_back({{"name", b.name}, {"kind", b.kind}, {"bytes", b.bytes}});
  for (const UsedMemory& g : r.gpus)
    gpus.push_back({{"name", g.device},
                    {"free_before", g.free_before},
                    {"free_after", g.free_after},
                    {"total", g.total}});
  for (const Sample& s : r.samples) samples.push_back(s.library_ns);
  return {{"load_ns", r.load_ns}, {"samples_ns", samples}, {"buffers", buffers}, {"gpus", gpus}};
}

Json to_json(const TestResult& r, const Library& library) {
  const Test& t = r.test;
  std::vector<double> ns, per_s;
  for (const Sample& s : r.samples) {
    ns.push_back(double(s.ns));
    per_s.push_back(r.tokens_per_s(s));
  }
  Json out = {{"build_commit", library.release()},
              {"build_number", library.build_number()},
              {"cpu_info", library.cpu_names()},
              {"gpu_info", library.gpu_names()},
              {"backends", library.backends()},
              {"model_filename", t.model.file},
              {"model_type", r.model_type},
              {"model_size", r.model_size},
              {"model_n_params", r.model_n_params},
              {"n_batch", t.n_batch},
              {"n_ubatch", t.n_ubatch},
              {"n_threads", t.threads},
              {"cpu_mask", "0x0"},
              {"cpu_strict", false},
              {"poll", 50},
              {"type_k", t.type_k.name},
              {"type_v", t.type_v.name},
              {"n_gpu_layers", r.gpu_layers},
              {"n_cpu_moe", t.model.cpu_moe_layers},
              {"split_mode", kSplitModes[t.model.split_mode]},
              {"main_gpu", t.model.main_gpu},
              {"no_kv_offload", t.no_kv_offload},
              {"flash_attn", t.flash_attn},
              {"devices", "auto"},
              {"tensor_split", split_text(t.model.tensor_split)},
              {"tensor_buft_overrides", overrides_text(t.model.overrides)},
              {"load_mode", t.model.load_mode},
              {"use_mmap",
               t.model.load_mode == "auto" || t.model.load_mode.find("mmap") != std::string::npos},
              {"embeddings", false},
              {"no_op_offload", int(t.no_op_offload)},
              {"no_host", false},
              {"n_prompt", t.n_prompt},
              {"n_gen", t.n_gen},
              {"n_depth", t.n_depth},
              {"test_time", r.time},
              {"avg_ns", std::llround(mean(ns))},
              {"stddev_ns", std::llround(deviation(ns))},
              {"avg_ts", mean(per_s)},
              {"stddev_ts", deviation(per_s)},
              {"samples_ns", Json::array()},
              {"samples_ts", per_s}};
  for (const Sample& s : r.samples) out["samples_ns"].push_back(s.ns);
  out["library"] = library_json(r);
  return out;
}

std::string dump(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// Texts and numbers in quotes, without lists.
std::string csv_line(const Json& json, bool names) {
  std::string out;
  for (const auto& [name, value] : json.items()) {
    if (value.is_structured()) continue;
    std::string text = names ? name : value.is_string() ? value.get<std::string>() : dump(value);
    for (std::size_t i = 0; (i = text.find('"', i)) != std::string::npos; i += 2)
      text.insert(i, "\"");
    out += (out.empty() ? "" : ",") + (names ? text : "\"" + text + "\"");
  }
  return out;
}

std::string test_name(const Test& t) {
  const std::string pp = std::to_string(t.n_prompt), tg = std::to_string(t.n_gen);
  std::string out = t.n_gen == 0 ? "pp" + pp : t.n_prompt == 0 ? "tg" + tg : "pp" + pp + "+tg" + tg;
  return out + (t.n_depth > 0 ? " @ d" + std::to_string(t.n_depth) : "");
}

void print_markdown(const TestResult& r, const Json& json, bool has_header, std::FILE* file) {
  if (!has_header)
    std::fprintf(
        file,
        "| model                          |       size |     params | backend    | threads "
        "|            test |                  t/s |\n"
        "| ------------------------------ | ---------: | ---------: | ---------- | ------: "
        "| --------------: | -------------------: |\n");
  std::fprintf(file, "| %-30s | %6.2f GiB | %8.2f B | %-10s | %7d | %15s | %11.2f ± %6.2f |\n",
               r.model_type.c_str(), double(r.model_size) / (1 << 30),
               double(r.model_n_params) / 1e9, json["backends"].get<std::string>().c_str(),
               r.test.threads, test_name(r.test).c_str(), json["avg_ts"].get<double>(),
               json["stddev_ts"].get<double>());
}

}  // namespace

void Output::print(const TestResult& result, const Library& library) {
  const Json json = to_json(result, library);
  switch (format_) {
    case Format::kNone: return;
    case Format::kJsonl: std::fprintf(file_, "%s\n", dump(json).c_str()); break;
    case Format::kJson:
      std::fprintf(file_, "%s%s", has_printed_ ? ",\n" : "[\n", dump(json, 2).c_str());
      break;
    case Format::kCsv:
      if (!has_printed_) std::fprintf(file_, "%s\n", csv_line(json, true).c_str());
      std::fprintf(file_, "%s\n", csv_line(json, false).c_str());
      break;
    case Format::kMarkdown: print_markdown(result, json, has_printed_, file_); break;
  }
  has_printed_ = true;
  std::fflush(file_);
}

void Output::end() {
  if (format_ == Format::kJson && has_printed_) std::fprintf(file_, "\n]\n");
}

}  // namespace llama_bench
