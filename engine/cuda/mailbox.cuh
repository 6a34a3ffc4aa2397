#pragma once
// Memory that the host and the GPU both see, through which each hands the other a vector in turn: a
// few microseconds, where a synchronised copy takes tens.

#include <atomic>
#include <cstdint>

#include "engine/cuda/cuda_buffer.cuh"
#include "engine/cuda/cuda_stream.cuh"

namespace rigcast::engine {

/// The same as kernels see it. Messages are counted; an answer bears its message's number.
struct MailboxView {
  float* message = nullptr;       // of the GPU to the host
  const float* answer = nullptr;  // of the host to the GPU
  unsigned* sent = nullptr;       // messages so far
  const unsigned* answered = nullptr;
  unsigned* number = nullptr;  // the GPU's own count of messages, in its memory
};

/// For one stream and one thread of the host at a time. Throws CudaFailure.
class Mailbox {
 public:
  /// Room for as many values of F32 both ways.
  explicit Mailbox(std::size_t floats);

  MailboxView view() const;
  /// Values that a message or an answer may have.
  std::size_t size() const { return floats_; }

  /// Waits for the next message, which work on `stream` sends, and gives it: valid until answer().
  const float* await(const Stream& stream);
  /// Where the answer is to be written before it is given.
  float* answer_to_write() const { return memory_.as<float>() + kLine + floats_; }
  void answer();

  /// After a failure: the GPU waits for nothing more. reset() is to follow once the stream has
  /// ended.
  void release();
  void reset();

 private:
  static constexpr std::size_t kLine = 64;  // floats before the message: the counts, lines apart

  std::atomic_ref<unsigned> count(std::size_t line) const {
    return std::atomic_ref<unsigned>(memory_.as<unsigned>()[line * 32]);
  }

  std::size_t floats_;
  PinnedBuffer memory_;  // counts, message, answer
  DeviceBuffer number_;
  unsigned received_ = 0;
};

}  // namespace rigcast::engine
