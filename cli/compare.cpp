#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <sstream>

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

namespace rigcast::cli {
namespace {

using planner::Comparison;

struct Options {
  ScenarioFlags flags;
  OutputOptions output;
  ConstraintFlags constraints;
  std::vector<std::string> rigs, gpus, prices;
  std::string base, price_file;
  double budget = 0;
  bool names_rig = false;  // by --base, --rig, --gpu or the scenario file

  Comparison::What what() const {
    if (!rigs.empty()) return Comparison::What::kRigs;
    return gpus.empty() && names_rig ? Comparison::What::kUpgrades : Comparison::What::kGpus;
  }
};

constexpr const char* kOldest = "2020";  // older cards are hardly sold
constexpr std::size_t kShown = 11;       // of many rigs, the best

// The id of a GPU, CPU, SSD or rig; a RAM kit with its size is its own.
Result<std::string> part_id(const std::string& name, const Catalogue& catalogue) {
  if (const auto gpu = catalogue.gpu(name)) return gpu->id;
  if (const auto cpu = catalogue.cpu(name)) return cpu->id;
  if (const auto ssd = catalogue.ssd(name)) return ssd->id;
  if (name.find(':') != std::string::npos && catalogue.ram(name)) return name;
  if (const auto rig = catalogue.rig_file(name)) return rig->stem().string();
  return catalogue.gpu(name).error();
}

// The list that ships, the user's file before it, and single prices before both.
Result<PriceList> prices_of(const Options& o, const Catalogue& catalogue) {
  auto prices = PriceList::read(catalogue.root() / "hwprofiles/prices.toml");
  if (!prices) return prices;
  if (!o.price_file.empty()) {
    const auto own = PriceList::read(o.price_file);
    if (!own) return own.error();
    prices->put_before(*own);
  }
  for (const std::string& text : o.prices) {
    const std::size_t at = text.find('=');
    char* end = nullptr;
    const double usd = at == std::string::npos ? -1 : std::strtod(text.c_str() + at + 1, &end);
    if (!(usd >= 0 && usd < 1e9) || !end || *end || end == text.c_str() + at + 1)
      return bad_input(fmt::format("--price: \"{}\" is not PART=USD", text),
                       "for example --price rtx-3090=750");
    const auto id = part_id(text.substr(0, at), catalogue);
    if (!id) return bad_input(fmt::format("--price: {}", id.error().message), id.error().hint);
    prices->set(*id, usd);
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
  bool new_ram = false;
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
  // What is named twice would tie with itself.
  std::vector<std::string> seen;
  const auto is_new = [&](const char* flag, const std::string& name) {
    const bool known = std::ranges::find(seen, name) != seen.end();
    if (known) fmt::print(stderr, "rigcast: {}: {} is named twice, compared once\n", flag, name);
    seen.push_back(name);
    return !known;
  };
  for (const std::string& rig : o.rigs)
    if (is_new("--rigs", trimmed(rig)))
      if (auto error = add("--rigs", trimmed(rig), true)) return *error;
  const std::vector<std::string> known = catalogue.ids("hwprofiles/rigs");
  for (const std::string& text : o.gpus) {
    // A machine that is one part with its GPU stands among them by its name.
    const std::string gpu = trimmed(text);
    if (!is_new("--gpus", gpu)) continue;
    if (auto error = add("--gpus", gpu, std::ranges::find(known, gpu) != known.end()))
      return *error;
  }
  return out;
}

// Every GPU that is sold within the budget, alone in a usual machine.
Result<std::vector<Named>> gpus_within(double budget, const TomlDocument& base,
                                       const PriceList& prices, const Catalogue& catalogue) {
  std::vector<Named> out;
  for (const std::string& id : catalogue.ids("hwprofiles/gpus")) {
    const auto part = catalogue.gpu(id);
    if (!part || part->unified || part->released < kOldest) continue;
    const auto usd = price_of_part(*part, prices).usd;
    if (!usd || *usd > budget) continue;
    Named gpu{id, base.clone(), *part};
    if (!gpu.document.set("rig.gpu", gpu_list(id), "compare")) out.push_back(std::move(gpu));
  }
  if (budget <= 0 || out.empty())
    return bad_input(budget <= 0 ? "nothing to compare" : "no GPU is sold for the budget",
                     "--gpus A,B or --rigs A,B; --base RIG, for what one new part would do; or "
                     "--budget USD, for all GPUs within it");
  return out;
}

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
Result<std::vector<Named>> upgrades_of(const TomlDocument& base, const PriceList& prices,
                                       const Catalogue& catalogue, const Rig& rig) {
  std::vector<Named> out{{"as it is", base.clone()}};
  const auto add = [&](Named named, const char* key, const std::string& value) {
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

// The price of what is compared: the machine, its GPUs, or the new part in it. A slot has none.
PartsPrice price_of(const Named& named, const Rig& rig, Comparison::What what,
                    const PriceList& prices) {
  switch (what) {
    case Comparison::What::kRigs: return price_of_rig(rig, named.name, prices);
    case Comparison::What::kGpus: return price_of_gpus(rig, prices);
    case Comparison::What::kUpgrades: break;
  }
  if (named.new_gpu) return price_of_part(*named.new_gpu, prices);
  if (named.new_ssd) return price_of_part(*named.new_ssd, prices);
  if (named.new_ram) return price_of_ram(rig.ram, prices);
  return {};
}

class RigPlanner {
 public:
  RigPlanner(const Catalogue& catalogue, planner::Constraints constraints,
             planner::QualityTable quality)
      : catalogue_(catalogue), constraints_(std::move(constraints)), quality_(std::move(quality)) {}

  Result<planner::ComparedRig> rig(const Named& named, const std::vector<std::string>& models,
                                   Comparison::What what, const PriceList& prices) {
    planner::ComparedRig out;
    out.name = named.name;
    for (const std::string& model : models) {
      TomlDocument document = named.document.clone();
      if (!model.empty()) document.set("model.name", toml_text(model), "--model");
      const auto scenario = make_scenario(document, catalogue_);
      if (!scenario) return scenario.error();
      if (const auto error = check_no_load(scenario->load)) return *error;
      if (out.models.empty()) {
        out.price = price_of(named, scenario->rig, what, prices);
        out.watts = planner::watts_of(scenario->rig);
      }
      workload_ = scenario->workload;
      out.models.push_back(best(document, *scenario));
    }
    return out;
  }
  const Workload& workload() const { return workload_; }

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
    planner::Plan plan =
        make_plan(s, space, constraints, quality_, request_seconds, forecast_to_rank);
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
                                    const std::vector<std::string>& models, const PriceList& prices,
                                    const Catalogue& catalogue) {
  TomlDocument document = base.clone();
  if (!models.front().empty()) document.set("model.name", toml_text(models.front()), "--model");
  const auto scenario = make_scenario(document, catalogue);
  if (!scenario) return scenario.error();
  return upgrades_of(base, prices, catalogue, scenario->rig);
}

// The rigs to compare; of upgrades, the first is the rig as it is.
Result<std::vector<Named>> rigs_to_compare(const Options& o, const TomlDocument& base,
                                           const std::vector<std::string>& models,
                                           const PriceList& prices, const Catalogue& catalogue) {
  switch (o.what()) {
    case Comparison::What::kUpgrades: return upgrades(base, models, prices, catalogue);
    case Comparison::What::kGpus:
      if (o.gpus.empty()) return gpus_within(o.budget, base, prices, catalogue);
      break;
    case Comparison::What::kRigs: break;
  }
  return rigs_of(o, base, catalogue);
}

void progress(std::size_t done, std::size_t all) {
  if (all > 10) show_progress(done == all ? "" : fmt::format("{} of {} rigs", done, all));
}

std::string render(const Comparison& c, const Workload& workload, const OutputOptions& output) {
  switch (output.format) {
    case Format::kJson: return to_json(c);
    case Format::kCsv: return to_csv(c);
    case Format::kText: break;
  }
  return to_text(c, workload, {wants_colour(output), 100});
}

int compare_verb(Options& o, const Catalogue& catalogue) {
  auto base = o.flags.document();
  if (!base) return fail(base.error());
  if (!o.base.empty())
    if (auto error = base->set("rig.name", toml_text(o.base), "--base")) return fail(*error);
  o.names_rig = base->has("rig");
  const auto constraints = o.constraints.constraints();
  if (!constraints) return fail(constraints.error());
  const auto prices = prices_of(o, catalogue);
  if (!prices) return fail(prices.error());
  const auto quality = read_quality(catalogue);
  if (!quality) return fail(quality.error());
  const std::vector<std::string> models = take_models(*base);
  const auto rigs = rigs_to_compare(o, *base, models, *prices, catalogue);
  if (!rigs) return fail(rigs.error());
  RigPlanner planner(catalogue, *constraints, *quality);
  Comparison compared{o.what(), o.budget > 0 ? std::optional(o.budget) : std::nullopt, {}};
  const bool upgrades = compared.what == Comparison::What::kUpgrades;
  for (const Named& rig : *rigs) {
    progress(compared.rigs.size(), rigs->size());
    auto one = planner.rig(rig, models, compared.what, *prices);
    if (!one && upgrades && !compared.rigs.empty()) continue;  // no such part goes with the others
    if (!one) return fail(one.error());
    compared.rigs.push_back(*std::move(one));
  }
  progress(rigs->size(), rigs->size());
  planner::rank(compared);
  if (compared.rigs.size() > kShown) compared.rigs.resize(kShown);
  if (auto error = emit(o.output, render(compared, planner.workload(), o.output)))
    return fail(*error);
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
  o->constraints.add_to(*verb);
  constexpr const char* kGroup = "Comparison";
  add_list(*verb, "--gpus", o->gpus, "GPUs in the rig of the other flags: rtx-3090,2xrtx-3090")
      ->type_name("A,B")
      ->group(kGroup)
      ->excludes("--gpu");
  add_list(*verb, "--rigs", o->rigs, "rigs of the catalogue, or rig files")
      ->type_name("A,B")
      ->group(kGroup);
  verb->add_option("--base", o->base, "the rig that GPUs are put into, or that gets a new part")
      ->check(not_empty())
      ->type_name("RIG")
      ->group(kGroup);
  verb->add_option("--budget", o->budget,
                   "USD: for machines (--rigs), GPUs (--gpus) or the new part")
      ->check(number_within(0.01, 1e9))
      ->type_name("USD")
      ->group(kGroup);
  verb->add_option("--price", o->prices, "what a part or a machine costs: rtx-3090=750")
      ->type_name("PART=USD")
      ->group(kGroup);
  verb->add_option("--prices", o->price_file, "price list of your own, as hwprofiles/prices.toml")
      ->check(not_empty())
      ->type_name("FILE.toml")
      ->group(kGroup);
  verb->footer(
      "--model takes several, A,B. Without --gpus and --rigs: which new part helps the rig most;\n"
      "without a rig, too: the GPUs within --budget. Each machine runs the fastest plan that "
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
