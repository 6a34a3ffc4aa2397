#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include "cli/html/page_output.hpp"
#include "cli/load/compare_loads.hpp"
#include "cli/load/compared_rigs.hpp"
#include "cli/shared/output.hpp"
#include "cli/shared/plan_tools.hpp"
#include "cli/shared/scenario_flags.hpp"
#include "cli/verbs.hpp"
#include "core/catalogue/price_list.hpp"
#include "core/text/unit_text.hpp"
#include "planner/compare.hpp"
#include "planner/output/compare_json.hpp"
#include "planner/output/compare_text.hpp"
#include "report/terminal/progress_line.hpp"
#include "report/terminal/text_style.hpp"

namespace rigcast::cli {
namespace {

using planner::Comparison;

struct Options {
  ScenarioFlags flags;
  OutputOptions output;
  ConstraintFlags constraints;
  RigFlags machines;
  std::string base;
  double budget = 0;
  bool names_rig = false;  // by --base, --rig, --gpu or the scenario file

  Comparison::What what() const {
    if (!machines.rigs.empty()) return Comparison::What::kRigs;
    return machines.gpus.empty() && names_rig ? Comparison::What::kUpgrades
                                              : Comparison::What::kGpus;
  }
};

constexpr std::size_t kShown = 11;  // of many rigs, the best

// True if a graphics card can be put in.
bool takes_cards(const Rig& rig) {
  return std::ranges::none_of(rig.gpus, [](const GpuPart& g) {
    return g.form == FormFactor::kIntegrated || g.form == FormFactor::kLaptop;
  });
}

// "second rtx-3090" of a rig with one.
std::string ordinal(std::ptrdiff_t count) {
  constexpr const char* kWords[] = {"first", "second", "third",   "fourth",
                                    "fifth", "sixth",  "seventh", "eighth"};
  return kWords[std::min<std::ptrdiff_t>(count, std::ssize(kWords)) - 1];
}

// Channels and type of a kit, "2xddr5": what the board has slots for.
std::string socket_of(const std::string& kit) { return kit.substr(0, kit.find('-')); }

// The rig as it is, and with one part changed or added.
Result<std::vector<NamedRig>> upgrades_of(const TomlDocument& base, const PriceList& prices,
                                          const Catalogue& catalogue, const Rig& rig) {
  std::vector<NamedRig> out{{"as it is", base.clone()}};
  const auto add = [&](NamedRig named, const char* key, const std::string& value) {
    if (!named.document.set(key, value, "compare")) out.push_back(std::move(named));
  };
  std::string there;
  for (const GpuPart& g : rig.gpus) there += (there.empty() ? "" : "+") + g.id;
  for (const std::string& id : catalogue.ids("hwprofiles/gpus")) {
    const auto part = catalogue.gpu(id);
    const auto have = std::ranges::count(rig.gpus, id, &GpuPart::id);
    const bool is_there = have > 0;
    if (!part || !takes_cards(rig) || part->form != FormFactor::kCard) continue;
    if (!is_there && !price_of_part(*part, prices).usd) continue;  // it is not sold by itself
    if (is_there)
      add({ordinal(have + 1) + " " + id, base.clone(), *part}, "rig.gpu",
          gpu_list(there + "+" + id));
    if (!is_there && part->released >= kOldest)
      add({id, base.clone(), *part}, "rig.gpu", gpu_list(id));
  }
  for (const std::string& id : catalogue.ids("hwprofiles/ssds"))
    if (const auto part = catalogue.ssd(id); part && part->id != rig.ssd.id)
      add({id, base.clone(), {}, *part}, "rig.ssd", toml_text(id));
  if (!rig.gpus.empty() && !rig.unified()) {
    const PcieLink card = rig.gpus.front().pcie, slot = rig.links.front().pcie;
    if (card.generation > slot.generation || card.lanes > slot.lanes)
      add({"slot " + text(card), base.clone()}, "rig.pcie", toml_text(text(card)));
  }
  if (rig.unified()) return out;  // whose memory is soldered
  const std::string size = fmt::format("{:.0f}GiB", rig.ram.capacity.value / 1_GiB);
  const std::string more = fmt::format("{:.0f}GiB", 2 * (rig.ram.capacity.value / 1_GiB));
  for (const char* kit : {"2xddr4-3600", "2xddr5-6000", "4xddr5-5600"})
    if (kit != rig.ram.id && socket_of(kit) == socket_of(rig.ram.id))
      add({std::string("RAM ") + kit, base.clone(), {}, {}, true}, "rig.ram",
          toml_text(kit + (":" + size)));
  add({"RAM " + more, base.clone(), {}, {}, true}, "rig.ram", toml_text(rig.ram.id + ":" + more));
  return out;
}

class RigPlanner {
 public:
  // `watch` is called before each forecast.
  RigPlanner(const Catalogue& catalogue, planner::Constraints constraints,
             planner::QualityTable quality, std::function<void()> watch)
      : catalogue_(catalogue),
        constraints_(std::move(constraints)),
        quality_(std::move(quality)),
        watch_(std::move(watch)) {}

