#pragma once
// Forecasts from within another program: how a large language model runs on a machine, without
// running it. This header is all that a program includes; C++17.
//
//   #include <rigcast.hpp>
//   const auto answer = rigcast::forecast(R"({"rig": {"gpu": ["rtx-3060-12gb"]},
//                                             "model": {"name": "llama-3.1-8b"}})");
//   if (answer.error) std::cerr << answer.error->text() << '\n';
//   else std::cout << answer.json;
//
// Strings are UTF-8, and everything is returned by value: nothing refers to what was passed in, or
// to the library. Units in JSON are seconds, bytes and tokens, unless a key's name states another.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#define RIGCAST_VERSION_MAJOR 0
#define RIGCAST_VERSION_MINOR 1
#define RIGCAST_VERSION_PATCH 0
#define RIGCAST_VERSION_TEXT "0.1.0"
/// To compare: #if RIGCAST_VERSION_NUMBER >= 1002  // 0.1.2 or later
#define RIGCAST_VERSION_NUMBER \
  (RIGCAST_VERSION_MAJOR * 1000000 + RIGCAST_VERSION_MINOR * 1000 + RIGCAST_VERSION_PATCH)

#define RIGCAST_API __attribute__((visibility("default")))

namespace rigcast {

/// Options of `rigcast simulate` that are no key of a scenario.
struct ForecastOptions {
  /// Tokens in the cache at which speed is reported; empty: an even grid over the context.
  std::vector<std::int64_t> positions{};
  bool advice = false;      // simulate alternatives, too, which takes some ten times as long
  bool by_context = false;  // speed at both ends of contexts up to the model's
  bool exact = false;       // simulate every token, no sampling
  /// Files that the scenario names (rigs, models, traces) are read, relative to the working
  /// directory. False, for scenarios that come from others: names are those of the catalogue alone.
  bool reads_files = true;
  /// Asked five times a second, by the thread that waits; true ends the forecast.
  std::function<bool()> should_stop{};
};

struct ForecastError {
  enum class Kind {
    kBadInput,    // what was asked for makes no sense
    kDoesNotFit,  // a part of it needs more than there is
    kMachine,     // a file, a process or a library failed, or should_stop() ended it
  };
  Kind kind = Kind::kBadInput;
  std::string message{};
  std::string hint{};   // what to do; may be empty
  std::string where{};  // "scenario:3:5", line and column; or a key, "rig.gpu"; may be empty
  std::string key{};    // of the scenario, "kv.policy"; empty: it is about no single key

  /// What the program prints: "where: message", and the hint indented on the next line.
  RIGCAST_API std::string text() const;
};

struct ForecastAnswer {
  /// The bytes of `rigcast simulate --format json`, schema "rigcast.report/1": keys may be added,
  /// and are never renamed. Empty: `error` says why.
  std::string json{};
  /// False: the scenario needs more memory than the machine has, which is an answer and no error;
  /// "errors" in `json` says of what.
  bool fits = false;
  std::optional<ForecastError> error{};
};

/// Forecasts a scenario: its file's text, or the same keys as a JSON object of tables. Throws
/// nothing but std::bad_alloc and what should_stop() throws.
///
/// Each call works in a process of its own (fork), so that threads may call at the same time, the
/// same question has the same answer to the byte, and a failure is an error, not the program's end.
///
/// The catalogue is found beside the library (share/rigcast); the environment's RIGCAST_DATA names
/// another one. A user's own parts in $XDG_DATA_HOME/rigcast count, as for the program.
RIGCAST_API ForecastAnswer forecast(std::string_view scenario, const ForecastOptions& options = {});

}  // namespace rigcast
