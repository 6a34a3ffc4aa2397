#include "report/report_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text/unit_text.hpp"
#include "report/pressure/hours_text.hpp"
#include "report/report_words.hpp"
#include "report/serving/serving_text.hpp"
#include "report/terminal/text_chart.hpp"
#include "report/text_screen.hpp"

namespace rigcast {
namespace {

constexpr std::size_t kLabelWidth = 15;
constexpr std::size_t kFigureWidth = 27;
constexpr std::size_t kBesideChart = 48;  // the margin of the y axis, and what a cliff says
constexpr std::size_t kMemoryLabel = 8;   // at least
constexpr std::size_t kMemoryCapacity = 10;
constexpr std::size_t kFewestCells = 4;
constexpr std::size_t kMaxCliffs = 3;
constexpr std::size_t kMaxHours = 12;
constexpr std::size_t kMaxAdvice = 3;
constexpr std::size_t kMaxAdviceOnMemory =
    8;  // where it is short, for what helps depends on the user
constexpr std::size_t kChangeWidth = 22;
constexpr std::size_t kFlagsWidth = 24;
constexpr std::size_t kMaxNotes = 5;
constexpr std::size_t kMaxTabled = 8;
constexpr double kTwoColumnsFrom = 1.25;  // the output's ends differ by more than this

class Screen : TextScreen {
 public:
  Screen(const Report& report, TextStyle style)
      : TextScreen(style), r_(report), s_(*report.scenario) {}

  std::string text() {
    headline();
    if (r_.fits && r_.serving) {
      serving();
      memory();
    } else if (r_.fits) {
      first_token();
      speed();
      positions();
      if (!r_.measured) chart();
      memory();
      cliffs();
      pressure();
    } else {
      errors();
      memory();
    }
    advice();
    inputs();
    notes();
    next();
    return out_;
  }

 private:
  void headline() {
    const std::string fit = r_.fits ? fit_text(r_) : paint_.yellow(shortage_text(r_.memory));
    line(spread(paint_.bold(title_text(r_)), fit, width_));
    gap();
  }

  void errors() {
    constexpr std::string_view kSaid = "does not fit: ";  // in the headline
    for (std::string_view error : r_.errors) {
      if (error.starts_with(kSaid)) error.remove_prefix(kSaid.size());
      paragraph("  why    ", error);
    }
    if (!r_.errors.empty()) gap();
  }

  // label | figure and interval | what it is of            what binds
  void row(std::string_view label, const std::string& figure, const std::string& interval,
           const std::string& of, const std::string& bound) {
    std::string figures = pad_right(figure + interval, kFigureWidth);
    if (!figures.ends_with(' ')) figures += "  ";
    const std::string left = pad_right("  " + std::string(label), kLabelWidth) + figures + of;
    line(spread(left, paint_.dim(bound), width_));
  }

  void serving() {
    paragraph("  load           ", r_.serving->load);
    gap();
    const bool has_slo = s_.load.has_value();
    const Slo slo = has_slo ? s_.load->slo : Slo{};
    for (const ServingLine& l : serving_lines(*r_.serving, slo, s_.placement.groups.data))
      serving_line(l);
    const std::string shortened = shortened_text(r_.serving->figures);
    if (!shortened.empty()) paragraph("  note           ", shortened);
  }

  // Words wrap; figures in columns keep to them.
  void serving_line(const ServingLine& l) {
    const std::string label = pad_right("  " + l.label, kLabelWidth);
    if (l.beside.empty() && kLabelWidth + text_width(l.figures) > width_)
      return paragraph(label, l.figures);
    line(spread(label + l.figures, paint_.dim(l.beside), width_));
  }

  void first_token() {
    std::string label = "first token";
    const auto start_row = [&](Start start, const std::optional<TtftBreakdown>& ttft,
                               const std::string& of, const std::string& bound) {
      if (!ttft) return;
      const bool asked = start == s_.workload.start;
      const std::string figure = time_text(ttft->total());
      std::string interval;
      if (asked && r_.ttft_interval)
        interval = time_interval_text(ttft->total(), r_.ttft_interval->lo, r_.ttft_interval->hi);
      row(label, asked ? paint_.bold(figure) : figure, interval, of, bound);
      label.clear();
    };
    const auto bound = [](const std::optional<Bottleneck>& b) { return b ? bound_text(*b) : ""; };
    start_row(Start::kResident, r_.resident, prompt_text(s_.workload) + ", resident",
              bound_text(r_.prefill_bound));
    start_row(Start::kWarm, r_.warm, "warm, file in page cache", bound(r_.warm_bound));
    start_row(Start::kCold, r_.cold, "cold, file on SSD", bound(r_.cold_bound));
    breakdown();
  }

