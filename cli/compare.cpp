#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <sstream>

#include "cli/output.hpp"
#include "cli/plan_tools.hpp"
#include "cli/scenario_flags.hpp"
#include "cli/verbs.hpp"
#include "core/unit_text.hpp"
#include "planner/compare.hpp"

namespace rigcast::cli {
namespace {

struct Options {
  ScenarioFlags flags;
  OutputOptions output;
  WishFlags wish;
  std::vector<std::string> models, rigs, gpus, prices;
  double budget = 0;
};

// What somebody pays for a part: --price rtx-3090=750.
using Prices = std::map<std::string, double>;

Result<Prices> prices_of(const Options& o, const Catalogue& catalogue) {
  Prices prices;
  for (const std::string& text : o.prices) {
    const std::size_t at = text.find('=');
    char* end = nullptr;
    const double usd = at == std::string::npos ? -1 : std::strtod(text.c_str() + at + 1, &end);
    if (usd < 0 || !end || *end || end == text.c_str() + at + 1)
      return bad_input(fmt::format("--price: \"{}\" is not PART=USD", text),
                       "for example --price rtx-3090=750");
    const auto part = catalogue.gpu(text.substr(0, at));
    if (!part) return part.error();
    prices[part->id] = usd;
  }
  return prices;
}

// "2xrtx-3090" and "rtx-3090+rtx-3060-12gb" as the scenario key takes them.
std::string gpu_list(const std::string& text) {
  std::string out;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, '+');)
    out += (out.empty() ? "" : ", ") + toml_text(part);
  return "[" + out + "]";
}

// A rig that is compared: its name, and the scenario with it.
struct Named {
  std::string name;
  TomlDocument document;
};

Result<std::vector<Named>> rigs_of(const Options& o, const TomlDocument& base,
                                   const Catalogue& catalogue) {
  std::vector<Named> out;
  const auto add = [&](const std::string& name, const char* key, const std::string& value) {
    Named rig{name, base.clone()};
    auto error = rig.document.set(key, value, "--" + std::string(key + 4) + "s");
    out.push_back(std::move(rig));
    return error;
  };
  for (const std::string& rig : o.rigs)
    if (auto error = add(rig, "rig.name", toml_text(rig))) return *error;
  const std::vector<std::string> known = catalogue.ids("hwprofiles/rigs");
  for (const std::string& gpu : o.gpus) {
    // A machine that is one part with its GPU stands among them by its name.
    const bool is_rig = std::ranges::find(known, gpu) != known.end();
    if (auto error =
            is_rig ? add(gpu, "rig.name", toml_text(gpu)) : add(gpu, "rig.gpu", gpu_list(gpu)))
      return *error;
  }
  if (out.empty())
    return bad_input("nothing to compare", "--gpus rtx-3090,rtx-4090, or --rigs A,B");
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

class Comparison {
 public:
  Comparison(const Catalogue& catalogue, planner::Wish wish, planner::QualityTable quality)
      : catalogue_(catalogue), wish_(std::move(wish)), quality_(std::move(quality)) {}

  Result<planner::ComparedRig> rig(const Named& named, const std::vector<std::string>& models,
                                   const Prices& prices) {
    planner::ComparedRig out;
    out.name = named.name;
    for (const std::string& model : models) {
      TomlDocument document = named.document.clone();
      if (!model.empty()) document.set("model.name", toml_text(model), "--models");
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
    planner::Plan plan =
        make_plan(s, space_of(document, s), wish_, quality_, request_seconds, forecast_to_rank);
    if (plan.choices.empty()) {
      out.lack = "does not fit";
      return out;
    }
    out.best = std::move(plan.choices.front());
    const Workload& w = s.workload;
    out.best->report =
        forecast_to_show(out.best->report.scenario, {w.depth + w.prompt_tokens, w.context});
    return out;
  }

  const Catalogue& catalogue_;
  planner::Wish wish_;
  planner::QualityTable quality_;
  Workload workload_;
};

int compare_verb(const Options& o, const Catalogue& catalogue) {
  if (o.output.format == Format::kCsv)
    return fail(bad_input("a comparison has no CSV", "--format json"));
  const auto base = o.flags.document();
  if (!base) return fail(base.error());
  const auto wish = o.wish.wish();
  if (!wish) return fail(wish.error());
  const auto prices = prices_of(o, catalogue);
  if (!prices) return fail(prices.error());
  const auto quality = read_quality(catalogue);
  if (!quality) return fail(quality.error());
  const auto rigs = rigs_of(o, *base, catalogue);
  if (!rigs) return fail(rigs.error());
  const std::optional<double> budget = o.budget > 0 ? std::optional(o.budget) : std::nullopt;
  Comparison comparison(catalogue, *wish, *quality);
  std::vector<planner::ComparedRig> compared;
  for (const Named& rig : *rigs) {
    auto one =
        comparison.rig(rig, o.models.empty() ? std::vector<std::string>{""} : o.models, *prices);
    if (!one) return fail(one.error());
    compared.push_back(*std::move(one));
  }
  planner::rank_rigs(compared, budget);
  const std::string text =
      o.output.format == Format::kJson
          ? to_json(compared, budget)
          : to_text(compared, budget, comparison.workload(), {wants_colour(o.output), 100});
  if (auto error = emit(o.output, text)) return fail(*error);
  return compared.front().qualifies(budget) ? kDone : kAnswerIsNo;
}

}  // namespace

void add_compare(CLI::App& app, const OpenCatalogue& open, Run& run) {
  CLI::App* verb = app.add_subcommand("compare", "Compare rigs or GPUs for a model: what to buy");
  auto o = std::make_shared<Options>();
  o->flags.add_to(*verb);
  o->output.add_to(*verb);
  o->wish.add_to(*verb);
  constexpr const char* kGroup = "Comparison";
  verb->add_option("--gpus", o->gpus, "GPUs in the rig of the other flags: rtx-3090,2xrtx-3090")
      ->delimiter(',')
      ->type_name("A,B")
      ->group(kGroup);
  verb->add_option("--rigs", o->rigs, "rigs of the catalogue, or rig files")
      ->delimiter(',')
      ->type_name("A,B")
      ->group(kGroup);
  verb->add_option("--models", o->models, "several models in place of --model")
      ->delimiter(',')
      ->type_name("M,M")
      ->group(kGroup);
  verb->add_option("--budget", o->budget, "USD for the parts that differ, the GPUs")
      ->check(CLI::PositiveNumber)
      ->type_name("USD")
      ->group(kGroup);
  verb->add_option("--price", o->prices, "what a GPU costs: rtx-3090=750")
      ->type_name("PART=USD")
      ->group(kGroup);
  verb->footer(
      "Examples\n"
      "  rigcast compare --model llama-3.3-70b --context 16384 --gpus "
      "2xrtx-3090,rtx-5090,rtx-4090\n"
      "  rigcast compare --models llama-3.1-8b,qwen2.5-32b --rigs gaming-rtx-4090,dual-rtx-3090\n"
      "  rigcast compare --model qwen3-30b-a3b --gpus rtx-3060-12gb,rtx-5070-ti --budget 800");
  verb->callback([o, open, &run] {
    run = [o, open] {
      const auto catalogue = open();
      return catalogue ? compare_verb(*o, *catalogue) : fail(catalogue.error());
    };
  });
}

}  // namespace rigcast::cli
