#pragma once
// The host's part in a GPU's steps. Within a token the GPU sends it vectors through a mailbox and
// waits for its answers; of a prompt's batch, rows are copied there and back, and both wait for
// each other.

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>

#include "engine/backends/cuda/host_offload/host_side.cuh"
#include "engine/backends/cuda/kv/handover.cuh"
#include "engine/cuda/cuda_buffer.cuh"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/mailbox.cuh"
#include "engine/cuda/mark.cuh"
#include "engine/cuda/message.cuh"
#include "engine/memory/ram.hpp"

namespace rigcast::engine::cuda {

/// Rows of a batch's tokens on the GPU, one after the other; the first token is behind `cached`
/// tokens.
struct BatchRows {
  float* first = nullptr;
  TokenCount cached = 0;
  int tokens = 0;
};

/// All of it throws CudaFailure, and what the host's threads throw.
class HostOffload {
 public:
  /// Kernels are on `stream`, which outlives it. Batches have `options.ubatch` tokens at most.
  /// Throws MachineError, ShortOfMemory.
  HostOffload(const Stream& stream, std::shared_ptr<const Model> model, const HostParts& parts,
              const CpuOptions& options, BeforeTurn before_turn);

  HostSide side;
  Mailbox mailbox;
  std::optional<Handover> handover;  // of caches, where the host decodes what the GPU has read
  /// Takes each turn of the host's as soon as it is queued; absent: whoever launches the token has
  /// the host answer all of them.
  std::function<void()> take_turn;

  // Within a token: queued on the stream, and recorded with it.
  void send(std::initializer_list<MessagePart> parts);
  void receive(std::initializer_list<AnswerUse> answer);
  /// Sends the token's last message, which has no answer.
  void send_last(std::initializer_list<MessagePart> parts);

  // Of a batch, after all that is queued on the stream.
  /// hidden = the ids' rows of the embedding. Nothing is waited for but where the rows' memory is
  /// used again: the batch before may still go on.
  void embed(TokenCount cached, std::span<const std::int32_t> ids, float* hidden);
  /// hidden = layers [first, end) of hidden
  void compute_layers(int first, int end, const BatchRows& hidden);
  /// hidden += the mixture of a layer's experts for hidden
  void compute_experts(int layer, const BatchRows& hidden);
  /// The mix of projections [q | k | v], rows of q's width, takes their place.
  void attend(int layer, const BatchRows& projected);
  /// side.logits() = those of hidden
  void compute_logits(const BatchRows& hidden);

 private:
  std::span<float> fetch_rows(const float* rows, std::int64_t count);
  void return_rows(std::span<const float> rows, float* to);
  void let_host_answer();
  const ModelSpec& spec() { return side.layers().model().spec; }
  /// Runs `compute` on rows of the hidden state's width.
  template <class Compute>
  void on_hidden(const BatchRows& hidden, const Compute& compute);

  const Stream& stream_;
  RamShare buffers_;
  PinnedBuffer rows_;  // of a batch, on their way
  Mark embedded_;      // embeddings have left them
};

}  // namespace rigcast::engine::cuda
