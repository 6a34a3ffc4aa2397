#include "cli/load/compare_loads.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "cli/html/page_output.hpp"
#include "cli/load/load_tools.hpp"
#include "planner/load_plan/load_plan_text.hpp"
#include "planner/load_plan/rig_loads.hpp"
#include "planner/load_plan/rig_loads_csv.hpp"
#include "planner/load_plan/rig_loads_json.hpp"
#include "report/serving/serving_text.hpp"
#include "report/terminal/progress_line.hpp"

namespace rigcast::cli {
namespace {

using planner::RigLoad;
using planner::RigLoads;
using planner::ServedWay;

// The way of a machine, and its fleet; an error that is not that it does not fit ends all.
using FindWay = std::function<std::optional<Error>(const TomlDocument&, const Scenario&, RigLoad&)>;

class RigsOfLoad {
 public:
  RigsOfLoad(const LoadsToCompare& compared, bool has_amount, const Catalogue& catalogue)
      : compared_(compared), has_amount_(has_amount), catalogue_(catalogue) {}

  Result<RigLoads> with(const std::string& model, const FindWay& find_way) {
    RigLoads out;
    out.what = compared_.what;
    out.budget = compared_.budget;
    ProgressLine progress;
    for (const NamedRig& named : compared_.rigs) {
      const std::size_t begun = std::size_t(&named - compared_.rigs.data());
      progress.show({fmt::format("{} of {} rigs: {}", begun + 1, compared_.rigs.size(), named.name),
                     double(begun) / double(compared_.rigs.size())});
      TomlDocument document = named.document.clone();
      if (!model.empty()) document.set("model.name", toml_text(model), "--model");
      auto rig = one(named, document, out, find_way);
      if (!rig && out.upgrades() && !out.rigs.empty()) continue;  // it does not go with the others
      if (!rig) return of_rig(named, rig.error());
      if (out.upgrades() && rig->is_beyond_budget)
        ++out.beyond_budget;
      else
        out.rigs.push_back(*std::move(rig));
    }
    return out;
  }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  static Error of_rig(const NamedRig& named, Error error) {
    error.message = fmt::format("{}: {}", named.name, error.message);
    return error;
  }

  Result<RigLoad> one(const NamedRig& named, const TomlDocument& document, RigLoads& out,
                      const FindWay& find_way) {
    const auto scenario = make_scenario(document, catalogue_);
    if (!scenario) return scenario.error();
    const Scenario& s = *scenario;
    if (!s.load) return bad_input("no load to compare for", "for example --load chat --users 40");
    if (has_amount_)
      if (const auto error = check_amount(document, *s.load)) return *error;
    if (const auto error = planner::check_capacity(*s.load)) return *error;
    out.model = s.model.name;
    out.load = text(*s.load);
    out.slo = text(s.load->slo);
    out.in_users = !s.load->is_open();
    if (has_amount_) out.amount = planner::amount_of(*s.load);
    RigLoad rig;
    rig.name = named.name;
    rig.price = price_of(named, s.rig, compared_.what, compared_.prices);
    rig.watts = planner::watts_of(s.rig);
    rig.is_beyond_budget = planner::is_beyond(compared_.budget, rig.price);
    if (rig.is_beyond_budget) {  // one alone is too much: nothing that is simulated can change it
      rig.why_not = planner::beyond_text(rig.price);
      return rig;
    }
    if (const auto error = find_way(document, s, rig)) {
      if (error->kind != ErrorKind::kDoesNotFit) return *error;
      rig.why_not = error->message;
    }
    if (rig.way && !rig.serves()) rig.why_not = "serves nobody";
    if (rig.way)
      if (auto note = note_on_ram(*rig.way->scenario); !note.empty())
        rig.notes.push_back(std::move(note));
    note_of(s, rig);
    return rig;
  }

  void add(const std::string& note) {
    if (!note.empty() && std::ranges::find(notes_, note) == notes_.end()) notes_.push_back(note);
  }

  // What is to be known of all of them is said once.
  void note_of(const Scenario& s, const RigLoad& rig) {
    const bool is_first = notes_.empty();
    if (is_first && rig.way && rig.way->capacity.at_most)
      add(shortened_text(*rig.way->capacity.at_most));
    if (s.load->duration) add("the load goes on: its duration is left out");
  }

