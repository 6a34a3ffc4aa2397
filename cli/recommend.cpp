#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cli/shared/output.hpp"
#include "cli/shared/plan_tools.hpp"
#include "cli/shared/scenario_flags.hpp"
#include "cli/verbs.hpp"
#include "core/catalogue/compose_rig.hpp"
#include "core/text/unit_text.hpp"
#include "planner/commands.hpp"
#include "planner/recommend/recommend.hpp"
#include "planner/recommend/recommend_json.hpp"
#include "planner/recommend/recommend_text.hpp"
#include "report/terminal/progress_line.hpp"

namespace rigcast::cli {
namespace {

using planner::Purpose;

struct Options {
  ScenarioFlags flags;
  OutputOptions output;
  std::string purpose = "chat";
  double min_tps = -1, max_loss = -1;
  std::string max_ttft;
  bool all = false;
};

constexpr Purpose kPurposes[] = {Purpose::kChat, Purpose::kCode, Purpose::kLongContext,
                                 Purpose::kSpeed};

Result<planner::Asked> asked_of(const Options& o, const TomlDocument& document) {
  const auto purpose = std::ranges::find(kPurposes, o.purpose, [](Purpose p) { return name(p); });
  planner::Asked asked = planner::asked_for(*purpose);
  if (o.min_tps >= 0) asked.min_tokens_per_s = o.min_tps;
  if (o.max_loss >= 0) asked.max_loss = o.max_loss;
  if (!o.max_ttft.empty()) {
    const auto time = parse_duration(o.max_ttft);
    if (!time) return bad_input("--max-ttft: " + time.error().message, time.error().hint);
    asked.max_ttft = *time;
  }
  if (document.has("workload.context")) {
    asked.context = document.root().table("workload").integer("context", 1, 1 << 30);
    if (const auto error = document.error()) return *error;
    asked.context_is_fixed = true;
  }
  if (o.all) asked.rows = 1'000'000;
  return asked;
}

std::vector<ModelSpec> all_models(const Catalogue& catalogue) {
  std::vector<ModelSpec> out;
  for (const std::string& id : catalogue.ids("models"))
    if (auto spec = catalogue.model(id)) out.push_back(*std::move(spec));
  return out;
}

std::optional<Error> check(const TomlDocument& document) {
  for (const char* key : {"model.name", "model.file", "model.size"})
    if (document.has(key))
      return bad_input(fmt::format("{}: recommend looks at all models", key),
                       "rigcast plan finds the best way to run one");
  return std::nullopt;
}

// The same machine and settings, for a plan of one model.
std::string plan_command(const Options& o, bool is_here) {
  planner::Words words{"rigcast", "plan"};
  if (is_here) words.insert(words.end(), {"--rig", kThisMachine});
  for (std::string& word : o.flags.words()) words.push_back(std::move(word));
  return planner::shell_text(words);
}

std::string render(const planner::Recommendation& found, const Options& o,
                   const std::string& command) {
  switch (o.output.format) {
    case Format::kJson: return to_json(found, command);
    case Format::kCsv: return to_csv(found);
    case Format::kText: break;
  }
  return to_text(found, command, screen_style(o.output));
}

// A thousand tables of tensors come and go. That glibc returns their pages to the system each time,
// and gets them back, is a sixth of the time.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  mallopt(M_TOP_PAD, 16 << 20);
#endif
}

int recommend_verb(const Options& o, const Catalogue& catalogue) {
  keep_freed_memory();
  auto document = o.flags.document();
  if (!document) return fail(document.error());
  const bool is_here = !document->has("rig");
  if (is_here)
    if (const auto error = document->set("rig.name", toml_text(kThisMachine), "recommend"))
      return fail(*error);
  if (const auto error = check(*document)) return fail(*error);
  const auto asked = asked_of(o, *document);
  if (!asked) return fail(asked.error());
  const auto quality = read_quality(catalogue);
  if (!quality) return fail(quality.error());
  const auto scenario_with = [&](const std::string& model, TokenCount context) -> Result<Scenario> {
    TomlDocument one = document->clone();
    if (auto error = one.set("model.name", toml_text(model), "recommend")) return *error;
    if (auto error = one.set("workload.context", fmt::format("{}", context), "recommend"))
      return *error;
    auto scenario = make_scenario(one, catalogue);
    if (scenario)
      if (auto error = check_no_load(scenario->load)) return *error;
    return scenario;
  };
  const auto space = [&](const Scenario& s) { return space_of(*document, s); };
  std::optional<ProgressLine> progress(std::in_place);
  const auto watched_scenario = [&](const std::string& model, TokenCount context) {
    progress->show(model);
    return scenario_with(model, context);
  };
  const auto found = planner::recommend(all_models(catalogue), *asked, watched_scenario, space,
                                        *quality, [](auto s) { return forecast_to_show(s); });
  progress.reset();
  if (!found) return fail(found.error());
  if (auto error = emit(o.output, render(*found, o, plan_command(o, is_here)))) return fail(*error);
  return found->rows.empty() ? kAnswerIsNo : kDone;
}

}  // namespace

void add_recommend(CLI::App& app, const OpenCatalogue& open, Run& run) {
  CLI::App* verb =
      app.add_subcommand("recommend", "What can this machine run? Models ranked for a purpose");
  auto o = std::make_shared<Options>();
  o->flags.add_to(*verb);
  o->output.add_to(*verb);
  constexpr const char* kGroup = "Recommendation";
  verb->add_option("--for", o->purpose, "chat (default), code, long-context or speed")
      ->check(CLI::IsMember({"chat", "code", "long-context", "speed"}))
      ->type_name("PURPOSE")
      ->group(kGroup);
  verb->add_option("--min-tps", o->min_tps, "tokens per second, at least")
      ->check(number_within(0, 1e9))
      ->type_name("X")
      ->group(kGroup);
  verb->add_option("--max-ttft", o->max_ttft, "time to first token, at most: 2 s")
      ->type_name("TIME")
      ->group(kGroup);
  verb->add_option("--max-loss", o->max_loss, "quality lost, at most, in nats: 0.02")
      ->check(number_within(0, 1e3))
      ->type_name("NATS")
      ->group(kGroup);
  verb->add_flag("--all", o->all, "all models that qualify, not 15")->group(kGroup);
  verb->footer(
      "Without a rig: this machine. No score of a model's quality enters: size, release, context\n"
      "and purpose are those of its publisher.\n"
      "Examples\n"
      "  rigcast recommend\n"
      "  rigcast recommend --rig gaming-rtx-4090 --for code\n"
      "  rigcast recommend --gpu rtx-3060-12gb --for long-context --min-tps 5");
  run_with_catalogue(*verb, open, run,
                     [o](const Catalogue& catalogue) { return recommend_verb(*o, catalogue); });
}

}  // namespace rigcast::cli
