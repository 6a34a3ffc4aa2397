#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <sstream>

#include "cli/shared/output.hpp"
#include "cli/shared/plan_tools.hpp"
#include "cli/shared/scenario_flags.hpp"
#include "cli/verbs.hpp"
#include "core/text/unit_text.hpp"
#include "planner/compare.hpp"
#include "planner/compare_text.hpp"
#include "report/terminal/progress_line.hpp"

namespace rigcast::cli {
namespace {

struct Options {
  ScenarioFlags flags;
  OutputOptions output;
  ConstraintFlags constraints;
  std::vector<std::string> rigs, gpus, prices;
  std::string base;
  double budget = 0;

  /// True if no rigs are given: then single new parts are compared.
  bool upgrades() const { return rigs.empty() && gpus.empty(); }
};

// Prices given by the user: --price rtx-3090=750.
using Prices = std::map<std::string, double>;

Result<Prices> prices_of(const Options& o, const Catalogue& catalogue) {
  Prices prices;
  for (const std::string& text : o.prices) {
    const std::size_t at = text.find('=');
    char* end = nullptr;
    const double usd = at == std::string::npos ? -1 : std::strtod(text.c_str() + at + 1, &end);
    if (!(usd >= 0 && usd < 1e9) || !end || *end || end == text.c_str() + at + 1)
      return bad_input(fmt::format("--price: \"{}\" is not PART=USD", text),
                       "for example --price rtx-3090=750");
    const std::string name = text.substr(0, at);
    if (const auto gpu = catalogue.gpu(name))
      prices[gpu->id] = usd;
    else if (const auto ssd = catalogue.ssd(name))
      prices[ssd->id] = usd;
    else
      return bad_input(fmt::format("--price: {}", gpu.error().message), gpu.error().hint);
  }
  return prices;
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(' ');
  return first == std::string::npos ? ""
                                    : text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

// "2xrtx-3090" and "rtx-3090+rtx-3060-12gb" as the scenario key takes them.
std::string gpu_list(const std::string& text) {
  std::string out;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, '+');)
    out += (out.empty() ? "" : ", ") + toml_text(trimmed(part));
  return "[" + out + "]";
}

// A rig that is compared: its name, the scenario with it, and the part that is new in it.
struct Named {
  std::string name;
  TomlDocument document;
  std::optional<GpuPart> new_gpu{};
  std::optional<SsdPart> new_ssd{};
};

Result<std::vector<Named>> rigs_of(const Options& o, const TomlDocument& base,
                                   const Catalogue& catalogue) {
  std::vector<Named> out;
  const auto add = [&](const char* flag, const std::string& name, bool is_rig) {
    Named rig{name, base.clone()};
    auto error = is_rig ? rig.document.set("rig.name", toml_text(name), flag)
                        : rig.document.set("rig.gpu", gpu_list(name), flag);
    out.push_back(std::move(rig));
    return error;
  };
  for (const std::string& rig : o.rigs)
    if (auto error = add("--rigs", trimmed(rig), true)) return *error;
  const std::vector<std::string> known = catalogue.ids("hwprofiles/rigs");
  for (const std::string& text : o.gpus) {
    // A machine that is one part with its GPU stands among them by its name.
    const std::string gpu = trimmed(text);
    if (auto error = add("--gpus", gpu, std::ranges::find(known, gpu) != known.end()))
      return *error;
  }
  return out;
}

// The rig as it is, and with one part changed or added.
Result<std::vector<Named>> upgrades_of(const TomlDocument& base, const Catalogue& catalogue,
                                       const Rig& rig) {
  constexpr const char* kOldest = "2020";  // older cards are hardly sold
  std::vector<Named> out{{"as it is", base.clone()}};
  const auto add = [&](Named named, const char* key, const std::string& value) {
    if (!named.document.set(key, value, "compare")) out.push_back(std::move(named));
  };
  std::string there;
  for (const GpuPart& g : rig.gpus) there += (there.empty() ? "" : "+") + g.id;
  for (const std::string& id : catalogue.ids("hwprofiles/gpus")) {
    const auto part = catalogue.gpu(id);
    if (!part || part->unified || !part->price) continue;
    const bool is_there =
        std::ranges::any_of(rig.gpus, [&](const GpuPart& g) { return g.id == id; });
    if (is_there) add({"second " + id, base.clone(), *part}, "rig.gpu", gpu_list(there + "+" + id));
    if (!is_there && part->released >= kOldest)
      add({id, base.clone(), *part}, "rig.gpu", gpu_list(id));
  }
  for (const std::string& id : catalogue.ids("hwprofiles/ssds"))
    if (const auto part = catalogue.ssd(id); part && part->price && part->id != rig.ssd.id)
      add({id, base.clone(), {}, *part}, "rig.ssd", toml_text(id));
  if (!rig.gpus.empty() && !rig.unified()) {
    const PcieLink card = rig.gpus.front().pcie, slot = rig.links.front().pcie;
    if (card.generation > slot.generation || card.lanes > slot.lanes)
      add({"slot " + text(card), base.clone()}, "rig.pcie", toml_text(text(card)));
  }
  const std::string size = fmt::format("{:.0f}GiB", rig.ram.capacity.value / 1_GiB);
  const std::string more = fmt::format("{:.0f}GiB", 2 * (rig.ram.capacity.value / 1_GiB));
  for (const char* kit : {"2xddr4-3600", "2xddr5-6000", "4xddr5-5600"})
    if (kit != rig.ram.id)
      add({std::string("RAM ") + kit, base.clone()}, "rig.ram", toml_text(kit + (":" + size)));
  add({"RAM " + more, base.clone()}, "rig.ram", toml_text(rig.ram.id + ":" + more));
  return out;
}

void add_price(const Rig& rig, const Prices& prices, planner::ComparedRig& out) {
  double usd = 0, watts = 0;
  bool priced = !rig.gpus.empty(), powered = priced;
  for (const GpuPart& g : rig.gpus) {
    if (const auto own = prices.find(g.id); own != prices.end()) {
      usd += own->second;
    } else if (g.price) {
      usd += g.price->value.value;
      out.price_note = "launch prices of the GPUs; --price PART=USD to use yours";
    } else {
      priced = false;
    }
    if (g.board_power)
      watts += g.board_power->value.value;
    else
      powered = false;
  }
  if (priced) out.usd = usd;
  if (powered) out.watts = watts;
}

// Adds the price of the new part alone; a slot or RAM has no price in the catalogue.
void add_upgrade_price(const Named& named, const Prices& prices, planner::ComparedRig& out) {
  out.usd.reset();
  out.price_note.clear();
  const auto take = [&](const PartInfo& part) {
    const auto own = prices.find(part.id);
    out.usd = own != prices.end() ? own->second : part.price->value.value;
    out.price_note = "of the new part, at launch; --price PART=USD to use yours";
  };
  if (named.new_gpu) take(*named.new_gpu);
  if (named.new_ssd) take(*named.new_ssd);
}

class Comparison {
 public:
  Comparison(const Catalogue& catalogue, planner::Constraints constraints,
             planner::QualityTable quality)
      : catalogue_(catalogue), constraints_(std::move(constraints)), quality_(std::move(quality)) {}

