#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "cli/html/page_output.hpp"
#include "cli/load/plan_load.hpp"
#include "cli/shared/output.hpp"
#include "cli/shared/plan_tools.hpp"
#include "cli/shared/scenario_flags.hpp"
#include "cli/verbs.hpp"
#include "core/catalogue/price_list.hpp"
#include "perfmodel/memory.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "planner/commands.hpp"
#include "planner/output/plan_csv.hpp"
#include "planner/output/plan_json.hpp"
#include "planner/output/plan_text.hpp"
#include "planner/server_commands.hpp"
#include "planner/shortage.hpp"
#include "report/report_words.hpp"
#include "report/terminal/progress_line.hpp"

namespace rigcast::cli {
namespace {

struct Options {
  ScenarioFlags flags;
  OutputOptions output;
  ConstraintFlags constraints;
  std::string emit;
};

// The keys that the option settles, in the scenario file that was asked about.
std::string scenario_file(const TomlDocument& document, const Scenario& base,
                          const planner::RankedPlan& ranked) {
  TomlDocument out = document.clone();
  const planner::Candidate& o = ranked.candidate;
  const auto set = [&](const char* key, const std::string& value) { out.set(key, value, "plan"); };
  const auto type = [](QuantFormat f) { return toml_text(info(f).name); };
  std::string shares;
  for (const double share : o.placement.tensor_split)
    shares += fmt::format("{}{:#}", shares.empty() ? "[" : ", ", share);
  shares += "]";
  if (!ranked.report.scenario->model_file) set("model.quant", toml_text(o.quant));
  set("kv.type_k", type(o.kv_types.k));
  set("kv.type_v", type(o.kv_types.v));
  set("kv.policy", toml_text(name(o.policy)));
  set("runtime.ubatch", fmt::format("{}", o.ubatch));
  if (o.threads != base.settings.threads) set("runtime.threads", fmt::format("{}", o.threads));
  if (o.context != base.workload.context) set("workload.context", fmt::format("{}", o.context));
  set("placement.gpu_layers", fmt::format("{}", ranked.report.placement.gpu_layers));
  if (o.placement.decode_device != DecodeDevice::kPlacement)
    set("placement.decode_device", toml_text(name(o.placement.decode_device)));
  set("placement.cpu_moe_layers", fmt::format("{}", o.placement.cpu_moe_layers));
  if (o.placement.cpu_ffn_layers > 0)
    set("placement.cpu_ffn_layers", fmt::format("{}", o.placement.cpu_ffn_layers));
  out.erase("placement.tensor_split");
  // Stages of a pipeline have the layers that their server gives them.
  if (!o.placement.tensor_split.empty() && base.placement.groups.pipeline == 1)
    set("placement.tensor_split", shares);
  return out.text();
}

bool is_paged(const std::string& program) { return program == "vllm" || program == "sglang"; }

// Such a program is the scenario's runtime, and has weights as they were released, unless something
// else is stated.
void assume_paged(TomlDocument& document, const std::string& program) {
  if (!document.has("runtime.name")) document.set("runtime.name", toml_text(program), "--emit");
  if (!document.has("model.quant") && !document.has("model.file"))
    document.set("model.quant", toml_text("BF16"), "--emit");
}

// Checks that the program can run the settings of flags and file.
std::optional<Error> check_emit(const std::string& program, const Scenario& asked) {
  auto error = program == "ollama" ? planner::check_ollama(asked) : std::nullopt;
  if (is_paged(program)) error = planner::check_paged(asked, program);
  if (program == "llama.cpp" && !planner::is_llama_cpp(asked.runtime, asked.kv.policy))
    error = bad_input(fmt::format("the plan is for {} with the KV policy {}", asked.runtime.name,
                                  name(asked.kv.policy)),
                      "--runtime llama.cpp with --kv vram or ram");
  if (error) {
    error->message = fmt::format("--emit {}: {}", program, error->message);
    error->hint += ", or --emit rigcast";
  }
  return error;
}

std::string emitted(const std::string& program, const TomlDocument& document, const Scenario& base,
                    const planner::RankedPlan& best) {
  const Scenario& s = *best.report.scenario;
  const Placement& p = best.report.placement;
  if (program == "ollama") return planner::ollama_modelfile(s, p);
  if (is_paged(program)) return planner::shell_text(planner::paged_command(s)) + "\n";
  if (program == "rigcast") return scenario_file(document, base, best);
  std::string out = planner::shell_text(planner::llama_server_command(s, p)) + "\n";
  if (s.placement.cpu_ffn_layers > 0) out += fmt::format("# {}\n", planner::kFfnFlagNote);
  if (const auto note = planner::prompt_cache_note(s, p); !note.empty()) out += "# " + note + "\n";
  for (const planner::Words& words : planner::llama_bench_commands(best.report))
    out += planner::shell_text(words) + "\n";
  return out;
}

// Refers to both, which must outlive it.
Answer answer_of(const Scenario& s, const planner::Plan& plan) {
  const auto render = [&s, &plan](const OutputOptions& output) {
    switch (output.format) {
      case Format::kJson: return to_json(s, plan);
      case Format::kCsv: return to_csv(s, plan);
      case Format::kText: break;
    }
    return to_text(s, plan, screen_style(output));
  };
  return {fmt::format("{} on {}: a plan", s.model.name, rig_name(s.rig)), render};
}

// Older cards are hardly sold.
constexpr const char* kOldest = "2020";

struct PricedGpu {
  GpuPart part;
  Price price;
};

// The GPUs that are sold and that one runtime can use beside those that are there, the cheapest
// first.
std::vector<PricedGpu> gpus_for_sale(const Catalogue& catalogue, const PriceList& prices,
                                     const Rig& rig) {
  std::vector<PricedGpu> out;
  for (const std::string& id : catalogue.ids("hwprofiles/gpus")) {
    auto part = catalogue.gpu(id);
    if (!part || part->unified || part->released < kOldest) continue;
    if (!rig.gpus.empty() && part->vendor != rig.gpus.front().vendor) continue;
    const PartsPrice price = price_of_part(*part, prices);
    if (price.usd) out.push_back({*std::move(part), price.parts.front()});
  }
  std::ranges::stable_sort(out, {}, [](const PricedGpu& g) { return g.price.usd; });
  return out;
}

// The cheapest GPU beside those that are there, with which the scenario fits; "": none.
std::string cheapest_gpu(const TomlDocument& document, const Catalogue& catalogue,
                         const PriceList& prices, const Scenario& smallest) {
  std::string there;
  for (const GpuPart& g : smallest.rig.gpus) there += toml_text(g.id) + ", ";
  for (const PricedGpu& gpu : gpus_for_sale(catalogue, prices, smallest.rig)) {
    TomlDocument more = document.clone();
    more.set("rig.gpu", fmt::format("[{}{}]", there, toml_text(gpu.part.id)), "plan");
    const auto rig = make_scenario(more, catalogue);
    if (!rig) continue;
    Scenario s = smallest;
    s.rig = rig->rig;
    if (planner::place_layers(s))
      return fmt::format("{} for {:.0f} USD ({} {} price)", gpu.part.name, gpu.price.usd,
                         gpu.price.date, name(gpu.price.kind));
  }
  return "";
}

// What would hold the smallest of the ways to run the model that lose no more than is allowed; "":
// nothing that is sold.
std::string would_fit(const TomlDocument& document, const Catalogue& catalogue,
                      const PriceList& prices, const Scenario& smallest) {
  const auto ram = planner::missing_ram(smallest);
  const std::string gpu = cheapest_gpu(document, catalogue, prices, smallest);
  std::string out;
  if (ram) out = fmt::format("{:.0f} GiB more RAM holds {}", *ram / 1_GiB, smallest.quant);
  if (!gpu.empty()) out += (out.empty() ? "" : "; or one more GPU, ") + gpu;
  return out;
}

Error nothing_fits(const Scenario& s, std::size_t options, const std::string& hint) {
  return {ErrorKind::kDoesNotFit,
          fmt::format("{} does not fit in any of {} ways", s.model.name, options),
          hint.empty() ? fmt::format("{}a smaller --context or another model",
                                     s.settings.headroom.value > 0 ? "less --headroom, " : "")
                       : hint,
          {}};
}

bool is_loss_known(const Scenario& s, const planner::QualityTable& quality) {
  return quality.of_mix(s.quant, s.model, double(s.tensors.elements())) &&
         quality.of_kv(s.kv.types);
}

// Such a server has one way to run a model, all on the GPUs: without a loss there is no ranking,
// but a command if it fits.
planner::Plan watched_plan(const Scenario& scenario, const planner::SearchSpace& space,
                           const planner::Constraints& constraints,
                           const planner::QualityTable& quality) {
  ProgressLine progress;
  std::int64_t forecasts = 0;
  const auto forecast = [&](std::shared_ptr<const Scenario> way) {
    progress.show(fmt::format("{} forecasts", ++forecasts));
    return forecast_to_rank(std::move(way));
  };
  return planner::make_plan(scenario, space, constraints, quality, request_seconds, forecast);
}

int emit_one_way(const Options& o, const Scenario& s) {
  if (o.emit.empty())
    return fail(bad_input(
        fmt::format("a plan ranks by what is lost, which is not known of {} with a cache in {}",
                    s.quant, text(s.kv.types)),
        "--emit prints the command of a server; rigcast simulate forecasts it"));
  const MemoryPlan memory = plan_memory(s, resolve_placement(s), s.workload.context);
  if (!memory.fits())
    return fail(
        {ErrorKind::kDoesNotFit, shortage_text(memory), "a smaller --model or --context", {}});
  if (auto error = emit(o.output, planner::shell_text(planner::paged_command(s)) + "\n"))
    return fail(*error);
  return kDone;
}

int plan_verb(const Options& o, const Catalogue& catalogue) {
  if (o.output.format != Format::kText && !o.emit.empty())
    return fail(bad_input("--emit prints what to type, neither JSON nor CSV",
                          "without --emit: the JSON has all commands"));
  if (const auto error = check_html(o.output)) return fail(*error);
  auto document = o.flags.document();
  if (!document) return fail(document.error());
  if (is_paged(o.emit)) assume_paged(*document, o.emit);
  const auto scenario = make_scenario(*document, catalogue);
  if (!scenario) return fail(scenario.error());
  warn_of_hours(*scenario);
  if (scenario->load)
    return plan_for_load(*document, *scenario, o.constraints, o.emit, o.output, catalogue);
  auto constraints = o.constraints.constraints();
  if (!constraints) return fail(constraints.error());
  const auto quality = read_quality(catalogue);
  if (!quality) return fail(quality.error());

  if (const auto error = check_emit(o.emit, *scenario)) return fail(*error);
  if (scenario->runtime.rules == RuntimeRules::kPagedServer && !is_loss_known(*scenario, *quality))
    return emit_one_way(o, *scenario);
  constraints->with_load = document->has("workload.start");
  planner::SearchSpace search_space = space_of(*document, *scenario);
  if (constraints->objective == planner::Objective::kContext && !document->has("workload.context"))
    search_space.contexts = planner::all_contexts(scenario->workload, scenario->model);
  if (o.emit == "ollama") planner::limit_to_ollama(search_space);
  planner::Plan plan = watched_plan(*scenario, search_space, *constraints, *quality);
  const bool holds_none =
      plan.ranked.empty() || plan.ranked.front().report.memory.outside_ram.value > 0;
  // Such a server has no layers in RAM: more of it holds nothing.
  const bool is_on_gpus = scenario->runtime.rules == RuntimeRules::kPagedServer;
  if (holds_none && is_on_gpus) plan.would_fit = "a smaller --model, or a GPU with more memory";
  if (holds_none && !is_on_gpus) {
    const auto prices = PriceList::read(catalogue.root() / "hwprofiles/prices.toml");
    if (!prices) return fail(prices.error());
    plan.would_fit =
        would_fit(*document, catalogue, *prices,
                  planner::smallest_of(*scenario, search_space, *constraints, *quality));
  }
  if (plan.ranked.empty()) {
    const Error why = nothing_fits(*scenario, plan.candidates, plan.would_fit);
    Answer answer = answer_of(*scenario, plan);
    answer.render = [&](const OutputOptions& output) {
      const bool json = output.format == Format::kJson;
      return json ? to_json(*scenario, plan, why.message) : why.text() + "\n";
    };
    if (!o.output.html.empty())
      if (auto error = write_html(o.output, answer)) return fail(*error);
    if (o.output.format == Format::kJson)
      if (auto error = emit(o.output, answer.render(o.output))) return fail(*error);
    return fail(why);
  }
  // The plans that are shown are forecast in full.
  for (std::size_t i = 0; i < std::min<std::size_t>(3, plan.ranked.size()); ++i) {
    plan.ranked[i].report = forecast_to_show(plan.ranked[i].report.scenario);
    planner::time_turns(*constraints, request_seconds, plan.ranked[i]);
  }
  Answer answer = answer_of(*scenario, plan);
  if (!o.output.html.empty())
    answer.timelines = forecast_timelines(plan.ranked.front().report.scenario);
  if (!o.emit.empty())
    answer.render = [&](const OutputOptions&) {
      return emitted(o.emit, *document, *scenario, plan.ranked.front());
    };
  if (auto error = emit(o.output, answer)) return fail(*error);
  if (!o.emit.empty() && !plan.ranked.front().unmet.empty())
    fmt::print(stderr, "rigcast: no plan meets the constraints: {}\n", plan.ranked.front().unmet);
  return plan.ranked.front().unmet.empty() ? kDone : kAnswerIsNo;
}

}  // namespace

void add_plan(CLI::App& app, const OpenCatalogue& open, Run& run) {
  CLI::App* verb = app.add_subcommand("plan", "Find the best way to run a model on a rig");
  auto o = std::make_shared<Options>();
  o->flags.add_to(*verb);
  o->output.add_to(*verb);
  CLI::Option* html = add_html(*verb, o->output);
  o->constraints.add_to(*verb);
  verb->add_option("--emit", o->emit,
                   "print what to type for llama.cpp, ollama, vllm, sglang or rigcast")
      ->check(CLI::IsMember({"llama.cpp", "ollama", "vllm", "sglang", "rigcast"}))
      ->excludes(html)
      ->type_name("PROGRAM")
      ->group("Plan");
  verb->footer(
      "What a flag or the file says stays, all else is searched: --quant, --kv-type, --kv,\n"
      "--ubatch, --gpu-layers. With a load (--users 40 --load chat): how to serve it within --slo, "
      "and\n"
      "by how many machines.\n"
      "Examples\n"
      "  rigcast plan --gpu rtx-3060-12gb --model llama-3.1-8b --context 16384\n"
      "  rigcast plan --rig dual-rtx-3090 --model llama-3.3-70b --objective speed\n"
      "  rigcast plan --gpu rtx-4090 --model qwen3-30b-a3b --min-tps 30 --emit llama.cpp\n"
      "  rigcast plan --gpu rtx-4090 --model llama-3.1-8b --load chat --users 200");
  run_with_catalogue(*verb, open, run,
                     [o](const Catalogue& catalogue) { return plan_verb(*o, catalogue); });
}

}  // namespace rigcast::cli
