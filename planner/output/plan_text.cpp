#include "planner/output/plan_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "core/model/kv_bytes.hpp"
#include "core/runtime/format_group.hpp"
#include "core/text/unit_text.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "planner/commands.hpp"
#include "report/report_words.hpp"
#include "report/text_screen.hpp"

namespace rigcast::planner {
namespace {

constexpr std::size_t kShown = 3;
constexpr std::size_t kMaxShownOnFront = 11;
constexpr std::size_t kDeviceWidth = 6;            // of a memory's name, at least: "memory"
constexpr std::string_view kIndent = "         ";  // the indentation below a plan's label

bool is_fp16(KvTypes types) { return types.k == QuantFormat::kF16 && types.v == QuantFormat::kF16; }

std::string gib(Bytes b) { return three_digits(b / 1_GiB); }

std::string loss_text(const QualityLoss& loss) {
  if (loss.nats <= 0) return "none";
  return fmt::format("{:.3f}", loss.nats);
}

class Screen : TextScreen {
 public:
  Screen(const Scenario& base, const Plan& plan, TextStyle style)
      : TextScreen(style), base_(base), plan_(plan) {}

  std::string text() {
    line(spread(paint_.bold(title()), counts(), width_));
    paragraph("", workload_text(base_.workload));
    gap();
    for (std::size_t i = 0; i < std::min(kShown, plan_.ranked.size()); ++i) ranked(i);
    if (!plan_.would_fit.empty()) {
      paragraph("  or     ", plan_.would_fit);
      gap();
    }
    front();
    crossover();
    command();
    return out_;
  }

 private:
  std::string title() const {
    return printable(
        fmt::format("{} on {}, {}", base_.model.name, rig_name(base_.rig), base_.runtime.name));
  }
  std::string counts() const {
    return fmt::format("{} {} priced, {} simulated", text_count(std::int64_t(plan_.candidates)),
                       plan_.candidates == 1 ? "way" : "ways", plan_.ranked.size());
  }

  void ranked(std::size_t i) {
    const RankedPlan& c = plan_.ranked[i];
    const Report& r = c.report;
    const std::string label = i == 0 ? "best" : i == 1 ? "then" : "";
    const auto what = wrap_words(candidate_text(base_, c.candidate), width_ - kIndent.size());
    std::string before = fmt::format("  {:<6} ", label);
    for (const std::string& part : what) {
      const std::string unmet = &part == &what.back() ? paint_.yellow(c.unmet) : "";
      line(spread(before + paint_.bold(part), unmet, width_));
      before = kIndent;
    }
    std::string speed = fmt::format("{}", rate_text(r.decode_tokens_per_s));
    if (r.tokens_per_s_interval)
      speed += rate_interval_text(r.tokens_per_s_interval->lo, r.tokens_per_s_interval->hi);
    paragraph(kIndent,
              fmt::format("{}, first token {}, {} {}; {}; {}", speed, time_text(c.first_token),
                          base_.workload.fills_context ? "mean turn" : "request", time_text(c.turn),
                          bound_text(r.decode_bound), load_text(r)));
    memory(r);
    if (r.memory.outside_ram.value > 0)
      paragraph(kIndent, fmt::format("RAM cannot hold {} of the weights: read from the disk",
                                     text_gib(r.memory.outside_ram)));
    paragraph(kIndent, cliff(r));
    if (const auto note = note_on_stand_ins(r.scenario->tensors); !note.empty())
      paragraph(kIndent, note);
    if (i > 0) paragraph(kIndent, against_best(c));
    gap();
  }

  void memory(const Report& r) {
    const std::vector<DeviceMemory> rows = memory_rows(base_.rig, r.memory);
    std::size_t width = kDeviceWidth;
    for (const DeviceMemory& d : rows)
      width = std::max(width, text_width(device_label(base_.rig, d)));
    for (const DeviceMemory& d : rows) {
      const bool has_nothing = d.weights.value + d.kv.value <= 0;
      if (d.tier == Tier::kRam && has_nothing) continue;
      const std::string label =
          std::string(kIndent) + pad_right(device_label(base_.rig, d), width) + " ";
      const bool is_part = base_.rig.unified() && d.tier == Tier::kVram;
      if (has_nothing) {
        line(label + "not used");
        continue;
      }
      paragraph(label, fmt::format("{} of {} GiB{}: weights {}, KV {}, buffers {}, others {}",
                                   gib(d.needed()), gib(d.capacity),
                                   is_part ? " of it that the GPU may use" : "",
                                   text_gib(d.weights), text_gib(d.kv),
                                   text_gib(d.activations + d.staging), text_gib(d.overhead)));
    }
  }