  const LoadsToCompare& compared_;
  const bool has_amount_;
  const Catalogue& catalogue_;
  std::vector<std::string> notes_;
};

// With its own settings.
std::optional<Error> find_stated(const Scenario& s, RigLoad& rig) {
  const planner::MakeServer make = simulated_server();
  ServedWay way;
  way.scenario = std::make_shared<const Scenario>(s);
  auto server = make(way.scenario);
  if (!server) return server.error();
  auto found = planner::find_most(*s.load, server->forecast);
  if (!found) return found.error();
  way.capacity = *std::move(found);
  const auto end = [&](const planner::ServeLoad& serve) -> std::optional<double> {
    const auto most = planner::find_most(*s.load, serve, way.capacity.most);
    return most ? std::optional(most->most) : std::nullopt;
  };
  way.lowest = end(server->slowest);
  way.highest = end(server->fastest);
  rig.way = std::move(way);
  return std::nullopt;
}

// The way that serves most.
std::optional<Error> find_best(const TomlDocument& document, const Scenario& s,
                               const std::optional<double>& max_loss,
                               const planner::QualityTable& quality, const Catalogue& catalogue,
                               RigLoad& rig, std::optional<double>& held_to) {
  const planner::MakeServer make = simulated_server();
  planner::LoadSearch search = load_search(document, s, max_loss, quality, catalogue);
  search.fastest_only = true;
  held_to = search.max_loss;
  std::size_t too_large = 0;
  auto ways = planner::find_ways(s, search, quality, make, &too_large);
  if (!ways) return ways.error();
  if (ways->empty()) return Error{ErrorKind::kDoesNotFit, "does not fit"};
  const double amount = planner::amount_of(*s.load);
  auto best = planner::best_of(amount, *std::move(ways), make);
  if (!best) return best.error();
  if (auto done = planner::add_interval(amount, **best, make); !done) return done.error();
  rig.way = std::move((*best)->way);
  rig.fleet = std::move((*best)->fleet);
  return std::nullopt;
}

// True if a machine serves it; of an upgraded one, with the new part or as it is.
bool is_answered(const RigLoads& loads) {
  return std::ranges::any_of(loads.rigs,
                             [&](const RigLoad& rig) { return planner::qualifies(loads, rig); });
}

int shown(std::vector<RigLoads>& models, const std::vector<std::string>& notes,
          const OutputOptions& output) {
  for (RigLoads& loads : models) planner::rank(loads);
  const auto render = [&](const OutputOptions& form) {
    switch (form.format) {
      case Format::kJson: return to_json(models);
      case Format::kCsv: return planner::to_csv(models);
      case Format::kText: break;
    }
    return to_text(models, notes, screen_style(form));
  };
  const std::string title = fmt::format("{} for {}", models.front().model, models.front().load);
  if (auto error = emit(output, Answer{title, render})) return fail(*error);
  return std::ranges::all_of(models, is_answered) ? kDone : kAnswerIsNo;
}

std::vector<std::string> models_of(const LoadsToCompare& compared) {
  return compared.models.empty() ? std::vector<std::string>{""} : compared.models;
}

}  // namespace

int compare_for_load(const LoadsToCompare& compared, const ConstraintFlags& constraints,
                     const OutputOptions& output, const Catalogue& catalogue) {
  if (const auto error = check_outputs({output.file})) return fail(*error);
  if (const auto error = check_constraints(constraints)) return fail(*error);
  const auto asked = constraints.constraints();
  if (!asked) return fail(asked.error());
  const auto quality = read_quality(catalogue);
  if (!quality) return fail(quality.error());
  RigsOfLoad rigs(compared, true, catalogue);
  std::vector<RigLoads> out;
  for (const std::string& model : models_of(compared)) {
    std::optional<double> max_loss;
    auto loads =
        rigs.with(model, [&](const TomlDocument& document, const Scenario& s, RigLoad& rig) {
          return find_best(document, s, asked->max_loss, *quality, catalogue, rig, max_loss);
        });
    if (!loads) return fail(loads.error());
    loads->max_loss = max_loss;
    out.push_back(*std::move(loads));
  }
  return shown(out, rigs.notes(), output);
}

int capacities_of(const LoadsToCompare& compared, const OutputOptions& output,
                  const Catalogue& catalogue) {
  RigsOfLoad rigs(compared, false, catalogue);
  std::vector<RigLoads> out;
  for (const std::string& model : models_of(compared)) {
    auto loads = rigs.with(model, [&](const TomlDocument&, const Scenario& s, RigLoad& rig) {
      return find_stated(s, rig);
    });
    if (!loads) return fail(loads.error());
    out.push_back(*std::move(loads));
  }
  return shown(out, rigs.notes(), output);
}

}  // namespace rigcast::cli