  // Loading differs by start, the rest does not.
  void breakdown() {
    const auto& ttft = r_.ttft();
    if (!ttft) return;
    for (const std::string& text : {load_text(r_), breakdown_text(*ttft)})
      if (!text.empty()) line(paint_.dim(fmt::format("{:{}}{}", "", kLabelWidth, text)));
  }

  void speed() {
    const auto interval = [](const std::optional<Interval>& i) {
      return i ? rate_interval_text(i->lo, i->hi) : "";
    };
    const bool told = r_.resident.has_value();  // by the row of the first token
    if (r_.prefill_tokens_per_s > 0)
      row("prefill", rate_text(r_.prefill_tokens_per_s), interval(r_.prefill_interval),
          told ? "" : prompt_text(s_.workload), told ? "" : bound_text(r_.prefill_bound));
    if (!(r_.decode_tokens_per_s > 0)) return;
    row("speed", paint_.bold(rate_text(r_.decode_tokens_per_s)), interval(r_.tokens_per_s_interval),
        tokens_told() == 1 ? "of the second token"
                           : fmt::format("mean of {} tokens", text_count(tokens_told())),
        bound_text(r_.decode_bound));
    ends();
    if (!r_.measured) return;
    paragraph("  read           ", read_text(*r_.measured));
    const std::string shared = shared_text(r_);
    if (shared.empty()) return;
    paragraph("  moved          ", "by a request: " + moved_text(r_));
    paragraph("  shared         ", shared);
  }

  // Speed at the two ends of the output, where they differ enough to matter.
  void ends() {
    if (r_.by_position.size() < 2) return;
    const auto near = [&](TokenCount tokens) {
      return *std::ranges::min_element(
          r_.by_position, {}, [&](const PositionSpeed& p) { return std::abs(p.tokens - tokens); });
    };
    const PositionSpeed first = near(s_.workload.depth + s_.workload.prompt_tokens);
    const PositionSpeed last = near(s_.workload.last_position());
    if (first.tokens_per_s < kTwoColumnsFrom * last.tokens_per_s) return;
    row("", rate_text(first.tokens_per_s), "",
        fmt::format("at {} tokens", text_count(first.tokens)), bound_by(first));
    row("", rate_text(last.tokens_per_s), "", fmt::format("at {} tokens", text_count(last.tokens)),
        bound_by(last));
  }

  static std::string bound_by(const PositionSpeed& p) {
    return fmt::format("bound by {}", name(p.bound_by));
  }

  void positions() {
    if (r_.by_position.empty() || r_.by_position.size() > kMaxTabled) return;
    std::string tokens = pad_right("  at token", kLabelWidth);
    std::string speeds = pad_right("  tok/s", kLabelWidth);
    std::string bounds = pad_right("  bound by", kLabelWidth);
    std::string spreads = pad_right("  of the runs", kLabelWidth);
    const std::size_t cell = std::min<std::size_t>(12, (width_ - kLabelWidth) / kMaxTabled);
    for (const PositionSpeed& p : r_.by_position) {
      tokens += pad_left(text_count(p.tokens), cell);
      speeds += pad_left(three_digits(p.tokens_per_s), cell);
      bounds += pad_left(std::string(short_name(p.bound_by)), cell);
      if (!p.spread) continue;
      const double half = (p.spread->hi - p.spread->lo) / 2 / p.tokens_per_s;
      spreads += pad_left(fmt::format("±{:.1f} %", 100 * half), cell);
    }
    gap();
    line(tokens);
    line(speeds);
    line(paint_.dim(r_.measured ? spreads : bounds));
  }

