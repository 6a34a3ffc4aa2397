#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "cli/interrupt.hpp"
#include "cli/output.hpp"
#include "cli/plan_tools.hpp"
#include "cli/scenario_flags.hpp"
#include "cli/sweep_space.hpp"
#include "cli/verbs.hpp"
#include "cli/workers.hpp"

namespace rigcast::cli {
namespace {

// Scenarios of one process. Its simulated clock goes on from one to the next, which shows in the
// last digits: with pieces that are always the same, results are the same wherever they are made.
constexpr std::int64_t kMostOfPiece = 64;
// So that some hundred cores have something to do; the sweep's size alone decides.
std::int64_t piece_of(std::int64_t size) {
  return std::clamp<std::int64_t>(size / 256, 1, kMostOfPiece);
}

struct Options {
  ScenarioFlags flags;
  OutputOptions output;
  std::string shard = "1/1";
  int jobs = 0;
};

using Json = nlohmann::ordered_json;

struct Sweep {
  TomlDocument base;
  SweepSpace space;
  std::string id;  // of what is swept: results of another one do not go on
};

Result<Sweep> sweep_of(const Options& o) {
  auto base = o.flags.document_without_sets();
  if (!base) return base.error();
  std::vector<SweptKey> keys;
  std::string id = RIGCAST_VERSION + base->text();
  for (const std::string& set : o.flags.sets()) {
    auto key = parse_swept_key(set);
    if (!key) return key.error();
    id += set + "\n";
    if (key->values.size() > 1) {
      keys.push_back(*std::move(key));
    } else if (auto error = base->set(key->key, key->values.front(), "--set " + key->key)) {
      return *error;
    }
  }
  auto space = SweepSpace::make(std::move(keys));
  if (!space) return space.error();
  return Sweep{*std::move(base), *std::move(space),
               fmt::format("{:016x}", std::hash<std::string>{}(id))};
}

// What is known of one scenario, in the order of the columns.
Json row(const Sweep& sweep, std::int64_t index, const Catalogue& catalogue) {
  Json out;
  TomlDocument document = sweep.base.clone();
  const std::vector<std::string> values = sweep.space.values(index);
  std::optional<Error> error;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string& key = sweep.space.keys()[i].key;
    out[key] = values[i];
    if (!error) error = document.set(key, values[i], "--set " + key);
  }
  const auto scenario = error ? Result<Scenario>(*error) : make_scenario(document, catalogue);
  const auto number = [](double v) { return std::isfinite(v) ? Json(v) : Json(); };
  std::optional<Report> report;
  if (scenario) report = forecast_to_rank(std::make_shared<const Scenario>(*scenario));
  const bool fits = report && report->fits;
  out["fits"] = fits;
  out["gpu_layers"] = report ? Json(report->placement.gpu_layers) : Json();
  out["tokens_per_s"] = fits ? number(report->decode_tokens_per_s) : Json();
  out["ttft_s"] = fits ? number(report->ttft()->total().value) : Json();
  out["prefill_tokens_per_s"] = fits ? number(report->prefill_tokens_per_s) : Json();
  double vram = 0, ram = 0;
  if (report)
    for (const DeviceMemory& d : report->memory.devices)
      (d.tier == Tier::kVram ? vram : ram) += d.needed().value;
  out["vram_bytes"] = report ? Json(std::llround(vram)) : Json();
  out["ram_bytes"] = report ? Json(std::llround(ram)) : Json();
  out["longest_context"] = fits ? Json(report->longest_context) : Json();
  out["error"] = scenario ? (fits                     ? ""
                             : report->errors.empty() ? "does not fit"
                                                      : report->errors.front())
                          : scenario.error().message;
  return out;
}

std::string csv_field(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) {
    std::string text = value.get<std::string>(), out = "\"";
    if (text.find_first_of(",\"\n") == std::string::npos) return text;
    for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
    return out + "\"";
  }
  return value.dump();
}

std::string line_of(const Json& row, Format format) {
  if (format != Format::kCsv) return row.dump() + "\n";
  std::string out;
  for (const auto& [key, value] : row.items()) out += (out.empty() ? "" : ",") + csv_field(value);
  return out + "\n";
}

std::string header_of(const Json& row) {
  std::string out;
  for (const auto& [key, value] : row.items()) out += (out.empty() ? "" : ",") + csv_field(key);
  return out + "\n";
}

// Pieces that are done, kept beside the output until all are: "piece bytes\n" and the text.
class Kept {
 public:
  Kept(std::string file, std::string id) : file_(std::move(file)), id_(std::move(id)) {
    if (file_.empty()) return;
    std::ifstream in(file_, std::ios::binary);
    std::string head;
    if (std::getline(in, head) && head == id_) read(in);
    in.close();
    std::string whole = id_ + "\n";
    for (const auto& [piece, text] : pieces_) whole += record(piece, text);
    if (const auto error = write_file(file_, whole)) throw MachineError(error->message);
  }

