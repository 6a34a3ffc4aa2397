#pragma once
// The load of a server: how requests arrive, how long they are, what they share, and the latencies
// that are wanted. The `[load]` table of a scenario, on top of a preset in loads/.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/sourced.hpp"
#include "core/base/units.hpp"
#include "core/catalogue/catalogue.hpp"
#include "core/scenario/length_distribution.hpp"
#include "core/scenario/slo.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {

enum class ArrivalProcess {
  // Open: requests arrive whatever becomes of those before them.
  kPoisson,
  kGamma,             // gaps of a gamma distribution, with a coefficient of variation
  kWeibull,           // the same, of a Weibull distribution
  kOnOff,             // Poisson in periods of exponential length, nothing between them
  kConstant,          // gaps of equal length
  kDoublyStochastic,  // Poisson, its rate drawn anew every period from a gamma distribution
  kBurst,             // all at once
  kTrace,             // as recorded
  // Every user waits for the answer, thinks, and asks again.
  kClosed,
};
std::string_view name(ArrivalProcess process);

struct Load {
  // Compiled once: inline, they were half of the code of sources that hold one.
  Load();
  Load(const Load&);
  Load(Load&&) noexcept;
  Load& operator=(const Load&);
  Load& operator=(Load&&) noexcept;
  ~Load();

  std::string preset;  // its name; empty: none
  ArrivalProcess arrival = ArrivalProcess::kClosed;
  // Open processes. Their sessions begin at `rate` / `turns`.
  double rate = 0;          // requests/s in the mean, later turns of sessions included
  double cv = 1;            // gamma, Weibull: standard deviation of gaps / their mean
  Seconds on{10}, off{50};  // on-off: means of the periods
  double rate_cv = 0.5;     // doubly stochastic: of the rate
  Seconds rate_period{60};  // doubly stochastic
  std::filesystem::path trace;
  double rate_scale = 1;  // of a trace: 2 is the same requests in half of the time
  // Users, of a closed load.
  int users = 1;
  /// From the end of an answer to the next request of its user or session: a mean.
  Sourced<Seconds> think_time;
  bool think_is_constant = false;  // else exponential
  // What is simulated of it: what comes first.
  std::int64_t requests = 1000;     // 99 % quantiles need as many
  std::optional<Seconds> duration;  // requests that arrive later are none of it
  // Lengths in tokens.
  Sourced<LengthDistribution> prompt_tokens;  // of the first request, after the shared prefix
  Sourced<LengthDistribution> output_tokens;
  /// Both lengths of a request are drawn together, which the two above then have each for itself.
  std::optional<JointLengths> lengths;
  Sourced<double> turns{1};  // requests of a session: the mean of a geometric distribution
  /// What a later turn adds to the prompts and answers before it; nullopt: as `prompt_tokens`.
  std::optional<Sourced<LengthDistribution>> turn_tokens;
  /// All prompts of a group begin with the same tokens, of a system prompt.
  Sourced<double> shared_prefix_tokens{0};
  int prefix_groups = 1;
  double prefix_skew = 1;  // the k-th group's share is as 1 / k^skew (Zipf)
  Slo slo;
  std::uint64_t seed = 1;

  bool is_open() const { return arrival != ArrivalProcess::kClosed; }
  const LengthDistribution& later_turns() const {
    return turn_tokens ? turn_tokens->value : prompt_tokens.value;
  }
};

inline constexpr std::int64_t kMaxRequests = 10'000'000;  // of a load

/// Tokens of a prompt and of an answer, the mean over all requests, without a context's limit. Not
/// of traces, which have their own.
double mean_prompt(const Load& load);
double mean_output(const Load& load);

/// "chat: 1,200 in, 220 out, think 30 s, 3 turns".
std::string text(const Load& load);

/// What a preset in loads/ states, by its name. Errors: there is none; those of the file.
Result<Load> preset_load(const std::string& name, const Catalogue& catalogue);

/// The load of a scenario's document: its `[load]` table, or `users` of `[workload]` above 1, which
/// wins over `load.users`. Lengths that neither states are those of the workload. nullopt: there is
/// one request. Refuses what contradicts itself or would never end.
std::optional<Load> read_load(const TomlTable& root, TokenCount prompt_tokens,
                              TokenCount output_tokens, const Catalogue& catalogue);

/// Why something that takes one request does not take this load; nullopt: there is none.
std::optional<Error> check_no_load(const std::optional<Load>& load);

}  // namespace rigcast
