#pragma once
// Who has which part of a server's KV cache, and what it still holds of requests that have ended.

#include <vector>

#include "core/runtime/scheduler_policy.hpp"
#include "sim/serving/cache/cache_room.hpp"
#include "sim/serving/cache/ram_tier.hpp"
#include "sim/serving/cache/request_log.hpp"

namespace rigcast {

class KvCache {
 public:
  virtual ~KvCache() = default;

  /// Tokens that one request can have at most.
  [[nodiscard]] virtual TokenCount longest_sequence() const = 0;
  /// Units in which room is given, in all and free: blocks or slots.
  [[nodiscard]] virtual std::size_t units() const = 0;
  [[nodiscard]] virtual std::size_t free_units() const = 0;

  /// First tokens of a request: in the cache, and after those in RAM and on disk. What follows in
  /// these, and is computed anew all the same, is `left`.
  struct Found {
    TokenCount here = 0, in_ram = 0, on_disk = 0, left = 0;
    [[nodiscard]] TokenCount to_load() const { return in_ram + on_disk; }
    [[nodiscard]] TokenCount all() const { return here + to_load(); }
  };
  /// Looks for the beginning of a request that waits, whose last known token is always computed.
  virtual Found find(RequestId id) = 0;
  /// Units that a request needs for so many tokens; those that one that runs lacks as yet.
  [[nodiscard]] virtual std::size_t units_for(TokenCount tokens) const = 0;
  [[nodiscard]] virtual std::size_t units_lacking(RequestId id, TokenCount tokens) const = 0;
  /// True if there is room for `tokens` of the request that was looked for, and for so many units
  /// of others.
  [[nodiscard]] virtual bool has_room(TokenCount tokens, std::size_t of_others) const = 0;
  /// Gives the request what was found here.
  virtual void admit(RequestId id) = 0;
  /// Gives it room for so many tokens that come from RAM: nobody shares them before they are there.
  virtual void reserve(RequestId, TokenCount) {}
  /// Gives it room for `tokens` in all. False: there is not as much.
  virtual bool grow(RequestId id, TokenCount tokens) = 0;
  /// True if there is room for so many tokens more of each of these requests.
  [[nodiscard]] virtual bool can_grow(const std::vector<RequestId>& ids, TokenCount more) const = 0;
  /// It has ended, or gives up what it has.
  virtual void release(RequestId id) = 0;
  /// A step computed so many tokens of prompts, of those that decide how fast they are computed.
  virtual void computed_prompts(TokenCount, Seconds) {}
  /// Tokens of prompts a second by which it decides what comes back; 0: it does not.
  [[nodiscard]] virtual double prompt_rate() const { return 0; }
  /// Requests that run are in this order: of slots, by their number; else of admission.
  [[nodiscard]] virtual std::size_t place(RequestId id) const = 0;

  struct Copies {
    Bytes to_ram, to_gpu, to_disk;
  };
  /// Copies between this cache, RAM and a disk since the last call.
  virtual Copies take_copies() { return {}; }
};

}  // namespace rigcast
