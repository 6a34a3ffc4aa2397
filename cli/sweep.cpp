#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "cli/html/page_output.hpp"
#include "cli/shared/flag_checks.hpp"
#include "cli/shared/output.hpp"
#include "cli/shared/plan_tools.hpp"
#include "cli/shared/same_file.hpp"
#include "cli/shared/scenario_flags.hpp"
#include "cli/sweep/inputs.hpp"
#include "cli/sweep/job_script.hpp"
#include "cli/sweep/lines.hpp"
#include "cli/sweep/merge.hpp"
#include "cli/sweep/part.hpp"
#include "cli/sweep/shard.hpp"
#include "cli/sweep/shard_file.hpp"
#include "cli/sweep/space.hpp"
#include "cli/verbs.hpp"
#include "core/files/interrupt.hpp"
#include "core/text/unit_text.hpp"
#include "report/json_values.hpp"
#include "report/terminal/progress_line.hpp"
#include "sim/workers.hpp"

namespace rigcast::cli {
namespace {

// Scenarios of one process. Its simulated clock goes on from one to the next, which shows in the
// last digits: with pieces that are always the same, results are the same wherever they are made.
constexpr std::int64_t kMaxPieceShare = 64;
// So that some hundred cores have something to do; the sweep's size alone decides.
std::int64_t piece_of(std::int64_t size) {
  return std::clamp<std::int64_t>(size / 256, 1, kMaxPieceShare);
}

struct Options {
  ScenarioFlags flags;
  OutputOptions output;
  std::string shard;  // empty: the whole
  std::vector<std::string> merge;
  std::string emit;
  int shards = 0;  // of a script
  int jobs = 0;
  bool restart = false;
};

using Json = nlohmann::ordered_json;

struct Sweep {
  TomlDocument base;
  SweepSpace space;
  std::string words;  // all that was asked for
};

Result<Sweep> sweep_of(const Options& o) {
  auto base = o.flags.document_without_sets();
  if (!base) return base.error();
  std::vector<SweptKey> keys;
  std::string words = base->text();
  std::set<std::string> given;
  for (const std::string& set : o.flags.sets()) {
    auto key = parse_swept_key(set);
    if (!key) return key.error();
    if (!given.insert(key->key).second)
      return bad_input(fmt::format("--set {}: given twice", key->key),
                       "all its values belong into one list");
    words += set + "\n";
    if (key->values.size() > 1) {
      keys.push_back(*std::move(key));
    } else if (auto error = base->set(key->key, key->values.front(), "--set " + key->key)) {
      return *error;
    }
  }
  auto space = SweepSpace::make(std::move(keys));
  if (!space) return space.error();
  return Sweep{*std::move(base), *std::move(space), std::move(words)};
}

Result<Scenario> scenario_at(const Sweep& sweep, std::int64_t index, const Catalogue& catalogue) {
  TomlDocument document = sweep.base.clone();
  const std::vector<std::string> values = sweep.space.values(index);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string& key = sweep.space.keys()[i].key;
    if (auto error = document.set(key, values[i], "--set " + key)) return *error;
  }
  auto scenario = make_scenario(document, catalogue);
  if (scenario)
    if (auto error = check_no_load(scenario->load)) return *error;
  return scenario;
}

// The results of one scenario, in the order of the columns.
Json row(const Sweep& sweep, std::int64_t index, const Catalogue& catalogue) {
  Json out;
  const std::vector<std::string> values = sweep.space.values(index);
  for (std::size_t i = 0; i < values.size(); ++i) out[sweep.space.keys()[i].key] = values[i];
  const auto scenario = scenario_at(sweep, index, catalogue);
  std::optional<Report> report;
  if (scenario) report = forecast_to_rank(std::make_shared<const Scenario>(*scenario));
  const bool fits = report && report->fits;
  out["fits"] = fits;
  out["gpu_layers"] = report ? Json(report->placement.gpu_layers) : Json();
  out["tokens_per_s"] = fits ? json_number(report->decode_tokens_per_s) : Json();
  out["ttft_s"] = fits ? json_number(report->ttft()->total().value) : Json();
  out["prefill_tokens_per_s"] = fits ? json_number(report->prefill_tokens_per_s) : Json();
  double vram = 0, ram = 0;
  if (report)
    for (const DeviceMemory& d : report->memory.devices)
      (d.tier == Tier::kVram ? vram : ram) += d.needed().value;
  out["vram_bytes"] = report ? Json(std::llround(vram)) : Json();
  out["ram_bytes"] = report ? Json(std::llround(ram)) : Json();
  out["longest_context"] = fits ? Json(report->max_context) : Json();
  out["error"] = scenario ? (fits                     ? ""
                             : report->errors.empty() ? "does not fit"
                                                      : report->errors.front())
                          : scenario.error().message;
  return out;
}

// Why no scenario can be made with value `value` of key `key`; nullopt: one can, or there are too
// many to try.
std::optional<Error> check_value(const Sweep& sweep, std::size_t key, std::int64_t value,
                                 const Catalogue& catalogue) {
  constexpr std::int64_t kMaxTries = 2000;
  const std::int64_t size = sweep.space.size_with(key);
  std::optional<Error> first;
  for (std::int64_t i = 0; i < std::min(size, kMaxTries); ++i) {
    const auto scenario = scenario_at(sweep, sweep.space.index_with(key, value, i), catalogue);
    if (scenario) return std::nullopt;
    if (!first) first = scenario.error();
  }
  return size <= kMaxTries ? first : std::nullopt;
}

// A value with which no scenario can be made is a mistake, and is told before the others are
// forecast. Of a long range, 256 are looked at: the column of errors tells of the others.
std::optional<Error> check_values(const Sweep& sweep, const Catalogue& catalogue) {
  const std::vector<SweptKey>& keys = sweep.space.keys();
  const auto first = scenario_at(sweep, 0, catalogue);
  if (first) warn_of_hours(*first);
  if (keys.empty() && !first) return first.error();
  for (std::size_t k = 0; k < keys.size(); ++k) {
    const auto count = std::int64_t(keys[k].values.size());
    for (std::int64_t v = 0; v < count; v += std::max<std::int64_t>(1, count / 256))
      if (auto error = check_value(sweep, k, v, catalogue)) return error;
  }
  return std::nullopt;
}

Result<SweepPart> part_of(const Options& o, const Sweep& sweep, Shard shard,
                          const Catalogue& catalogue) {
  std::error_code ignored;
  if (std::filesystem::is_directory(o.output.file, ignored))
    return bad_input(fmt::format("-o {}: that is a folder", o.output.file), "name a file in it");
  if (const auto error = check_outputs({o.output.file})) return *error;
  const std::string words = fmt::format("{} {}/{} {}{}", sweep.words, shard.index, shard.count,
                                        int(o.output.format), o.output.html.empty() ? "" : " page");
  return SweepPart::open(part_file(o.output.file),
                         {fmt::format("{:016x}", std::hash<std::string>{}(words)),
                          inputs_id(catalogue, sweep.base, sweep.space.keys())},
                         o.restart);
}

// The pieces of a shard: which, of all.
struct Share {
  PieceCount all;
  std::vector<std::int64_t> pieces;