  // Positions are sampled, cliffs are exact: each adds a step to the curve, or a corner where a
  // decline begins.
  std::vector<ChartPoint> curve() const {
    std::vector<ChartPoint> points;
    for (const PositionSpeed& p : r_.by_position)
      if (std::isfinite(p.tokens_per_s)) points.push_back({double(p.tokens), p.tokens_per_s});
    if (points.size() < 2) return {};
    std::ranges::stable_sort(points, {}, &ChartPoint::x);
    for (const Cliff& c : r_.cliffs) {
      const double at = double(c.at_tokens);
      const auto next = std::ranges::upper_bound(points, at, {}, &ChartPoint::x);
      if (c.axis != CliffAxis::kPosition || next == points.end()) continue;
      const auto corner = points.insert(next, {at, c.before_tokens_per_s});
      if (!c.until_tokens) points.insert(corner + 1, {at, c.after_tokens_per_s});
    }
    return points;
  }

  void chart() {
    const std::vector<ChartPoint> points = curve();
    if (points.empty()) return;
    ChartFrame frame;
    frame.columns = width_ - kBesideChart;
    std::vector<std::string> lines = draw_chart(points, frame);
    std::size_t row = 0;
    for (const Cliff& c : r_.cliffs) {
      if (c.axis != CliffAxis::kPosition || row + 1 >= lines.size()) continue;
      const std::string_view what = c.until_tokens ? "falls from" : "cliff at";
      lines[row++] += paint_.yellow(fmt::format("  {} {} tokens", what, text_count(c.at_tokens)));
      lines[row++] += paint_.yellow("  " + change_text(c));
    }
    gap();
    for (const std::string& l : lines) line(l);
  }

  void memory() {
    const auto in_use = [](const DeviceMemory& d) {
      return (d.total() - d.overhead).value > 0 || d.free().value < 0;
    };
    const std::vector<DeviceMemory> devices = memory_rows(s_.rig, r_.memory);
    if (std::ranges::none_of(devices, in_use)) return;
    if (r_.fits) gap();
    const std::string_view legend = "  █ weights   ▓ KV ▒ buffers ░ reserved · page cache   free";
    std::size_t label = kMemoryLabel;
    for (const DeviceMemory& d : devices)
      if (in_use(d)) label = std::max(label, text_width(memory_label(d)));
    const std::size_t figures = label + kMemoryCapacity + text_width(legend);
    const std::size_t cells = std::max(width_, figures + kFewestCells) - figures;
    line(pad_right("  memory in GiB", label + kMemoryCapacity + cells) + std::string(legend));
    for (const DeviceMemory& d : devices)
      if (in_use(d)) memory_row(d, label, cells);
    if (s_.rig.unified()) line(paint_.dim(fmt::format("  {}", kUnifiedNote)));
  }

  // Two decimals at most: the header has the unit for all, so that figures compare at a glance.
  static std::string gib(Bytes b, std::size_t width) {
    const double value = b.value / 0x1p30;
    const bool large = !(std::fabs(value) < 9.995);
    const std::string text = large ? three_digits(value) : fmt::format("{:.2f}", value);
    return pad_left(b.value == 0 ? "-" : text, width);
  }

  std::string memory_label(const DeviceMemory& d) const { return "  " + device_label(s_.rig, d); }

  void memory_row(const DeviceMemory& d, std::size_t label, std::size_t cells) {
    const Bytes buffers = d.activations + d.staging;
    const BarSegment segments[] = {{d.weights.value, "█"},
                                   {d.kv.value, "▓"},
                                   {buffers.value, "▒"},
                                   {d.overhead.value, "░"},
                                   {d.page_cache.value, "·"}};
    const bool over = d.free().value < 0;
    const std::string free = gib(d.free(), 7);
    line(pad_right(memory_label(d), label) + gib(d.capacity, 8) + "  " +
         draw_bar(segments, d.capacity.value, cells) + gib(d.weights, 11) + gib(d.kv, 7) +
         gib(buffers, 10) + gib(d.overhead, 11) + gib(d.page_cache, 13) +
         (over ? paint_.yellow(free) : free));
  }

  void cliffs() {
    if (r_.cliffs.empty()) return;
    gap();
    std::size_t shown = 0;
    for (const Cliff& c : r_.cliffs) {
      if (shown++ == kMaxCliffs) {
        line(fmt::format("         {} more: --format json", r_.cliffs.size() - kMaxCliffs));
        return;
      }
      std::string text = fmt::format("{}: {}; {}", place_text(c), change_text(c), c.cause);
      if (s_.rig.gpus.size() > 1 && !c.device.empty()) text += fmt::format(" ({})", c.device);
      std::string label = c.until_tokens ? "  falls  " : "  cliff  ";
      for (const std::string& part : wrap_words(printable(text), width_ - label.size())) {
        line(paint_.yellow(label + part));
        label.assign(label.size(), ' ');
      }
    }
  }