  // Without plans if one alone costs more than the budget.
  Result<planner::ComparedRig> rig(const NamedRig& named, const std::vector<std::string>& models,
                                   const Comparison& compared, const PriceList& prices) {
    planner::ComparedRig out;
    out.name = named.name;
    for (const std::string& model : models) {
      TomlDocument document = named.document.clone();
      if (!model.empty()) document.set("model.name", toml_text(model), "--model");
      const auto scenario = make_scenario(document, catalogue_);
      if (!scenario) return scenario.error();
      if (out.models.empty()) {
        out.price = price_of(named, scenario->rig, compared.what, prices);
        out.is_beyond_budget = planner::is_beyond(compared.budget, out.price);
        out.watts = planner::watts_of(scenario->rig);
      }
      if (!workload_) warn_of_hours(*scenario);
      workload_ = scenario->workload;
      if (out.is_beyond_budget)
        out.models.push_back({scenario->model.name, {}, {}, planner::beyond_text(out.price)});
      else
        out.models.push_back(best(document, *scenario));
    }
    return out;
  }
  // Of the rig that was last looked at.
  const Workload& workload() const { return *workload_; }

 private:
  planner::ComparedModel best(const TomlDocument& document, const Scenario& s) const {
    planner::ComparedModel out{s.model.name, {}, {}, ""};
    planner::Constraints constraints = constraints_;
    constraints.with_load = document.has("workload.start");
    const planner::SearchSpace space = space_of(document, s);
    // Machines are compared on equal terms: as fast as each can be without losing more than usual.
    const bool states_quant =
        document.has("model.quant") || document.has("model.size") || s.model_file;
    const bool is_open = !states_quant && !constraints.max_loss &&
                         constraints.objective == planner::Objective::kBalanced;
    if (is_open) constraints.max_loss = planner::usual_loss(s.model, s.tensors, quality_);
    if (states_quant && !constraints.max_loss) constraints.max_loss = loss_of_stated(s);
    if (constraints.objective == planner::Objective::kBalanced)
      constraints.objective = planner::Objective::kSpeed;
    out.max_loss = constraints.max_loss;
    const auto forecast = [this](std::shared_ptr<const Scenario> way) {
      watch_();
      return forecast_to_rank(std::move(way));
    };
    planner::Plan plan = make_plan(s, space, constraints, quality_, request_seconds, forecast);
    if (plan.ranked.empty()) {
      out.why_not = "does not fit";
      return out;
    }
    out.best = std::move(plan.ranked.front());
    const Workload& w = s.workload;
    out.best->report =
        forecast_to_show(out.best->report.scenario, {w.depth + w.prompt_tokens, w.context});
    planner::time_turns(constraints, request_seconds, *out.best);
    return out;
  }

  // Of a mix that was asked for, with the cache that hardly loses anything.
  std::optional<double> loss_of_stated(const Scenario& s) const {
    const auto mix = quality_.of_mix(s.quant, s.model, double(s.tensors.elements()));
    const auto cache = quality_.of_kv({QuantFormat::kQ8_0, QuantFormat::kQ8_0});
    return mix && cache ? std::optional((*mix + *cache).nats) : std::nullopt;
  }