  std::int64_t size() const {  // scenarios
    return std::min(all.scenarios, std::int64_t(pieces.size()) * all.piece_size);
  }
};

Share share_of(std::int64_t scenarios, Shard shard) {
  Share share{{scenarios, piece_of(scenarios)}, {}};
  for (std::int64_t p = shard.index - 1; p < share.all.pieces(); p += shard.count)
    share.pieces.push_back(p);
  return share;
}

// What is printed, piece by piece. In the part of a sweep, the first line of a piece says how many
// of its scenarios cannot be made.
struct Lines {
  std::int64_t refused = 0;
  std::string header;
  std::vector<std::string> pieces;

  std::string text() const { return fmt::format("{}{}", header, fmt::join(pieces, "")); }
};

Lines lines_of(const SweepPart& part) {
  Lines all;
  for (const auto& [piece, text] : part.pieces()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1);
    all.refused += std::strtoll(text.c_str(), nullptr, 10);
    all.pieces.push_back(text.substr(end + 1));
  }
  return all;
}

// Until all that is wanted is in `part`, or an interrupt comes. `line_of`: of a scenario's results.
void run_share(const Sweep& sweep, const Share& share,
               const std::function<std::string(const Json&)>& line_of, int jobs,
               const Catalogue& catalogue, SweepPart& part) {
  std::vector<std::int64_t> wanted;
  for (const std::int64_t p : share.pieces)
    if (!part.has(p)) wanted.push_back(p);
  sim::Pieces how;
  how.work = [&](std::int64_t piece) {
    std::int64_t refused = 0;
    std::string lines;
    const std::int64_t first = piece * share.all.piece_size;
    const std::int64_t end = std::min(share.all.scenarios, first + share.all.piece_size);
    for (std::int64_t i = first; i < end; ++i) {
      const Json made = row(sweep, i, catalogue);
      refused += made.at("gpu_layers").is_null() ? 1 : 0;
      lines += line_of(made);
    }
    return fmt::format("{}\n{}", refused, lines);
  };
  how.take = [&](std::int64_t piece, const std::string& text) {
    part.add(piece, text);
    const std::int64_t done = std::int64_t(part.pieces().size()) * share.all.piece_size;
    show_progress(fmt::format("{} of {} scenarios", std::min(done, share.size()), share.size()));
    return !interrupted();
  };
  how.stop = stop_flag();
  const int cores = int(std::max(1u, std::thread::hardware_concurrency()));
  sim::run_pieces(wanted, jobs > 0 ? jobs : cores, how);
  show_progress("");
}

