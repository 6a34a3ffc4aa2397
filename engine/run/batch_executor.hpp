#pragma once
// The interface of an executor of many sequences: each step computes new tokens of several of them,
// whose keys and values are in blocks of a common pool.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "core/base/units.hpp"
#include "engine/run/any_executor.hpp"
#include "engine/run/sampler.hpp"

namespace rigcast::engine {

/// New tokens of one sequence in a step.
struct SequenceStep {
  std::span<const std::int32_t>
      tokens{};           // one, if it decodes; more of them: a chunk of its prompt
  TokenCount cached = 0;  // its tokens before these
  /// Its block table: numbers of the pool's blocks, with room for `cached` and `tokens`. Tokens
  /// before these may be in blocks of other sequences, too; new ones are written to its own.
  std::span<const int> blocks{};
  // Chooses the token that follows these; nullptr: none is chosen. Each sequence has its own.
  Sampler* sampler = nullptr;
  /// Of a model with recurrent layers: which of the executor's states is the sequence's, a number
  /// below step_sequences that it keeps from its first token on, and no other has meanwhile. Its
  /// first step has no tokens before, or those of a state that was copied there; each further one
  /// has those of all before it.
  int state = 0;
  /// Where layers with a window have a pool of their own (BatchLimits::window_blocks): the blocks
  /// of that one, as many as `blocks` or more. Those of which no token is within the window of a
  /// new one may be any.
  std::span<const int> window_blocks{};
};

/// A copy of a block's contents between the pool and the pool of the host's memory.
struct BlockCopy {
  int from = 0, to = 0;
};

/// Numbers of what a batch executor holds.
struct BatchLimits {
  TokenCount block_tokens = 0;
  int blocks = 0;              // of the pool
  int host_blocks = 0;         // of the pool in the host's memory, to which blocks can be moved
  TokenCount step_tokens = 0;  // the most tokens of a step
  int step_sequences = 0;      // the most sequences of a step
  /// Of the pool's blocks, the last ones: steps copy them to where they compute, so that others are
  /// better taken first.
  int cold_blocks = 0;
  /// The most tokens of a sequence, however many blocks there are.
  TokenCount sequence_tokens = std::numeric_limits<TokenCount>::max();
  /// States beside those of a step's sequences, to which these can be copied: numbers from
  /// step_sequences on; checkpoints of windows are blocks that somebody holds. 0 of a model that
  /// has neither recurrent layers nor windows apart.
  int checkpoints = 0;
  /// Blocks of the pool of layers with a window; 0: these have no pool of their own.
  int window_blocks = 0;
  /// The newest tokens, itself included, to which a token attends in these layers.
  TokenCount window = 0;
};

class BatchExecutor : public AnyExecutor {
 public:
  /// In place of an id: the sequence has no sampler.
  static constexpr std::int32_t kNoToken = -1;
  /// In place of an id: a logit of the sequence is not a number, because weights of the file are
  /// damaged or numbers grew past what they are computed in. Its sampler has not drawn; the
  /// sequence cannot go on, and the others can.
  static constexpr std::int32_t kNotNumbers = -2;

  /// Computes a step. Returns, for every sequence, the id that its sampler chose, kNoToken or
  /// kNotNumbers; valid until the next call. No bit of a sequence's result depends on the contents
  /// of the others. Throws Interrupted, MachineError or std::bad_alloc; the step has not happened
  /// then, no sampler has drawn, and it may be repeated: blocks hold the tokens before it. States
  /// of recurrent layers may hold a part of the step: their sequences begin anew.
  virtual std::span<const std::int32_t> step(std::span<const SequenceStep> sequences) = 0;
  /// Computes a step, samples nothing and returns the logits after every sequence's last token,
  /// [sequence][vocabulary]; valid until the next call.
  virtual std::span<const float> logits(std::span<const SequenceStep> sequences) = 0;

  /// Computes what first steps would have to wait for: buffers that are made and kernels that are
  /// loaded when they are first needed. Call it before the first step: blocks' contents are lost.
  /// Throws what step() throws.
  virtual void warm_up();

  /// Copies blocks of the pool to the host's pool, or back. They are complete when the next step
  /// begins to read them, and `from` may be written to after this call. No two of them have the
  /// same `to`: they are made in no order.
  virtual void move_out(std::span<const BlockCopy> copies) = 0;
  virtual void move_in(std::span<const BlockCopy> copies) = 0;
  /// Returns when all that these two have begun is complete.
  virtual void finish_copies() {}

  /// Copies what recurrent layers keep of a sequence to another state, between steps: the next one
  /// begins with it, and `from` may go on. Both are below step_sequences + checkpoints. Without
  /// recurrent layers nothing is copied. Throws MachineError if a step that failed has lost `from`.
  virtual void copy_state(int from, int to);

  /// Bytes of a block: keys and values of all layers.
  virtual std::size_t block_bytes() const = 0;
  /// Copies a block of the pool to the first block_bytes() of `to`, complete on return.
  virtual void read_block(int block, std::span<std::byte> to) = 0;
  /// Copies the first block_bytes() of `from` to a block of the pool, complete on return. Another
  /// thread may compute a step meanwhile that does not use the block; only one may call this.
  virtual void write_block(int block, std::span<const std::byte> from) = 0;

  virtual BatchLimits limits() const = 0;
};

}  // namespace rigcast::engine
