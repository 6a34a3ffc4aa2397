#include "planner/recommend/recommend_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/text/unit_text.hpp"
#include "planner/commands.hpp"
#include "planner/output/plan_text.hpp"
#include "report/report_words.hpp"
#include "report/text_screen.hpp"

namespace rigcast::planner {
namespace {

constexpr TokenCount kPlannedContext = 8192;  // of a plan that is asked for no other

std::string billions(double parameters) {
  return parameters >= 9.95e9 ? fmt::format("{:.0f}B", parameters / 1e9)
                              : fmt::format("{:.1f}B", parameters / 1e9);
}

// "30.5B, 3.3B active" is "31B/3.3B".
std::string size_text(const ModelFacts& f) {
  const bool is_sparse = f.active_parameters < 0.6 * f.parameters;
  return billions(f.parameters) + (is_sparse ? "/" + billions(f.active_parameters) : "");
}

std::string thousands(TokenCount tokens) {
  return tokens < 1000 ? fmt::format("{}", tokens) : fmt::format("{}k", tokens / 1000);
}

std::string memory_text(const Report& r) {
  Bytes vram, ram;
  for (const DeviceMemory& d : r.memory.devices)
    (d.tier == Tier::kVram ? vram : ram) += d.weights + d.kv + d.activations + d.staging;
  const auto gib = [](Bytes b) {
    return b < 10_GiB ? fmt::format("{:.1f}", b / 1_GiB) : fmt::format("{:.0f}", b / 1_GiB);
  };
  if (r.scenario->rig.gpus.empty()) return gib(ram);
  if (r.scenario->rig.unified()) return gib(vram + ram);
  return gib(vram) + " + " + gib(ram);
}

const char* memory_title(const Rig& rig) {
  return rig.gpus.empty() ? "RAM" : rig.unified() ? "memory" : "GPU + RAM";
}

class Screen : TextScreen {
 public:
  Screen(const Recommendation& r, const std::string& plan_command, TextStyle style)
      : TextScreen(style), r_(r), plan_command_(plan_command) {}

  std::string text() {
    const auto best = std::ranges::find_if(r_.rows, [](const auto& x) { return !!x.report; });
    const std::string where =
        best == r_.rows.end() ? "" : " on " + rig_name(best->report->scenario->rig);
    line(spread(paint_.bold(printable(fmt::format("{}{}", name(r_.asked.purpose), where))),
                fmt::format("{} of {} models", r_.rows.size(), r_.rows.size() + r_.left_out.size()),
                width_));
    paragraph("", rule_text(r_));
    if (best != r_.rows.end()) machine(*best->report->scenario);
    gap();
    if (best == r_.rows.end())
      nothing();
    else
      table(*best);
    return out_;
  }

 private:
  // What the rig says of itself; its other warnings are those of one model's scenario.
  void machine(const Scenario& s) {
    for (const std::string& note : s.rig.notes) paragraph("", note);
  }

  void table(const Recommended& best) {
    const Rig& rig = best.report->scenario->rig;
    std::size_t width = 5, shown = 0;
    for (const Recommended& row : r_.rows)
      if (row.report) width = std::max(width, row.facts.name.size());
    line(fmt::format("  {:<{}} {:<9} {:<8} {:<11} {:>5} {:>9} {:>7} {:>5}  {}", "model", width,
                     "weights", "released", "quant/KV", "tok/s", "1st token", "context", "loss",
                     memory_title(rig)));
    for (const Recommended& row : r_.rows) {
      if (!row.report) continue;
      line(row_text(row, width));
      ++shown;
    }
    gap();
    if (shown < r_.rows.size()) line(fmt::format("  {} more: --all", r_.rows.size() - shown));
    paragraph("  ", count_text(r_));
    paragraph(
        "  ",
        "weights: all, and those that a token passes through; tok/s half-way through the "
        "context; context: for how many there is memory; loss: nats from the unquantised model; "
        "memory in GiB");
    gap();
    out_ += "  next   " + plan_command_of(r_, best, plan_command_) + "\n";
    const Scenario& s = *best.report->scenario;
    for (const std::string& note : notes_on_companions(s)) paragraph("  note   ", note);
    if (!is_llama_cpp(s.runtime, s.kv.policy)) return;
    // Printed in full, so that it can be copied.
    out_ += "         " + shell_text(llama_server_command(s, best.report->placement)) + "\n";
    if (const std::string note = prompt_cache_note(s, best.report->placement); !note.empty())
      paragraph("         ", note);
  }

  std::string row_text(const Recommended& row, std::size_t width) const {
    const Report& r = *row.report;
    std::string quant = row.candidate.quant;
    const KvTypes kv = row.candidate.kv_types;
    if (kv.k != QuantFormat::kF16 || kv.v != QuantFormat::kF16) quant += "/" + rigcast::text(kv);
    return fmt::format("  {:<{}} {:<9} {:<8} {:<11} {:>5} {:>9} {:>7} {:>5.3f}  {}", row.facts.name,
                       width, size_text(row.facts), row.facts.released, quant,
                       three_digits(r.decode_tokens_per_s), time_text(r.resident->total()),
                       thousands(r.max_context), row.candidate.loss.nats, memory_text(r));
  }

  void nothing() {
    line("  none is fast enough and fits");
    paragraph("  ", count_text(r_));
    for (const LeftOut& l : r_.left_out)
      if (l.reason == WhyNot::kTooSlow) {
        paragraph("  ",
                  fmt::format("the nearest: {}, {}; --min-tps asks for less, --max-loss allows "
                              "smaller quants",
                              l.facts.name, l.text));
        return;
      }
  }

  const Recommendation& r_;
  const std::string& plan_command_;
};

}  // namespace

std::string plan_command_of(const Recommendation& r, const Recommended& row,
                            const std::string& plan_command) {
  const TokenCount context = row.candidate.context;
  const TokenCount usual = std::min(kPlannedContext, row.facts.context);
  const bool is_stated = plan_command.find(" --context") != std::string::npos;
  std::string out = plan_command;
  if (r.asked.min_tokens_per_s > 0) out += fmt::format(" --min-tps {:g}", r.asked.min_tokens_per_s);
  if (context != usual && !is_stated) out += fmt::format(" --context {}", context);
  return out + " --model " + row.facts.name;
}

std::string count_text(const Recommendation& r) {
  std::string out;
  for (const WhyNot reason : {WhyNot::kTooSlow, WhyNot::kLateFirstToken, WhyNot::kTooLarge,
                              WhyNot::kShortContext, WhyNot::kOther}) {
    const auto n =
        std::ranges::count_if(r.left_out, [&](const LeftOut& l) { return l.reason == reason; });
    if (n > 0) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", n, name(reason));
  }
  return out.empty() ? "no model is left out"
                     : fmt::format("left out: {} (--format json names them)", out);
}

std::string to_text(const Recommendation& r, const std::string& plan_command, TextStyle style) {
  return Screen(r, plan_command, style).text();
}

}  // namespace rigcast::planner
