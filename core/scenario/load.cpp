#include "core/scenario/load.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/files/input_file.hpp"
#include "core/text/nearest_name.hpp"
#include "core/text/unit_text.hpp"

namespace rigcast {
namespace {

constexpr int kMaxUsers = 1'000'000;
constexpr double kMinRate = 1e-6, kMaxRate = 1e6;  // requests/s
constexpr double kMaxTurns = 10'000;
constexpr std::int64_t kMaxGroups = 100'000;
constexpr Seconds kMinTime = 1_us, kMaxTime{1e9};
// Periods are drawn one by one: this many of them for a request would be all the work.
constexpr double kMinRequestsInPeriod = 1e-3;

struct ProcessName {
  ArrivalProcess process;
  std::string_view name;
};
constexpr ProcessName kProcesses[] = {{ArrivalProcess::kPoisson, "poisson"},
                                      {ArrivalProcess::kGamma, "gamma"},
                                      {ArrivalProcess::kWeibull, "weibull"},
                                      {ArrivalProcess::kOnOff, "on-off"},
                                      {ArrivalProcess::kConstant, "constant"},
                                      {ArrivalProcess::kDoublyStochastic, "doubly-stochastic"},
                                      {ArrivalProcess::kBurst, "burst"},
                                      {ArrivalProcess::kTrace, "trace"},
                                      {ArrivalProcess::kClosed, "closed"}};

// Keys that some processes alone read.
constexpr struct {
  const char* key;
  ArrivalProcess process;
  std::optional<ArrivalProcess> other = std::nullopt;
} kKeysOfSome[] = {{"cv", ArrivalProcess::kGamma, ArrivalProcess::kWeibull},
                   {"on", ArrivalProcess::kOnOff},
                   {"off", ArrivalProcess::kOnOff},
                   {"rate_cv", ArrivalProcess::kDoublyStochastic},
                   {"rate_period", ArrivalProcess::kDoublyStochastic},
                   {"trace", ArrivalProcess::kTrace},
                   {"rate_scale", ArrivalProcess::kTrace},
                   {"users", ArrivalProcess::kClosed}};

// What a trace says itself.
constexpr const char* kKeysOfNoTrace[] = {
    "rate",  "prompt_tokens", "output_tokens",        "turns",       "turn_tokens", "think_time",
    "think", "prefix_groups", "shared_prefix_tokens", "prefix_skew", "lengths",     "seed"};

bool has_rate(ArrivalProcess process) {
  return process != ArrivalProcess::kClosed && process != ArrivalProcess::kBurst &&
         process != ArrivalProcess::kTrace;
}

// A trace of the catalogue by its name, or a file.
std::filesystem::path find_trace(const TomlTable& t, const Catalogue& catalogue) {
  const std::string given = t.text("trace");
  std::error_code ignored;
  for (const auto& root : {catalogue.own_root(), catalogue.root()}) {
    const auto file = root / "loads" / "traces" / (as_id(given) + ".csv");
    if (!root.empty() && std::filesystem::is_regular_file(file, ignored)) return file;
  }
  if (!catalogue.takes_files())
    t.refuse("trace", fmt::format("no trace named \"{}\"", given), "files are not read here");
  else if (const auto error = check_regular_file(given))
    t.refuse("trace", *error);
  return given;
}

// The process that the keys of a table ask for without naming it, else `before`.
ArrivalProcess implied_process(const TomlTable& t, ArrivalProcess before) {
  if (t.has("trace")) return ArrivalProcess::kTrace;
  if (t.has("users")) return ArrivalProcess::kClosed;
  if (!t.has("rate") || has_rate(before) || before == ArrivalProcess::kTrace) return before;
  return ArrivalProcess::kPoisson;
}

void read_arrivals(const TomlTable& t, const Catalogue& catalogue, Load& load) {
  load.arrival = t.choice("arrival", implied_process(t, load.arrival),
                          {{"poisson", ArrivalProcess::kPoisson},
                           {"gamma", ArrivalProcess::kGamma},
                           {"weibull", ArrivalProcess::kWeibull},
                           {"on-off", ArrivalProcess::kOnOff},
                           {"constant", ArrivalProcess::kConstant},
                           {"doubly-stochastic", ArrivalProcess::kDoublyStochastic},
                           {"burst", ArrivalProcess::kBurst},
                           {"trace", ArrivalProcess::kTrace},
                           {"closed", ArrivalProcess::kClosed}});
  const auto seconds = [&](const char* key, Seconds fallback) {
    const auto found = t.find_figure<Seconds>(key, kMinTime, kMaxTime);
    return found ? found->value : fallback;
  };
  load.rate = t.number_or("rate", load.rate, kMinRate, kMaxRate);
  load.cv = t.number_or("cv", load.cv, 0.01, 100);
  load.on = seconds("on", load.on);
  load.off = seconds("off", load.off);
  load.rate_cv = t.number_or("rate_cv", load.rate_cv, 0.01, 100);
  load.rate_period = seconds("rate_period", load.rate_period);
  load.rate_scale = t.number_or("rate_scale", load.rate_scale, 1e-6, 1e6);
  if (t.has("trace")) load.trace = find_trace(t, catalogue);
  load.users = int(t.integer_or("users", load.users, 1, kMaxUsers));
  if (const auto time = t.find_figure<Seconds>("think_time", 0_s, kMaxTime))
    load.think_time = *time;
  load.think_is_constant =
      t.choice("think", load.think_is_constant, {{"exponential", false}, {"constant", true}});
}

void read_extent(const TomlTable& t, Load& load) {
  if (const auto time = t.find_figure<Seconds>("duration", kMinTime, kMaxTime)) {
    load.duration = time->value;
    load.requests = kMaxRequests;
  }
  load.requests = t.integer_or("requests", load.requests, 1, kMaxRequests);
}

// Lengths that are stated win over those of a preset, whichever way it states them.
void read_request_lengths(const TomlTable& t, const FigureDefaults& from, Load& load) {
  if (t.has("lengths")) {
    load.lengths = read_joint_lengths(t, "lengths");
    load.prompt_tokens = {load.lengths->prompts(), from.kind, from.source};
    load.output_tokens = {load.lengths->outputs(), from.kind, from.source};
  }
  for (const auto& [key, lengths] :
       {std::pair{"prompt_tokens", &load.prompt_tokens}, {"output_tokens", &load.output_tokens}}) {
    if (!t.has(key)) continue;
    if (t.has("lengths"))
      t.refuse("lengths", fmt::format("states the lengths of prompts and answers, as {} does", key),
               "leave out one of them");
    *lengths = read_lengths(t, key, from);
    load.lengths.reset();
  }
}

void read_sessions(const TomlTable& t, const FigureDefaults& from, Load& load) {
  read_request_lengths(t, from, load);
  if (t.has("turn_tokens")) load.turn_tokens = read_lengths(t, "turn_tokens", from);
  if (const auto turns = t.find_number_figure("turns", 1, kMaxTurns)) load.turns = *turns;
  if (const auto tokens = t.find_number_figure("shared_prefix_tokens", 0, double(kMaxLength))) {
    load.shared_prefix_tokens = *tokens;
    if (tokens->value != std::floor(tokens->value))
      t.refuse("shared_prefix_tokens", "expected a whole number of tokens");
  }
  load.prefix_groups = int(t.integer_or("prefix_groups", load.prefix_groups, 1, kMaxGroups));
  load.prefix_skew = t.number_or("prefix_skew", load.prefix_skew, 0, 10);
}

// What a table states, over what `load` had before.
void read_keys(const TomlTable& t, const FigureDefaults& from, const Catalogue& catalogue,
               Load& load) {
  t.set_figure_defaults(from);
  read_arrivals(t, catalogue, load);
  read_extent(t, load);
  read_sessions(t, from, load);
  if (t.has("slo")) load.slo = read_slo(t, "slo", catalogue);
  load.seed = std::uint64_t(t.integer_or("seed", std::int64_t(load.seed), 0, INT64_MAX));
}

// Keys that the table's own process would not read.
void check_keys_of_process(const TomlTable& t, ArrivalProcess arrival) {
  for (const auto& [key, process, other] : kKeysOfSome)
    if (t.has(key) && arrival != process && arrival != other)
      t.refuse(key, fmt::format("arrivals that are {} have no {}", name(arrival), key),
               fmt::format("arrival = \"{}\" has", name(process)));
}

Result<std::filesystem::path> find_preset(const std::string& name, const Catalogue& catalogue) {
  const auto known = catalogue.ids("loads");
  if (std::ranges::find(known, as_id(name)) != known.end())
    return catalogue.file_of("loads", as_id(name));
  if (catalogue.takes_files() && name.ends_with(".toml")) return std::filesystem::path(name);
  std::string hint = did_you_mean(name, known);
  if (hint.empty()) hint = fmt::format("known are {}", fmt::join(known, ", "));
  return bad_input(fmt::format("no load named \"{}\"", name),
                   hint + "; a trace is a .csv or .jsonl file, keys of your own a .toml file");
}

std::optional<Error> read_preset(const std::string& name, const Catalogue& catalogue, Load& load) {
  const auto file = find_preset(name, catalogue);
  if (!file) return file.error();
  const auto document = TomlDocument::read(*file);
  if (!document) return document.error();
  const TomlTable t = document->root();
  if (t.has("load")) {
    t.refuse("load", "a file of a load has its keys without a table",
             "leave out the line [load], or give the file as a scenario");
    return document->error();
  }
  FigureDefaults from{SourceKind::kAssumed, t.text_or("source", "stated by the load's file")};
  load.preset = t.text_or("name", file->stem().string());
  t.find_text("description");
  if (const auto kind = t.find_text("kind"))
    from.kind = source_kind_from(*kind).value_or(SourceKind::kAssumed);
  read_keys(t, from, catalogue, load);
  check_keys_of_process(t, load.arrival);
  t.finish();
  return document->error();
}

void check_process(const TomlTable& t, const Load& load) {
  check_keys_of_process(t, load.arrival);
  if (t.has("rate") && load.arrival == ArrivalProcess::kClosed)
    t.refuse("rate", "users who wait for their answers have no rate of their own",
             "state either a rate or users");
  if (t.has("rate") && load.arrival == ArrivalProcess::kBurst)
    t.refuse("rate", "a burst arrives at once", "requests says how many there are");
  if (load.arrival == ArrivalProcess::kTrace)
    for (const char* key : kKeysOfNoTrace)
      if (t.has(key))
        t.refuse(key, "a trace has its own times and lengths",
                 "rate_scale makes it faster or slower");
  if (load.arrival == ArrivalProcess::kTrace && load.trace.empty())
    t.refuse("arrival", "no trace is named", "trace = \"arrivals.csv\"");
  if (has_rate(load.arrival) && load.rate <= 0)
    t.refuse("arrival", fmt::format("arrivals that are {} need a rate", name(load.arrival)),
             "rate = 2.0 (--rate 2), requests per second");
}

// A session's periods are walked through one by one.
void check_periods(const TomlTable& t, const Load& load) {
  const double rate = load.rate / load.turns.value;  // of sessions
  const char* key = load.arrival == ArrivalProcess::kOnOff              ? "on"
                    : load.arrival == ArrivalProcess::kDoublyStochastic ? "rate_period"
                                                                        : nullptr;
  if (!key) return;
  const Seconds period =
      load.arrival == ArrivalProcess::kOnOff ? load.on + load.off : load.rate_period;
  if (rate * period.value < kMinRequestsInPeriod)
    t.refuse(key, fmt::format("{} is too short a period for {} requests/s", text(period), rate),
             "let a thousandth of a request fall into one, at least");
}

// Two significant digits, for people.
std::string rounded(double tokens) {
  if (tokens < 10) return fmt::format("{:.0f}", tokens);
  const double unit = std::pow(10, std::floor(std::log10(tokens)) - 1);
  return text_count(std::int64_t(std::llround(std::round(tokens / unit) * unit)));
}

}  // namespace

Load::Load() = default;
Load::Load(const Load&) = default;
Load::Load(Load&&) noexcept = default;
Load& Load::operator=(const Load&) = default;
Load& Load::operator=(Load&&) noexcept = default;
Load::~Load() = default;

std::string_view name(ArrivalProcess process) {
  for (const ProcessName& known : kProcesses)
    if (known.process == process) return known.name;
  return "";
}

Result<Load> preset_load(const std::string& name, const Catalogue& catalogue) {
  Load load;
  if (auto error = read_preset(name, catalogue, load)) return *std::move(error);
  return load;
}

double mean_output(const Load& load) { return mean_tokens(load.output_tokens.value); }

double mean_prompt(const Load& load) {
  // Turns of geometric sessions follow `turns` - 1 others in the mean.
  const double later = mean_output(load) + mean_tokens(load.later_turns());
  return load.shared_prefix_tokens.value + mean_tokens(load.prompt_tokens.value) +
         (load.turns.value - 1) * later;
}

std::string text(const Load& load) {
  if (load.arrival == ArrivalProcess::kTrace)
    return fmt::format("trace {}", load.trace.stem().string());
  std::string out =
      fmt::format("{}: {} in, {} out", load.preset.empty() ? name(load.arrival) : load.preset,
                  rounded(mean_prompt(load)), rounded(mean_output(load)));
  const double think = load.think_time.value.value;
  if (think > 0 && (!load.is_open() || load.turns.value > 1))
    out += fmt::format(", think {:g} s", think);
  if (load.turns.value > 1) out += fmt::format(", {:g} turns", load.turns.value);
  return out;
}

std::optional<Error> check_no_load(const std::optional<Load>& load) {
  if (!load) return std::nullopt;
  return bad_input("a load is not forecast here, one request is",
                   "`rigcast simulate` and `rigcast capacity` take one; else leave out --users, "
                   "--load, --rate, --slo, --turns and the table [load]");
}

std::optional<Load> read_load(const TomlTable& root, TokenCount prompt_tokens,
                              TokenCount output_tokens, const Catalogue& catalogue) {
  const TomlTable workload = root.table("workload");
  const auto users = int(workload.integer_or("users", 1, 1, kMaxUsers));
  if (!root.has("load") && users == 1) return std::nullopt;
  const TomlTable t = root.table("load");
  Load load;
  const FigureDefaults stated{SourceKind::kAssumed, "stated by the scenario"};
  const auto fixed = [&](TokenCount tokens) {
    return Sourced<LengthDistribution>{FixedLength{tokens}, stated.kind, stated.source};
  };
  load.prompt_tokens = fixed(prompt_tokens);
  load.output_tokens = fixed(output_tokens);
  if (const auto preset = t.find_text("preset"))
    if (const auto error = read_preset(*preset, catalogue, load)) t.refuse("preset", *error);
  // What a person says of the request is meant for all requests.
  if (workload.has("prompt_tokens")) load.prompt_tokens = fixed(prompt_tokens);
  if (workload.has("output_tokens")) load.output_tokens = fixed(output_tokens);
  if (workload.has("prompt_tokens") || workload.has("output_tokens")) load.lengths.reset();
  if (workload.has("depth"))
    workload.refuse("depth", "a server with a load begins with an empty cache",
                    "let conversations fill it: --turns 5");
  if (workload.text_or("start", "") == "cold")
    workload.refuse("start", "a load is served by a model that is loaded", "leave it out");
  read_keys(t, stated, catalogue, load);
  if (load.arrival == ArrivalProcess::kTrace && !t.has("requests")) load.requests = kMaxRequests;
  check_process(t, load);
  check_periods(t, load);
  if (users > 1) {
    if (load.is_open())
      workload.refuse("users",
                      fmt::format("arrivals that are {} have no users", name(load.arrival)),
                      "state either users, or a rate or a trace");
    load.users = users;
  }
  t.finish();
  return load;
}

}  // namespace rigcast
