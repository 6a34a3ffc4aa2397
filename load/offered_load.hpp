#pragma once
// The requests of a load: single ones, sessions of several turns, users who think, or a trace.

#include <cstddef>
#include <memory>
#include <optional>

#include "core/base/error.hpp"
#include "core/base/units.hpp"
#include "core/scenario/load.hpp"
#include "load/arrivals.hpp"

namespace rigcast {

/// What a load asks of a server whose context has a limit.
class OfferedLoad : public Arrivals {
 public:
  /// Requests so far that were cut to the context, and sessions that ended because it was full.
  [[nodiscard]] virtual std::size_t shortened() const = 0;

  /// The requests that are asked of all engines, and how many of them are cut.
  struct AllEngines {
    std::size_t requests = 0, shortened = 0;
  };
  /// Where the requests of the other engines are known; nullopt: they are not drawn.
  [[nodiscard]] virtual std::optional<AllEngines> all_engines() const { return std::nullopt; }
};

/// The n-th session that begins is the same for a seed, whatever becomes of the requests: its
/// turns, their lengths, the time its user thinks, and its shared prefix. So loads with more users,
/// at a higher rate, or on another server, differ in the times of requests alone.
///
/// A later turn arrives when its user has thought after the answer; its prompt is that of the turn
/// before it, the answer, and new tokens. The first request of a group computes the shared prefix;
/// the others continue it. `context`: tokens that prompt and answer have together at most; at
/// least 2. `engines`: the load is that of one of so many, to each of which a turn of a session
/// goes as likely, so that it finds what was said when the session was there last. Errors: those of
/// read_trace().
Result<std::unique_ptr<OfferedLoad>> offer(const Load& load, TokenCount context, int engines = 1);

}  // namespace rigcast