  const Catalogue& catalogue_;
  planner::Constraints constraints_;
  planner::QualityTable quality_;
  std::function<void()> watch_;
  std::optional<Workload> workload_;
};

// --model A,B; the document is left with none of several.
std::vector<std::string> take_models(TomlDocument& document) {
  const auto name = document.root().table("model").find_text_or_none("name");
  if (!name || name->find(',') == std::string::npos) return {""};
  std::vector<std::string> out;
  std::istringstream names(*name);
  for (std::string one; std::getline(names, one, ',');)
    if (!trimmed(one).empty()) out.push_back(trimmed(one));
  document.erase("model.name");
  if (out.empty()) out.emplace_back();  // the scenario's reader says that none is named
  return out;
}

Result<std::vector<NamedRig>> upgrades(const TomlDocument& base,
                                       const std::vector<std::string>& models,
                                       const PriceList& prices, const Catalogue& catalogue) {
  TomlDocument document = base.clone();
  if (!models.front().empty()) document.set("model.name", toml_text(models.front()), "--model");
  const auto scenario = make_scenario(document, catalogue);
  if (!scenario) return scenario.error();
  return upgrades_of(base, prices, catalogue, scenario->rig);
}

// The rigs to compare; of upgrades, the first is the rig as it is.
Result<std::vector<NamedRig>> rigs_to_compare(const Options& o, const TomlDocument& base,
                                              const std::vector<std::string>& models,
                                              const PriceList& prices, const Catalogue& catalogue) {
  switch (o.what()) {
    case Comparison::What::kUpgrades: return upgrades(base, models, prices, catalogue);
    case Comparison::What::kGpus:
      if (o.machines.gpus.empty()) return gpus_within(o.budget, base, prices, catalogue);
      break;
    case Comparison::What::kRigs: break;
  }
  return o.machines.rigs_of(base, catalogue);
}

// "rtx-3090: 17.2 tok/s"
std::string result_text(const planner::ComparedRig& rig) {
  std::string out;
  for (const planner::ComparedModel& m : rig.models)
    out += (out.empty() ? "" : ", ") +
           (m.best ? rate_text(m.best->report.decode_tokens_per_s) : m.why_not);
  return rig.name + ": " + out;
}

// Refers to the comparison, which must outlive it.
Answer answer_of(const Comparison& c, const Workload& workload) {
  const auto render = [&c, workload](const OutputOptions& output) {
    switch (output.format) {
      case Format::kJson: return to_json(c);
      case Format::kCsv: return to_csv(c);
      case Format::kText: break;
    }
    return to_text(c, workload, screen_style(output));
  };
  std::string models;
  for (const planner::ComparedModel& m : c.rigs.front().models)
    models += (models.empty() ? "" : ", ") + m.model;
  return {fmt::format("{} on {} rigs", models, c.rigs.size()), render};
}

bool has_load(const TomlDocument& document) {
  return document.has("load") || document.has("workload.users");
}

int compare_load(const Options& o, std::vector<NamedRig>& rigs,
                 const std::vector<std::string>& models, const PriceList& prices,
                 const Catalogue& catalogue) {
  // What runs is in memory: a faster disk serves nobody more.
  std::erase_if(rigs, [](const NamedRig& rig) { return rig.new_ssd.has_value(); });
  const auto budget = o.budget > 0 ? std::optional(o.budget) : std::nullopt;
  return compare_for_load({std::move(rigs), o.what(), prices, budget, models}, o.constraints,
                          o.output, catalogue);
}

int compare_verb(Options& o, const Catalogue& catalogue) {
  if (const auto error = check_html(o.output)) return fail(*error);
  auto base = o.flags.document();
  if (!base) return fail(base.error());
  if (!o.base.empty())
    if (auto error = base->set("rig.name", toml_text(o.base), "--base")) return fail(*error);
  o.names_rig = base->has("rig");
  const auto constraints = o.constraints.constraints();
  if (!constraints) return fail(constraints.error());
  const auto prices = o.machines.prices_of(catalogue);
  if (!prices) return fail(prices.error());
  const auto quality = read_quality(catalogue);
  if (!quality) return fail(quality.error());
  const std::vector<std::string> models = take_models(*base);
  auto rigs = rigs_to_compare(o, *base, models, *prices, catalogue);
  if (!rigs) return fail(rigs.error());
  if (has_load(*base)) return compare_load(o, *rigs, models, *prices, catalogue);
  Comparison compared{o.what(), o.budget > 0 ? std::optional(o.budget) : std::nullopt, {}};
  const bool upgrades = compared.what == Comparison::What::kUpgrades;
  std::optional<ProgressLine> progress(std::in_place);
  std::size_t begun = 0;
  const auto share = [&] { return double(begun) / double(rigs->size()); };
  RigPlanner planner(catalogue, *constraints, *quality, [&] {
    const std::string& name = (*rigs)[begun].name;
    progress->show({fmt::format("{} of {} rigs: {}", begun + 1, rigs->size(), name), share()});
  });
  for (const NamedRig& rig : *rigs) {
    auto one = planner.rig(rig, models, compared, *prices);
    ++begun;
    if (one) progress->done({result_text(*one), share()});
    if (!one && upgrades && !compared.rigs.empty()) continue;  // no such part goes with the others
    if (!one) return fail(one.error());
    if (upgrades && one->is_beyond_budget)
      ++compared.beyond_budget;
    else
      compared.rigs.push_back(*std::move(one));
  }
  progress.reset();
  planner::rank(compared);
  if (compared.rigs.size() > kShown) compared.rigs.resize(kShown);
  if (auto error = emit(o.output, answer_of(compared, planner.workload()))) return fail(*error);
  const bool part = upgrades && compared.rigs.size() > 1;
  return compared.rigs[part ? 1 : 0].qualifies(part || !upgrades ? compared.budget : std::nullopt)
             ? kDone
             : kAnswerIsNo;
}

}  // namespace

void add_compare(CLI::App& app, const OpenCatalogue& open, Run& run) {
  CLI::App* verb = app.add_subcommand("compare", "Compare rigs or GPUs for a model: what to buy");
  auto o = std::make_shared<Options>();
  o->flags.add_to(*verb);
  o->output.add_to(*verb);
  add_html(*verb, o->output);
  o->constraints.add_to(*verb);
  constexpr const char* kGroup = "Comparison";
  o->machines.add_to(*verb, kGroup);
  verb->add_option("--base", o->base, "the rig that GPUs are put into, or that gets a new part")
      ->check(not_empty())
      ->type_name("RIG")
      ->group(kGroup);
  verb->add_option("--budget", o->budget,
                   "USD: for machines (--rigs), GPUs (--gpus) or the new part")
      ->check(number_within(0.01, 1e9))
      ->type_name("USD")
      ->group(kGroup);
  verb->footer(
      "--model takes several, A,B. Without --gpus and --rigs: which new part helps the rig most;\n"
      "with --users, which one lets it serve them; without a rig, too: the GPUs within --budget. "
      "Each machine runs the fastest plan that "
      "loses\n"
      "no more than Q4_K_M with a Q8_0 cache (--max-loss, --quant). Prices: a list with dates "
      "that\n"
      "you may copy and edit, without tax.\n"
      "Examples\n"
      "  rigcast compare --model llama-3.3-70b --context 16384 --gpus 2xrtx-3090,rtx-5090\n"
      "  rigcast compare --model llama-3.1-8b,qwen2.5-32b --rigs gaming-rtx-4090,dual-rtx-3090\n"
      "  rigcast compare --model qwen2.5-14b --base budget-rtx-3060");
  run_with_catalogue(*verb, open, run,
                     [o](const Catalogue& catalogue) { return compare_verb(*o, catalogue); });
}

}  // namespace rigcast::cli
