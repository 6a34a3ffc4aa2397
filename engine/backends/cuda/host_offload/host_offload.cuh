#pragma once
// The host's part in a GPU's steps. Within a token the GPU sends it vectors through a mailbox and
// waits for its answers. In a prompt's batch, rows are copied to the host and back, and the two
// wait for each other.

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>

#include "engine/backends/cuda/host_offload/host_worker.cuh"
#include "engine/backends/cuda/kv/kv_mirror.cuh"
#include "engine/cuda/cuda_buffer.cuh"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/mailbox.cuh"
#include "engine/cuda/message.cuh"
#include "engine/cuda/sync_event.cuh"
#include "engine/memory/ram.hpp"

namespace rigcast::engine::cuda {

/// Contiguous rows of a batch's tokens on the GPU.
struct BatchRows {
  float* first = nullptr;
  RowOwners of{};
  int tokens = 0;
};

/// All functions throw CudaFailure, and what the host's threads throw.
class HostOffload {
 public:
  /// Makes the host's part. Kernels are queued on `stream`, which outlives this object. Batches
  /// have at most `options.ubatch` tokens. Throws MachineError, ShortOfMemory.
  HostOffload(const Stream& stream, std::shared_ptr<const Model> model, const HostPlacement& parts,
              const CpuOptions& options, BeforeHostOp before_host_op);

  HostWorker side;
  Mailbox mailbox;
  // The mirror of both caches, if the host decodes what the GPU has prefilled.
  std::optional<KvMirror> kv_mirror;
  /// Runs each host operation as soon as its messages are queued. If absent, whoever launches the
  /// token must have the host run all of its operations.
  std::function<void()> run_host_op;

  // Within a token; these calls are queued on the stream, and captured in its graph.
  void send(std::initializer_list<MessagePart> parts);
  void receive(std::initializer_list<AnswerPart> answer);
  /// Sends the token's last message, which has no answer.
  void send_last(std::initializer_list<MessagePart> parts);

  // For a batch, after all work that is queued on the stream.
  /// hidden = the ids' rows of the embedding. Waits only until rows_ is free again: the previous
  /// batch may still be running.
  void embed(const RowOwners& of, std::span<const std::int32_t> ids, float* hidden);
  /// hidden = the output of layers [first, end) for hidden
  void compute_layers(int first, int end, const BatchRows& hidden);
  /// hidden += the output of a layer's mixture of experts for hidden
  void compute_experts(int layer, const BatchRows& hidden);
  /// Attention of projections [q | k | v]; its output, rows of q's width, overwrites them.
  void attend(int layer, const BatchRows& projected);
  /// side.logits() = the logits of hidden, or of some of its rows, in their order
  void compute_logits(const BatchRows& hidden);
  void compute_logits(const BatchRows& hidden, std::span<const std::int64_t> rows);

 private:
  std::span<float> fetch_rows(const float* rows, std::int64_t count);
  void return_rows(std::span<const float> rows, float* to);
  void let_host_answer();
  const ModelSpec& spec() { return side.layers().model().spec; }
  /// Runs `compute` on rows of the hidden state's width.
  template <class Compute>
  void on_hidden(const BatchRows& hidden, const Compute& compute);

  const Stream& stream_;
  RamCharge buffers_;
  PinnedBuffer rows_;   // rows of a batch that are being copied
  SyncEvent embedded_;  // the copy of embeddings from rows_ has ended
};

}  // namespace rigcast::engine::cuda