constexpr std::int64_t kMaxPageRows = 20'000;

Error too_many_for_page(std::int64_t rows) {
  return bad_input(fmt::format("--html: a page holds {} combinations, these are {}",
                               text_count(kMaxPageRows), text_count(rows)),
                   "fewer values, a part of them (--shard 1/8), or -o FILE without --html");
}

// Refers to both, which must outlive it.
Answer page_of(const std::vector<std::string>& keys, const std::vector<Json>& rows) {
  const auto render = [&](const OutputOptions& form) {
    return form.format == Format::kJson ? sweep_json(keys, rows) : sweep_text(rows);
  };
  return {fmt::format("A sweep of {} combinations", rows.size()), render};
}

std::vector<std::string> names_of(const SweepSpace& space) {
  std::vector<std::string> out;
  for (const SweptKey& key : space.keys()) out.push_back(key.key);
  return out;
}

// The page of lines that are dumped objects, which become those that are printed.
std::optional<Error> write_page(const OutputOptions& output, const SweepSpace& space, Format format,
                                Lines& lines) {
  std::vector<Json> all;
  for (std::string& piece : lines.pieces) {
    std::vector<Json> rows = rows_of(piece);
    piece.clear();
    for (const Json& made : rows) piece += line_of(made, format);
    std::ranges::move(rows, std::back_inserter(all));
  }
  return write_html(output, page_of(names_of(space), all));
}

ShardFile shard_file_of(const Sweep& sweep, Shard shard, const Share& share, Format format,
                        const Lines& lines, const Catalogue& catalogue) {
  const SharedInputs inputs = shared_inputs(catalogue, sweep.base, sweep.space.keys());
  ShardFile out{.shard = shard,
                .sweep_id = fmt::format("{:016x}", std::hash<std::string>{}(sweep.words)),
                .program_id = inputs.program,
                .inputs_id = inputs.files,
                .format = format,
                .keys = names_of(sweep.space),
                .all = share.all,
                .refused = lines.refused,
                .header_bytes = std::int64_t(lines.header.size()),
                .piece_bytes = {},
                .output_hash = output_hash(lines.text())};
  for (const std::string& piece : lines.pieces)
    out.piece_bytes.push_back(std::int64_t(piece.size()));
  return out;
}

