#pragma once
// A server's rules: which tokens a step computes, who is admitted, and how the KV cache is shared.
// Every runtime's profile states its own.

#include <cstddef>
#include <string>
#include <string_view>

#include "core/base/units.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {

/// Whose tokens a step computes.
enum class StepOrder {
  kAdmission,     // of all that run, in the order in which they were admitted
  kDecodesFirst,  // a token of every answer, then prompts in the order of their slots
  kPromptsFirst,  // prompts alone while there are some, else a token of every answer
  kWholeBatches,  // of a batch that no further request joins until all of its requests have ended
};

/// What has to be free of the KV cache before a request is admitted.
enum class KvReserve {
  kStep,      // the tokens of its first step
  kPrompt,    // its whole prompt
  kAnswers,   // the longest answers that it and those that run may give
  kEstimate,  // a share of those answers, which falls from step to step until it was too little
};

/// Who gives up its blocks where one that runs needs more than are free.
enum class Victim { kLastAdmitted, kFewestGenerated };

/// Where it then stands among those that wait.
enum class Requeue { kFirst, kLast };

/// How a pool of blocks follows from a GPU's memory.
enum class PoolRule {
  kShareLessPeak,  // a share of the memory, less all else at its peak
  kStaticShare,    // a share of it, less the weights: all else is in the rest
  kShareOfFree,    // a share of what all else leaves at its peak
  kTokens,         // as many tokens as are stated
};

/// When keys and values that are in RAM are copied back.
enum class RamLoad {
  kAhead,     // before their request can be scheduled, beside steps of others
  kByLayer,   // in its first step, each layer before it is computed
  kBlocking,  // before the next step, which waits
};

/// Whether keys and values that are in RAM or on disk are copied back, or computed anew.
enum class KvRestore {
  kAuto,       // what is faster by the rates of this machine, as far as they are known by then
  kAlways,     // copied back
  kRecompute,  // computed anew
};
std::string_view name(KvRestore restore);

enum class KvLayout {
  kBlocks,  // every request takes blocks as it grows; what is alike in prompts is shared
  kSlots,   // every request has a slot, which keeps what it holds for the next one
};

struct SchedulerPolicy {
  StepOrder order = StepOrder::kAdmission;
  KvReserve reserve = KvReserve::kPrompt;
  Victim victim = Victim::kLastAdmitted;
  Requeue requeue = Requeue::kFirst;
  KvLayout layout = KvLayout::kBlocks;
  TokenCount step_tokens = 2048;  // at most so many are computed in a step
  bool chunked = true;            // a prompt may be computed in several steps
  std::size_t sequences = 256;    // at most so many run; with slots, their number
  std::size_t max_waiting = 0;    // more requests that wait are refused; 0: none is
  int stages = 1;                 // of a pipeline: so many steps are under way at once
  TokenCount block_tokens = 16;   // of a block of the KV cache
  bool prefix_cache = true;       // what the cache holds of a prompt is not computed again
  /// Prompts of one step share what they begin with; else only what was computed before it.
  bool shares_in_step = true;
  /// Layers with a window keep blocks of the window's tokens alone; else of all tokens.
  bool window_blocks = false;
  /// Of a GPU's memory, see `pool`. With slots, the cache is as large as the context of each.
  double memory_share = 0.9;
  PoolRule pool = PoolRule::kShareLessPeak;
  TokenCount pool_tokens = 0;  // of PoolRule::kTokens; 0: up to the context of all that may run
  /// RAM for what has left the cache, or was copied before it does; 0: none.
  Bytes ram_cache{};
  RamLoad ram_load = RamLoad::kAhead;
  TokenCount ram_min_tokens = 1;  // fewer tokens are not copied back
  /// Room on a disk behind RAM, or behind the cache alone; 0: none.
  Bytes disk_cache{};
  std::string disk_folder{};  // in which the program keeps it; a forecast has no use for it
  KvRestore restore = KvRestore::kAlways;
  /// Slots share the cells of one cache; else each has as many.
  bool unified = false;
  /// Of slots that are free, one that holds more than this share of a prompt is taken, else the one
  /// that has been free the longest.
  double slot_similarity = 0.1;
  /// `kEstimate`: the share of answers at first, its least, and the steps in which it falls so far.
  double estimate_first = 0.7, estimate_least = 0.098;
  double estimate_steps = 600;
  TokenCount estimate_longest = 4096;  // longer answers count as so long
};

std::string_view name(StepOrder order);

/// Tokens of a pool of PoolRule::kTokens, in whole blocks, of such contexts: stated, or the most.
TokenCount stated_pool_tokens(const SchedulerPolicy& policy, TokenCount context);

/// The `[scheduler]` of a runtime's profile or of a scenario; what it leaves out is as in
/// `defaults`. Errors land in the table's document.
SchedulerPolicy read_scheduler(const TomlTable& table, const SchedulerPolicy& defaults);

/// `kv_disk` and `kv_restore` of such a table.
void read_kv_disk(const TomlTable& table, SchedulerPolicy& policy);
/// Refuses `kv_restore` of a server that keeps KV neither in RAM nor on disk.
void refuse_idle_restore(const TomlTable& table, const SchedulerPolicy& policy);

}  // namespace rigcast