  // Where speed falls within the request, or how far the context can grow.
  std::string cliff(const Report& r) const {
    const TokenCount context = base_.workload.context;
    for (const Cliff& c : r.cliffs)
      if (c.axis == CliffAxis::kPosition)
        return fmt::format("{} {}: {}", place_text(c), change_text(c), c.cause);
    if (r.max_context >= base_.model.context)
      return fmt::format("room for all {} tokens that the model takes",
                         text_count(base_.model.context));
    if (r.max_context <= context)
      return fmt::format("room for {} tokens, no more than asked for", text_count(r.max_context));
    return fmt::format("room for {} tokens, {} more than asked for", text_count(r.max_context),
                       text_count(r.max_context - context));
  }

  std::string against_best(const RankedPlan& c) const {
    const RankedPlan& best = plan_.ranked.front();
    const double time = c.turn / best.turn;
    const double loss = c.candidate.loss.nats - best.candidate.loss.nats;
    const double percent = 100 * (time - 1);
    std::string out = std::abs(percent) < 0.5 ? "takes as long as the best"
                      : percent > 0 ? fmt::format("takes {:.0f} % longer than the best", percent)
                                    : fmt::format("takes {:.0f} % less time", -percent);
    if (std::abs(loss) >= 0.0005)
      out += fmt::format(", loses {:.3f} nats {}", std::abs(loss), loss > 0 ? "more" : "less");
    return out;
  }

  // The part of a long front with the knee in its middle.
  static std::span<const RankedPlan* const> around_knee(
      const std::vector<const RankedPlan*>& front) {
    const std::size_t shown = std::min(kMaxShownOnFront, front.size());
    const auto knee = std::ranges::find_if(front, &RankedPlan::is_knee) - front.begin();
    const auto first = std::max<std::ptrdiff_t>(0, knee - std::ptrdiff_t(shown / 2));
    return std::span(front).subspan(std::min(std::size_t(first), front.size() - shown), shown);
  }

  void front() {
    std::vector<const RankedPlan*> all;
    for (const RankedPlan& c : plan_.ranked)
      if (c.on_front) all.push_back(&c);
    std::ranges::stable_sort(all, {}, [](const RankedPlan* c) { return c->candidate.loss.nats; });
    if (all.size() < 2) return;
    line("  loss    tok/s    first token   context to   way");
    for (const RankedPlan* const ranked : around_knee(all)) {
      const RankedPlan& c = *ranked;
      paragraph(fmt::format("  {:<7} {:<8} {:<13} {:<12} ", loss_text(c.candidate.loss),
                            three_digits(c.report.decode_tokens_per_s), time_text(c.first_token),
                            text_count(c.report.max_context)),
                (c.is_knee ? "* " : "") + candidate_text(base_, c.candidate));
    }
    if (all.size() > kMaxShownOnFront)
      line(fmt::format("  {} more: --format json", all.size() - kMaxShownOnFront));
    paragraph("  ",
              "*: the knee; loss: nats from the unquantised model, as others measured it, most of "
              "them for other models and within a factor of 2");
    gap();
  }

  void crossover() {
    if (!plan_.crossover) return;
    const Crossover& c = *plan_.crossover;
    const std::string from = placement_text(base_, c.from), below = placement_text(base_, c.below);
    if (from == below) return;
    const bool empty = base_.workload.fills_context || base_.workload.depth == 0;
    line(fmt::format("  faster for prompts from {} tokens on{}: {}", text_count(c.prompt_tokens),
                     empty ? ", in an empty context" : "", from));
    line(fmt::format("  for shorter ones: {}", below));
    gap();
  }

  void command() {
    if (plan_.ranked.empty()) return;
    const Report& best = plan_.ranked.front().report;
    const Scenario& s = *best.scenario;
    if (s.runtime.id == "vllm" || s.runtime.id == "sglang")
      return line(fmt::format("  next   --emit {} prints the server's command", s.runtime.id));
    if (!is_llama_cpp(s.runtime, s.kv.policy))
      return line("  next   --emit rigcast writes the best as a scenario file");
    // Printed in full, so that it can be copied.
    if (const std::string& unmet = plan_.ranked.front().unmet; !unmet.empty())
      paragraph("  note   ",
                fmt::format("no plan meets the constraints ({}): this is the nearest", unmet));
    // What is assumed of the machine is the same for all plans: simulate lists it.
    for (const std::string& note : s.warnings)
      if (note.find(": assumed ") == std::string::npos) paragraph("  note   ", note);
    for (const std::string& note : notes_on_companions(s)) paragraph("  note   ", note);
    const bool is_whole = best.placement.gpu_layers > s.model.layers &&
                          s.placement.cpu_ffn_layers == 0 && s.placement.cpu_moe_layers == 0;
    if (const std::string note = wired_limit_note(s); !is_whole && !note.empty())
      paragraph("  note   ", note);
    if (s.placement.cpu_ffn_layers > 0) paragraph("  note   ", std::string(kFfnFlagNote));
    out_ += "  next   " + shell_text(llama_server_command(s, best.placement)) + "\n";
    if (const std::string note = prompt_cache_note(s, best.placement); !note.empty())
      paragraph(kIndent, note);
  }