int end_of(std::int64_t refused, std::int64_t scenarios) {
  if (refused == 0) return kDone;
  return fail({ErrorKind::kDoesNotFit,
               fmt::format("{} of {} combinations make no scenario", refused, scenarios),
               "the column \"error\" says why",
               {}});
}

int interrupted_after(std::size_t done, std::size_t all, const std::string& file) {
  return fail({ErrorKind::kMachine,
               fmt::format("interrupted after {} of {} pieces", done, all),
               part_file(file).empty() ? "with -o FILE it would go on from there"
                                       : "the same command goes on from there",
               {}});
}

int run_sweep(const Options& o, const Sweep& sweep, const Catalogue& catalogue) {
  const OnInterrupt on_interrupt;
  const auto shard = o.shard.empty() ? Shard{} : parse_shard(o.shard, std::getenv);
  if (!shard) return fail(shard.error());
  auto part = part_of(o, sweep, *shard, catalogue);
  if (!part) return fail(part.error());
  const Format format = o.output.format == Format::kJson ? Format::kJson : Format::kCsv;
  const Share share = share_of(sweep.space.size(), *shard);
  const bool has_page = !o.output.html.empty();
  if (has_page && share.size() > kMaxPageRows) return fail(too_many_for_page(share.size()));
  run_share(
      sweep, share,
      [&](const Json& made) { return has_page ? made.dump() + "\n" : line_of(made, format); },
      o.jobs, catalogue, *part);
  if (part->pieces().size() < share.pieces.size())
    return interrupted_after(part->pieces().size(), share.pieces.size(), o.output.file);
  Lines lines = lines_of(*part);
  if (has_page)
    if (auto error = write_page(o.output, sweep.space, format, lines)) return fail(*error);
  if (format == Format::kCsv) lines.header = header_of(row(sweep, 0, catalogue));
  if (!o.shard.empty() && !part_file(o.output.file).empty())
    if (auto error = write_shard_file(
            o.output.file, shard_file_of(sweep, *shard, share, format, lines, catalogue)))
      return fail(*error);
  if (auto error = emit(o.output, lines.text())) return fail(*error);
  part->remove();
  return end_of(lines.refused, share.size());
}

int emit_script(const Options& o, const Sweep& sweep) {
  if (!o.shard.empty() || !o.output.html.empty())
    return fail(bad_input("--emit prints a script for all shards: neither --shard nor --html",
                          "--shards 8 says how many; a page is of --merge"));
  SweepJob job{{"rigcast", "sweep"}, o.output.file, sweep.space.size(), o.shards, o.jobs};
  if (job.output.empty()) job.output = "sweep.csv";
  for (std::string& word : o.flags.words()) job.words.push_back(std::move(word));
  if (o.output.format == Format::kJson) job.words.insert(job.words.end(), {"--format", "json"});
  const auto script = job_script(o.emit, job);
  if (!script) return fail(script.error());
  if (auto error = emit(OutputOptions{}, *script)) return fail(*error);
  return kDone;
}

int sweep_verb(const Options& o, const Catalogue& catalogue) {
  if (const auto error = check_html(o.output)) return fail(*error);
  const auto sweep = sweep_of(o);
  if (!sweep) return fail(sweep.error());
  if (const auto error = check_values(*sweep, catalogue)) return fail(*error);
  return o.emit.empty() ? run_sweep(o, *sweep, catalogue) : emit_script(o, *sweep);
}

std::optional<Error> write_merged_page(const OutputOptions& output, const MergedShards& merged) {
  if (merged.scenarios > kMaxPageRows) return too_many_for_page(merged.scenarios);
  const std::string text = fmt::format("{}{}", merged.header, fmt::join(merged.pieces, ""));
  const auto rows =
      merged.format == Format::kJson ? Result(rows_of(text)) : rows_of_csv(text, merged.keys);
  return rows ? write_html(output, page_of(merged.keys, *rows)) : rows.error();
}