  // What a token brings back, and the hours of a timeline.
  void pressure() {
    if (const std::string text = paging_text(r_); !text.empty()) {
      gap();
      paragraph("  paging ", text);
    }
    if (!r_.hours) return;
    gap();
    if (const std::string text = pressure_text(*r_.hours); !text.empty())
      paragraph("  hours  ", text);
    for (const std::string& l : hours_lines(*r_.hours, width_, kMaxHours)) line(l);
  }

  // True if the request does not fit but a shorter context does.
  bool shorter_context_fits() const {
    return !r_.fits && r_.max_context > 0 && r_.max_context < s_.workload.context;
  }

  void advice() {
    if (r_.advice.empty() && !shorter_context_fits()) return;
    gap();
    std::string label = r_.fits ? "  try   " : "  fits  ";
    if (shorter_context_fits()) {
      line(fmt::format("{}this placement, up to a context of {} tokens in place of {}", label,
                       text_count(r_.max_context), text_count(s_.workload.context)));
      label = "        ";
    }
    const bool is_short = (r_.paging && r_.paging->reclaim != "fits") ||
                          (r_.hours && r_.hours->first_page) || (!r_.fits && s_.memory);
    const std::size_t shown = is_short ? kMaxAdviceOnMemory : kMaxAdvice;
    for (std::size_t i = 0; i < std::min(r_.advice.size(), shown); ++i) {
      const Advice& a = r_.advice[i];
      const std::string change = pad_right(printable(a.change), kChangeWidth);
      advice_row(label + change + "  " + effect_text(a, r_),
                 a.flags.empty() ? "" : "-> " + printable(a.flags));
      label = "        ";
    }
  }

  // Flags begin in one column where they fit.
  void advice_row(const std::string& left, const std::string& flags) {
    const bool fits = text_width(flags) <= kFlagsWidth;
    const bool aligned = fits && text_width(left) + 2 + kFlagsWidth <= width_;
    line(aligned ? pad_right(left, width_ - kFlagsWidth) + paint_.bold(flags)
                 : spread(left, paint_.bold(flags), width_));
  }

  void inputs() {
    if (!r_.fits) return;
    const std::string out = inputs_text(r_);
    if (out.empty()) return;
    gap();
    paragraph("  inputs ", out);
  }

  void notes() {
    if (!r_.warnings.empty() && !r_.fits) gap();
    for (std::size_t i = 0; i < std::min(r_.warnings.size(), kMaxNotes); ++i)
      paragraph("  note   ", r_.warnings[i]);
    if (r_.warnings.size() > kMaxNotes)
      line(fmt::format("         {} more: --format json", r_.warnings.size() - kMaxNotes));
  }

  // An interrupted run has fewer than it was asked for.
  TokenCount tokens_told() const {
    const bool counted = r_.measured && !r_.measured->token_s.empty();
    return counted ? TokenCount(r_.measured->token_s.size()) + 1 : s_.workload.output_tokens;
  }

  void next() {
    gap();
    if (!r_.fits) {
      line(fmt::format("  next   {} shows what there is to choose from",
                       paint_.bold("rigcast list gpus|ram|models|quants")));
      return;
    }
    if (r_.measured) {
      const std::string machine =
          s_.rig.gpus.empty() ? "--rig this" : "--gpu " + printable(s_.rig.gpus.front().id);
      line(fmt::format("  next   {} with the same model for the forecast",
                       paint_.bold(fmt::format("rigcast simulate {} --runtime rigcast", machine))));
      return;
    }
    if (r_.serving) {
      line(fmt::format("  next   {} for how many there may be, {} for scripts",
                       paint_.bold("rigcast capacity"), paint_.bold("--format json")));
      return;
    }
    line(fmt::format("  next   {} for the timeline, {} for scripts",
                     paint_.bold("--trace run.json"), paint_.bold("--format json")));
  }

  const Report& r_;
  const Scenario& s_;
};

}  // namespace

std::string to_text(const Report& report, TextStyle style) {
  RIGCAST_ASSERT(report.scenario != nullptr);
  return Screen(report, style).text();
}

}  // namespace rigcast