  const Scenario& base_;
  const Plan& plan_;
};

}  // namespace

std::string placement_text(const Scenario& base, const PlacementSettings& p) {
  const Rig& rig = base.rig;
  if (rig.gpus.empty()) return "on the CPU";
  if (base.placement.split_mode != kSplitByLayer)
    return fmt::format("all on {} GPUs that share each layer", rig.gpus.front().shared->gpus);
  const int all = base.model.layers, layers = layers_without_head(base, *p.gpu_layers);
  if (*p.gpu_layers == 0) return "no layer on the GPU";
  std::string out = *p.gpu_layers > all ? "all on the GPU"
                    : layers == all     ? "all but the head on the GPU"
                                        : fmt::format("{} of {} layers on the GPU", layers, all);
  if (rig.gpus.size() > 1) {
    std::string split;
    for (const double share : p.tensor_split)
      split += fmt::format("{}{:g}", split.empty() ? "" : " + ", share);
    out += "s";
    if (!split.empty()) out += " (" + split + ")";
  }
  if (p.cpu_moe_layers > 0) out += fmt::format(", experts of {} in RAM", p.cpu_moe_layers);
  if (p.cpu_ffn_layers > 0) out += fmt::format(", FFNs of {} in RAM", p.cpu_ffn_layers);
  if (p.decode_device == DecodeDevice::kGpu && *p.gpu_layers <= all) out += ", the rest streamed";
  if (p.decode_device == DecodeDevice::kCpu) out += ", decode on the CPU";
  return out;
}

std::string candidate_text(const Scenario& base, const Candidate& o) {
  std::string out = o.quant;
  if (!is_fp16(o.kv_types)) out += ", KV " + text(o.kv_types);
  if (o.policy != KvPolicy::kVram && !base.rig.gpus.empty())
    out += fmt::format(", --kv {}", name(o.policy));
  out += ", " + placement_text(base, o.placement);
  if (o.ubatch != 512) out += fmt::format(", ubatch {}", o.ubatch);
  if (o.threads != base.settings.threads) out += fmt::format(", {} threads", o.threads);
  if (o.context != base.workload.context) out += ", context " + text_count(o.context);
  return out;
}

std::string short_candidate_text(const Scenario& base, const Candidate& o) {
  const Rig& rig = base.rig;
  const ModelSpec& model = base.model;
  std::string out = o.quant;
  if (!is_fp16(o.kv_types)) out += "/" + text(o.kv_types);
  if (rig.gpus.empty()) return out;
  if (o.policy != KvPolicy::kVram) out += fmt::format(", KV {}", name(o.policy));
  if (o.placement.cpu_moe_layers > 0)
    out += fmt::format(", {} moe in RAM", o.placement.cpu_moe_layers);
  else if (o.placement.cpu_ffn_layers > 0)
    out += fmt::format(", {} ffn in RAM", o.placement.cpu_ffn_layers);
  else if (*o.placement.gpu_layers > model.layers)
    out += ", all on GPU";
  if (o.placement.decode_device == DecodeDevice::kCpu) out += ", decode on CPU";
  if (*o.placement.gpu_layers <= model.layers)
    out +=
        fmt::format(", {} of {}", layers_without_head(base, *o.placement.gpu_layers), model.layers);
  return out;
}

std::string rejection_text(const Scenario& base, const Plan& plan, const RankedPlan& ranked) {
  if (!ranked.unmet.empty()) return ranked.unmet;
  if (ranked.on_front) return "";
  for (const RankedPlan& other : plan.ranked)
    if (&other != &ranked && is_as_good(other, ranked) && !is_as_good(ranked, other))
      return "no better in anything than " + candidate_text(base, other.candidate);
  return "";
}

std::string to_text(const Scenario& base, const Plan& plan, TextStyle style) {
  return Screen(base, plan, style).text();
}

}  // namespace rigcast::planner
