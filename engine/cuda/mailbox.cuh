#pragma once
// A mailbox in memory that host and GPU both access, through which they exchange vectors: a few
// microseconds, where a synchronised copy takes tens.

#include <atomic>
#include <cstdint>

#include "engine/cuda/cuda_buffer.cuh"
#include "engine/cuda/cuda_stream.cuh"

namespace rigcast::engine {

/// The mailbox as kernels see it. Messages are counted; an answer bears its message's number.
struct MailboxView {
  float* message = nullptr;       // of the GPU to the host
  const float* answer = nullptr;  // of the host to the GPU
  unsigned* sent = nullptr;       // messages so far
  const unsigned* answered = nullptr;
  unsigned* number = nullptr;  // the GPU's own count of messages, in its memory
};

/// Used by one stream and one host thread at a time. Throws CudaFailure.
class Mailbox {
 public:
  /// Allocates `floats` F32 values in each direction.
  explicit Mailbox(std::size_t floats);

  MailboxView view() const;
  /// The largest number of values in a message or an answer.
  std::size_t size() const { return floats_; }

  /// Waits for the next message, which work on `stream` sends, and returns it: valid until
  /// answer().
  const float* await(const Stream& stream);
  /// The buffer of the answer, to be filled before answer().
  float* answer_buffer() const { return memory_.as<float>() + kLine + floats_; }
  void answer();

  /// After a failure: releases the GPU from all waits. reset() must follow once the stream has
  /// ended.
  void release();
  void reset();

 private:
  static constexpr std::size_t kLine = 64;  // floats before the message: the counters, on separate
                                            // cache lines

  std::atomic_ref<unsigned> count(std::size_t line) const {
    return std::atomic_ref<unsigned>(memory_.as<unsigned>()[line * 32]);
  }

  std::size_t floats_;
  PinnedBuffer memory_;  // counts, message, answer
  DeviceBuffer number_;
  unsigned received_ = 0;
};

}  // namespace rigcast::engine
