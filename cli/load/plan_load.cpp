#include "cli/load/plan_load.hpp"

#include <fmt/format.h>

#include "cli/html/page_output.hpp"
#include "cli/load/load_tools.hpp"
#include "core/catalogue/price_list.hpp"
#include "planner/compare.hpp"
#include "planner/load_plan/load_plan_text.hpp"
#include "planner/load_plan/rig_loads_csv.hpp"
#include "planner/load_plan/rig_loads_json.hpp"
#include "planner/load_plan/way_commands.hpp"
#include "planner/server_commands.hpp"
#include "report/terminal/progress_line.hpp"

namespace rigcast::cli {
namespace {

std::optional<Error> check_program(const std::string& program, const Scenario& s) {
  if (program.empty()) return std::nullopt;
  const bool is_paged = s.runtime.rules == RuntimeRules::kPagedServer;
  const std::string known = is_paged ? s.runtime.id : "llama.cpp";
  if (program == known) return is_paged ? planner::check_paged(s, program) : std::nullopt;
  return bad_input(fmt::format("--emit {}: the server of the plan is {}", program, s.runtime.name),
                   fmt::format("--emit {}", known));
}

}  // namespace

int plan_for_load(const TomlDocument& document, const Scenario& s,
                  const ConstraintFlags& constraints, const std::string& program,
                  const OutputOptions& output, const Catalogue& catalogue) {
  if (const auto error = check_outputs({output.file})) return fail(*error);
  if (const auto error = check_constraints(constraints)) return fail(*error);
  if (const auto error = check_amount(document, *s.load)) return fail(*error);
  if (const auto error = check_program(program, s)) return fail(*error);
  const auto asked = constraints.constraints();
  if (!asked) return fail(asked.error());
  const auto quality = read_quality(catalogue);
  if (!quality) return fail(quality.error());
  const auto prices = PriceList::read(catalogue.root() / "hwprofiles/prices.toml");
  if (!prices) return fail(prices.error());
  ProgressLine progress;
  planner::LoadSearch search = load_search(document, s, asked->max_loss, *quality, catalogue);
  search.progress = [&](const std::string& what) { progress.show(what); };
  const planner::MakeServer server = simulated_server();
  // Says what is wrong with a scenario for which no way can be tried.
  if (!s.scheduler)
    if (const auto made = server(std::make_shared<const Scenario>(s)); !made)
      return fail(made.error());
  const auto plan = planner::plan_load(s, search, *quality, server);
  if (!plan) return fail(plan.error());
  if (plan->choices.empty())
    return fail({ErrorKind::kDoesNotFit,
                 fmt::format("{} does not fit in any of {} ways", s.model.name, plan->too_large),
                 s.runtime.rules == RuntimeRules::kPagedServer
                     ? "weights of fewer bits (--quant FP8, INT4), a shorter --context, more GPUs"
                     : "a shorter --context, fewer --slots, or another model",
                 {}});
  const planner::LoadChoice& best = plan->choices.front();
  const bool names_rig = document.has("rig.name");
  const PartsPrice price =
      names_rig ? price_of_rig(s.rig, document.root().table("rig").text_or("name", ""), *prices)
                : price_of_gpus(s.rig, *prices);
  std::vector<std::string> notes;
  if (auto note = note_on_ram(*best.way.scenario); !note.empty()) notes.push_back(std::move(note));
  const auto render = [&](const OutputOptions& form) {
    if (!program.empty()) return planner::text_of(planner::commands_of(best.way)) + "\n";
    if (form.format == Format::kJson) return to_json(s, *plan, price, notes);
    if (form.format == Format::kCsv) return planner::to_csv(*plan, price);
    return to_text(s, *plan, price, !names_rig, planner::watts_of(s.rig), notes,
                   screen_style(form));
  };
  const std::string title = fmt::format("{} for {}", s.model.name, rigcast::text(*s.load));
  if (auto error = emit(output, Answer{title, render})) return fail(*error);
  return best.fleet && best.fleet->figures.meets_slo() ? kDone : kAnswerIsNo;
}

}  // namespace rigcast::cli
