#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "cli/output.hpp"
#include "cli/scenario_flags.hpp"
#include "cli/verbs.hpp"
#include "core/serial_time.hpp"
#include "core/unit_text.hpp"
#include "planner/commands.hpp"
#include "planner/plan.hpp"
#include "planner/plan_text.hpp"
#include "planner/shortage.hpp"
#include "sim/simulate.hpp"

namespace rigcast::cli {
namespace {

using planner::Objective;

struct Options {
  ScenarioFlags flags;
  OutputOptions output;
  double min_tps = 0;
  std::string max_ttft, headroom, objective, emit;
};

double request_seconds(const Scenario& s) {
  const SerialForecast forecast(s);
  return (forecast.prompt() + double(s.workload.output_tokens - 1) * forecast.mean_token()).value;
}

Report simulate(std::shared_ptr<const Scenario> scenario, sim::Detail detail, bool cliffs) {
  sim::SimulateOptions how;
  how.detail = detail;
  how.cliffs = cliffs;
  return sim::simulate(std::move(scenario), how);
}

// What was asked for stays.
planner::Space space_of(const TomlDocument& document, const Scenario& s) {
  planner::Space space = planner::whole_space(s);
  if (document.has("model.quant") || document.has("model.size")) space.quants = {s.quant};
  if (document.has("kv.type_k") || document.has("kv.type_v")) space.kv_types = {s.kv.types};
  if (document.has("kv.policy")) space.policies = {s.kv.policy};
  if (document.has("runtime.ubatch")) space.ubatches = {s.settings.ubatch};
  for (const char* key : {"gpu_layers", "tensor_split", "cpu_moe_layers"})
    if (document.has(fmt::format("placement.{}", key))) space.places_layers = false;
  return space;
}

Result<planner::Wish> wish_of(const Options& o) {
  planner::Wish wish;
  wish.min_tokens_per_s = o.min_tps;
  if (!o.max_ttft.empty()) {
    const auto time = parse_duration(o.max_ttft);
    if (!time) return time.error();
    wish.max_ttft = *time;
  }
  if (!o.headroom.empty()) {
    const auto bytes = parse_bytes(o.headroom);
    if (!bytes) return bytes.error();
    wish.headroom = *bytes;
  }
  if (o.objective == "speed") wish.objective = Objective::kSpeed;
  if (o.objective == "quality") wish.objective = Objective::kQuality;
  if (o.objective == "context") wish.objective = Objective::kContext;
  return wish;
}

// The keys that the option settles, in the scenario file that was asked about.
std::string scenario_file(const TomlDocument& document, const planner::Choice& choice) {
  TomlDocument out = document.clone();
  const planner::Option& o = choice.option;
  const auto set = [&](const char* key, const std::string& value) { out.set(key, value, "plan"); };
  const auto type = [](QuantFormat f) { return toml_text(info(f).name); };
  if (!choice.report.scenario->model_file) set("model.quant", toml_text(o.quant));
  set("kv.type_k", type(o.kv_types.k));
  set("kv.type_v", type(o.kv_types.v));
  set("kv.policy", toml_text(name(o.policy)));
  set("runtime.ubatch", fmt::format("{}", o.ubatch));
  set("placement.gpu_layers", fmt::format("{}", choice.report.placement.gpu_layers));
  set("placement.cpu_moe_layers", fmt::format("{}", o.placement.cpu_moe_layers));
  if (!o.placement.tensor_split.empty())
    set("placement.tensor_split",
        fmt::format("[{:.1f}]", fmt::join(o.placement.tensor_split, ", ")));
  return out.text();
}

std::string emitted(const std::string& program, const TomlDocument& document,
                    const planner::Choice& best) {
  const Scenario& s = *best.report.scenario;
  const Placement& p = best.report.placement;
  if (program == "ollama") return planner::ollama_modelfile(s, p);
  if (program == "rigcast") return scenario_file(document, best);
  return planner::shell_text(planner::llama_server_command(s, p)) + "\n" +
         planner::shell_text(planner::llama_bench_command(s, p)) + "\n";
}

std::string render(const Scenario& s, const planner::Plan& plan, const OutputOptions& output) {
  return output.format == Format::kJson ? to_json(s, plan)
                                        : to_text(s, plan, {wants_colour(output), 100});
}

// The cheapest GPU beside those that are there, with which the scenario fits; "": none.
std::string cheapest_gpu(const TomlDocument& document, const Catalogue& catalogue,
                         const Scenario& smallest, Bytes headroom) {
  std::vector<GpuPart> parts;
  for (const std::string& id : catalogue.ids("hwprofiles/gpus"))
    if (auto part = catalogue.gpu(id); part && part->price && !part->unified)
      parts.push_back(*std::move(part));
  std::ranges::stable_sort(parts, {}, [](const GpuPart& g) { return g.price->value; });
  std::string there;
  for (const GpuPart& g : smallest.rig.gpus) there += toml_text(g.id) + ", ";
  for (const GpuPart& part : parts) {
    TomlDocument more = document.clone();
    more.set("rig.gpu", fmt::format("[{}{}]", there, toml_text(part.id)), "plan");
    const auto rig = make_scenario(more, catalogue);
    if (!rig) continue;
    Scenario s = smallest;
    s.rig = rig->rig;
    if (planner::place_layers(s, request_seconds, headroom))
      return fmt::format("{} for {:.0f} USD ({} launch price)", part.name, part.price->value.value,
                         part.price_date);
  }
  return "";
}

// Nothing fits: by how much, and what would do.
Error nothing_fits(const TomlDocument& document, const Catalogue& catalogue, const Scenario& s,
                   const planner::Space& space, const planner::Wish& wish, std::size_t options) {
  const Scenario smallest = planner::smallest_of(s, space);
  const auto ram = planner::missing_ram(smallest, request_seconds, wish.headroom);
  const std::string gpu = cheapest_gpu(document, catalogue, smallest, wish.headroom);
  std::string hint;
  if (ram) hint = fmt::format("{} more RAM holds {}", text_gib(*ram), smallest.quant);
  if (!gpu.empty()) hint += (hint.empty() ? "" : "; or one more GPU, ") + gpu;
  return {ErrorKind::kDoesNotFit,
          fmt::format("{} does not fit in any of {} ways", s.model.name, options),
          hint.empty() ? "a smaller --context or another model" : hint,
          {}};
}

int plan_verb(const Options& o, const Catalogue& catalogue) {
  if (o.output.format == Format::kCsv) return fail(bad_input("a plan has no CSV", "--format json"));
  const auto document = o.flags.document();
  if (!document) return fail(document.error());
  const auto scenario = make_scenario(*document, catalogue);
  if (!scenario) return fail(scenario.error());
  const auto wish = wish_of(o);
  if (!wish) return fail(wish.error());
  const auto quality = planner::QualityTable::read(catalogue.root() / "models" / "quality");
  if (!quality) return fail(quality.error());

  const auto sweep = [](std::shared_ptr<const Scenario> s) {
    return simulate(std::move(s), sim::Detail::kSweep, false);
  };
  const planner::Space space = space_of(*document, *scenario);
  planner::Plan plan =
      planner::make_plan(*scenario, space, *wish, *quality, request_seconds, sweep);
  if (plan.choices.empty())
    return fail(nothing_fits(*document, catalogue, *scenario, space, *wish, plan.options));
  // What is shown is forecast in full.
  for (std::size_t i = 0; i < std::min<std::size_t>(3, plan.choices.size()); ++i)
    plan.choices[i].report = simulate(plan.choices[i].report.scenario, sim::Detail::kFinal, true);
  const std::string text = o.emit.empty() ? render(*scenario, plan, o.output)
                                          : emitted(o.emit, *document, plan.choices.front());
  if (auto error = emit(o.output, text)) return fail(*error);
  return plan.choices.front().unmet.empty() ? kDone : kAnswerIsNo;
}

}  // namespace

void add_plan(CLI::App& app, const OpenCatalogue& open, Run& run) {
  CLI::App* verb = app.add_subcommand("plan", "Find the best way to run a model on a rig");
  auto o = std::make_shared<Options>();
  o->flags.add_to(*verb);
  o->output.add_to(*verb);
  constexpr const char* kGroup = "Plan";
  verb->add_option("--objective", o->objective, "speed, quality or context; else a balance")
      ->check(CLI::IsMember({"speed", "quality", "context"}))
      ->type_name("WHAT")
      ->group(kGroup);
  verb->add_option("--min-tps", o->min_tps, "tokens per second, at least")
      ->check(CLI::NonNegativeNumber)
      ->type_name("X")
      ->group(kGroup);
  verb->add_option("--max-ttft", o->max_ttft, "time to first token, at most: 2 s")
      ->type_name("TIME")
      ->group(kGroup);
  verb->add_option("--headroom", o->headroom, "VRAM of each GPU that stays free")
      ->type_name("SIZE")
      ->group(kGroup);
  verb->add_option("--emit", o->emit, "the best as commands: llama.cpp, ollama or rigcast")
      ->check(CLI::IsMember({"llama.cpp", "ollama", "rigcast"}))
      ->type_name("PROGRAM")
      ->group(kGroup);
  verb->footer(
      "What a flag or the file says stays: --quant, --kv-type, --kv, --ubatch, --gpu-layers.\n"
      "Examples\n"
      "  rigcast plan --gpu rtx-3060-12gb --model llama-3.1-8b --context 16384\n"
      "  rigcast plan --rig dual-rtx-3090 --model llama-3.3-70b --objective speed\n"
      "  rigcast plan --gpu rtx-4090 --model qwen3-30b-a3b --min-tps 30 --emit llama.cpp");
  verb->callback([o, open, &run] {
    run = [o, open] {
      const auto catalogue = open();
      return catalogue ? plan_verb(*o, *catalogue) : fail(catalogue.error());
    };
  });
}

}  // namespace rigcast::cli