  Result<planner::ComparedRig> rig(const Named& named, const std::vector<std::string>& models,
                                   const Prices& prices) {
    planner::ComparedRig out;
    out.name = named.name;
    for (const std::string& model : models) {
      TomlDocument document = named.document.clone();
      if (!model.empty()) document.set("model.name", toml_text(model), "--model");
      const auto scenario = make_scenario(document, catalogue_);
      if (!scenario) return scenario.error();
      if (out.models.empty()) add_price(scenario->rig, prices, out);
      workload_ = scenario->workload;
      out.models.push_back(best(document, *scenario));
    }
    return out;
  }
  const Workload& workload() const { return workload_; }

 private:
  planner::ComparedModel best(const TomlDocument& document, const Scenario& s) const {
    planner::ComparedModel out{s.model.name, {}, ""};
    planner::Plan plan = make_plan(s, space_of(document, s), constraints_, quality_,
                                   request_seconds, forecast_to_rank);
    if (plan.ranked.empty()) {
      out.why_not = "does not fit";
      return out;
    }
    out.best = std::move(plan.ranked.front());
    const Workload& w = s.workload;
    out.best->report =
        forecast_to_show(out.best->report.scenario, {w.depth + w.prompt_tokens, w.context});
    return out;
  }

  const Catalogue& catalogue_;
  planner::Constraints constraints_;
  planner::QualityTable quality_;
  Workload workload_;
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

Result<std::vector<Named>> upgrades(const TomlDocument& base,
                                    const std::vector<std::string>& models,
                                    const Catalogue& catalogue) {
  if (!base.has("rig"))
    return bad_input("nothing to compare",
                     "--gpus A,B or --rigs A,B; or --base RIG, for what one new part would do");
  TomlDocument document = base.clone();
  if (!models.front().empty()) document.set("model.name", toml_text(models.front()), "--model");
  const auto scenario = make_scenario(document, catalogue);
  if (!scenario) return scenario.error();
  return upgrades_of(base, catalogue, scenario->rig);
}

void keep_best(std::vector<planner::ComparedRig>& compared, std::optional<double> budget) {
  constexpr std::size_t kShown = 11;
  planner::rank_upgrades(compared, budget);
  if (compared.size() > kShown) compared.resize(kShown);
}

void progress(std::size_t done, std::size_t all) {
  if (all > 10) show_progress(done == all ? "" : fmt::format("{} of {} rigs", done, all));
}

int compare_verb(const Options& o, const Catalogue& catalogue) {
  if (o.output.format == Format::kCsv)
    return fail(bad_input("a comparison has no CSV", "--format json"));
  auto base = o.flags.document();
  if (!base) return fail(base.error());
  if (!o.base.empty())
    if (auto error = base->set("rig.name", toml_text(o.base), "--base")) return fail(*error);
  const auto constraints = o.constraints.constraints();
  if (!constraints) return fail(constraints.error());
  const auto prices = prices_of(o, catalogue);
  if (!prices) return fail(prices.error());
  const auto quality = read_quality(catalogue);
  if (!quality) return fail(quality.error());
  const std::vector<std::string> models = take_models(*base);
  const auto rigs =
      o.upgrades() ? upgrades(*base, models, catalogue) : rigs_of(o, *base, catalogue);
  if (!rigs) return fail(rigs.error());
  const std::optional<double> budget = o.budget > 0 ? std::optional(o.budget) : std::nullopt;
  Comparison comparison(catalogue, *constraints, *quality);
  std::vector<planner::ComparedRig> compared;
  for (const Named& rig : *rigs) {
    progress(compared.size(), rigs->size());
    auto one = comparison.rig(rig, models, *prices);
    if (!one && o.upgrades() && !compared.empty()) continue;  // no such part goes with the others
    if (!one) return fail(one.error());
    if (o.upgrades()) add_upgrade_price(rig, *prices, *one);
    compared.push_back(*std::move(one));
  }
  progress(rigs->size(), rigs->size());
  o.upgrades() ? keep_best(compared, budget) : planner::rank_rigs(compared, budget);
  const std::string verdict =
      o.upgrades() ? upgrade_text(compared, budget) : verdict_text(compared, budget);
  const std::string text = o.output.format == Format::kJson
                               ? to_json(compared, budget)
                               : to_text(compared, budget, verdict, comparison.workload(),
                                         {wants_colour(o.output), 100});
  if (auto error = emit(o.output, text)) return fail(*error);
  const std::size_t first = o.upgrades() && compared.size() > 1 ? 1 : 0;
  return compared[first].qualifies(first == 1     ? budget
                                   : o.upgrades() ? std::nullopt
                                                  : budget)
             ? kDone
             : kAnswerIsNo;
}

}  // namespace

void add_compare(CLI::App& app, const OpenCatalogue& open, Run& run) {
  CLI::App* verb = app.add_subcommand("compare", "Compare rigs or GPUs for a model: what to buy");
  auto o = std::make_shared<Options>();
  o->flags.add_to(*verb);
  o->output.add_to(*verb);
  o->constraints.add_to(*verb);
  constexpr const char* kGroup = "Comparison";
  verb->add_option("--gpus", o->gpus, "GPUs in the rig of the other flags: rtx-3090,2xrtx-3090")
      ->delimiter(',')
      ->type_name("A,B")
      ->group(kGroup)
      ->excludes("--gpu");
  verb->add_option("--rigs", o->rigs, "rigs of the catalogue, or rig files")
      ->delimiter(',')
      ->type_name("A,B")
      ->group(kGroup);
  verb->add_option("--base", o->base, "the rig that GPUs are put into, or that gets a new part")
      ->type_name("RIG")
      ->group(kGroup);
  verb->add_option("--budget", o->budget, "USD for the parts that differ, the GPUs")
      ->check(number_within(0.01, 1e9))
      ->type_name("USD")
      ->group(kGroup);
  verb->add_option("--price", o->prices, "what a GPU or an SSD costs: rtx-3090=750")
      ->type_name("PART=USD")
      ->group(kGroup);
  verb->footer(
      "--model takes several, A,B. Without --gpus and --rigs: which new part helps the rig most.\n"
      "Examples\n"
      "  rigcast compare --model llama-3.3-70b --context 16384 --gpus 2xrtx-3090,rtx-5090\n"
      "  rigcast compare --model llama-3.1-8b,qwen2.5-32b --rigs gaming-rtx-4090,dual-rtx-3090\n"
      "  rigcast compare --model qwen2.5-14b --base budget-rtx-3060");
  run_with_catalogue(*verb, open, run,
                     [o](const Catalogue& catalogue) { return compare_verb(*o, catalogue); });
}

}  // namespace rigcast::cli