  bool has(std::int64_t piece) const { return pieces_.contains(piece); }
  std::size_t count() const { return pieces_.size(); }
  void add(std::int64_t piece, const std::string& text) {
    pieces_[piece] = text;
    if (file_.empty()) return;
    std::ofstream out(file_, std::ios::binary | std::ios::app);
    out << record(piece, text);
    if (!out.flush()) throw MachineError("cannot write " + file_);
  }
  std::string all() const {
    std::string out;
    for (const auto& [piece, text] : pieces_) out += text;
    return out;
  }
  void remove() const {
    if (!file_.empty()) std::remove(file_.c_str());
  }

 private:
  void read(std::ifstream& in) {
    std::int64_t piece = 0;
    std::size_t bytes = 0;
    while (in >> piece >> bytes && in.get() == '\n' && bytes < (1u << 30)) {
      std::string text(bytes, '\0');
      if (!in.read(text.data(), std::streamsize(bytes))) return;  // it was cut off here
      pieces_[piece] = std::move(text);
    }
  }
  static std::string record(std::int64_t piece, const std::string& text) {
    return fmt::format("{} {}\n{}", piece, text.size(), text);
  }

  std::string file_, id_;
  std::map<std::int64_t, std::string> pieces_;
};

// Beside a file; a device or a pipe has none.
std::string part_of(const std::string& file) {
  std::error_code ignored;
  const bool special =
      std::filesystem::exists(file, ignored) && !std::filesystem::is_regular_file(file, ignored);
  return file.empty() || special ? "" : file + ".part";
}

int sweep_verb(const Options& o, const Catalogue& catalogue) {
  const auto sweep = sweep_of(o);
  if (!sweep) return fail(sweep.error());
  const auto shard = parse_shard(o.shard);
  if (!shard) return fail(shard.error());
  const Format format = o.output.format == Format::kJson ? Format::kJson : Format::kCsv;
  const std::int64_t size = sweep->space.size(), piece_size = piece_of(size),
                     pieces = (size + piece_size - 1) / piece_size;
  const std::string part = part_of(o.output.file);
  Kept kept(part, fmt::format("{} {} {}", sweep->id, o.shard, int(format)));
  std::vector<std::int64_t> wanted;
  std::int64_t all = 0;
  for (std::int64_t p = shard->index - 1; p < pieces; p += shard->count) {
    ++all;
    if (!kept.has(p)) wanted.push_back(p);
  }
  const bool watched = isatty(STDERR_FILENO);
  const auto progress = [&] {
    if (watched)
      fmt::print(stderr, "\r{} of {} scenarios",
                 std::min<std::int64_t>(size, std::int64_t(kept.count()) * piece_size),
                 std::min(size, all * piece_size));
  };
  const OnInterrupt on_interrupt;
  Pieces how;
  how.work = [&](std::int64_t piece) {
    std::string out;
    for (std::int64_t i = piece * piece_size; i < std::min(size, (piece + 1) * piece_size); ++i)
      out += line_of(row(*sweep, i, catalogue), format);
    return out;
  };
  how.take = [&](std::int64_t piece, const std::string& text) {
    kept.add(piece, text);
    progress();
    return !interrupted();
  };
  const int cores = int(std::max(1u, std::thread::hardware_concurrency()));
  run_pieces(wanted, o.jobs > 0 ? o.jobs : cores, how);
  if (watched) fmt::print(stderr, "\n");
  if (interrupted())
    return fail({ErrorKind::kMachine,
                 fmt::format("interrupted after {} of {} pieces", kept.count(), all),
                 part.empty() ? "with -o FILE it would go on from there"
                              : "the same command goes on from there",
                 {}});
  std::string text = kept.all();
  if (format == Format::kCsv) text = header_of(row(*sweep, 0, catalogue)) + text;
  if (auto error = emit(o.output, text)) return fail(*error);
  kept.remove();
  return kDone;
}

}  // namespace

void add_sweep(CLI::App& app, const OpenCatalogue& open, Run& run) {
  CLI::App* verb = app.add_subcommand("sweep", "Forecast every combination of some keys' values");
  auto o = std::make_shared<Options>();
  o->flags.add_to(*verb);
  o->output.add_to(*verb);
  verb->add_option("--shard", o->shard, "the I-th of N parts, for several machines")
      ->type_name("I/N")
      ->group("Sweep");
  verb->add_option("--jobs", o->jobs, "processes; all cores without it")
      ->check(CLI::Range(1, 4096))
      ->type_name("N")
      ->group("Sweep");
  verb->footer(
      "--set takes lists and ranges here: KEY=A,B,C or KEY=0..32:4. With -o FILE, what was\n"
      "interrupted goes on where it was.\n"
      "Examples\n"
      "  rigcast sweep --gpu rtx-3060-12gb --model llama-3.1-8b --set placement.gpu_layers=0..33\n"
      "  rigcast sweep my.toml --set model.quant=Q4_K_M,Q6_K --set kv.policy=vram,ram -o out.csv\n"
      "  rigcast sweep my.toml --set workload.depth=0..32000:1000 --shard 2/8 -o 2.csv");
  verb->callback([o, open, &run] {
    run = [o, open] {
      const auto catalogue = open();
      return catalogue ? sweep_verb(*o, *catalogue) : fail(catalogue.error());
    };
  });
}

}  // namespace rigcast::cli