int merge_verb(const Options& o) {
  if (!o.flags.words().empty() || !o.shard.empty() || !o.emit.empty() || o.restart)
    return fail(bad_input("--merge takes files of shards, and no flags of a sweep",
                          "rigcast sweep --merge out.*.csv -o all.csv"));
  if (const auto error = check_html(o.output, o.merge)) return fail(*error);
  if (const auto error = check_outputs({o.output.file})) return fail(*error);
  for (const std::string& file : o.merge)
    if (is_same_file(file, o.output.file))
      return fail(bad_input(fmt::format("-o {}: that is one of the shards", file),
                            "another name: all shards stay as they are"));
  const auto merged = merge_shards(o.merge);
  if (!merged) return fail(merged.error());
  if (!o.output.html.empty())
    if (auto error = write_merged_page(o.output, *merged)) return fail(*error);
  const std::string text = fmt::format("{}{}", merged->header, fmt::join(merged->pieces, ""));
  if (auto error = emit(o.output, text)) return fail(*error);
  return end_of(merged->refused, merged->scenarios);
}

}  // namespace

void add_sweep(CLI::App& app, const OpenCatalogue& open, Run& run) {
  CLI::App* verb = app.add_subcommand("sweep", "Forecast every combination of some keys' values");
  auto o = std::make_shared<Options>();
  o->flags.add_to(*verb);
  o->output.add_to(*verb);
  add_html(*verb, o->output);
  verb->add_option("--shard", o->shard,
                   "the I-th of N parts, for several machines; auto: the task of the job array of "
                   "Slurm, Grid Engine or LSF; auto/N also of PBS and GNU parallel")
      ->check(not_empty())
      ->type_name("I/N")
      ->group("Sweep");
  verb->add_option("--merge", o->merge, "the shards' files as the whole sweep")
      ->type_name("FILE...")
      ->group("Sweep");
  verb->add_option("--emit", o->emit,
                   "slurm, parallel, snakemake or condor: print a job script for all shards")
      ->check(not_empty())
      ->type_name("ENGINE")
      ->group("Sweep");
  verb->add_option("--shards", o->shards, "how many shards the script has; by size without it")
      ->check(integer_within(1, 1'000'000))
      ->type_name("N")
      ->group("Sweep");
  verb->add_option("--jobs", o->jobs, "processes; all cores without it")
      ->check(integer_within(1, 4096))
      ->type_name("N")
      ->group("Sweep");
  verb->add_flag("--restart", o->restart,
                 "throw away what an interrupted sweep of other scenarios left in FILE.part")
      ->group("Sweep");
  verb->footer(
      "--set takes lists and ranges here: KEY=A,B,C or KEY=0..32:4. With -o FILE, what was\n"
      "interrupted goes on where it was: FILE.part holds what is done. Ends with 1 if a "
      "combination\n"
      "makes no scenario. A shard leaves FILE.shard beside FILE, by which --merge checks all.\n"
      "Examples\n"
      "  rigcast sweep --gpu rtx-3060-12gb --model llama-3.1-8b --set placement.gpu_layers=0..33\n"
      "  rigcast sweep my.toml --set model.quant=Q4_K_M,Q6_K --set kv.policy=vram,ram -o out.csv\n"
      "  rigcast sweep my.toml --set workload.depth=0..32000:1000 --shard 2/8 -o out.2.csv\n"
      "  rigcast sweep --merge out.{1..8}.csv -o out.csv\n"
      "  rigcast sweep my.toml --set workload.depth=0..32000:1000 --emit slurm --shards 8");
  verb->callback([o, open, &run] {
    run = [o, open] {
      if (!o->merge.empty()) return merge_verb(*o);
      const auto catalogue = open();
      return catalogue ? sweep_verb(*o, *catalogue) : fail(catalogue.error());
    };
  });
}

}  // namespace rigcast::cli
