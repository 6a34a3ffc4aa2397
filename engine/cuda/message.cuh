#pragma once
// The GPU's side of a mailbox: kernels that send a vector to the host, and wait for its answer.

#include <span>

#include "engine/cuda/mailbox.cuh"

namespace rigcast::engine::cuda {

/// 4-byte values on the GPU.
struct MessagePart {
  const void* from = nullptr;
  int count = 0;
};
inline constexpr int kMaxParts = 3;

/// Sends the parts, one after the other, as one message. No parts: the message only says that the
/// GPU has arrived. Throws std::invalid_argument, CudaFailure.
void send(const Stream& stream, std::span<const MessagePart> parts, const MailboxView& box);

/// A part of the answer, which is copied to `to` [count], or added to it.
struct AnswerPart {
  float* to = nullptr;
  int count = 0;
  bool add = false;
};
/// Waits for the answer to the last message, whose parts follow one another. Throws as send() does.
void receive(const Stream& stream, const MailboxView& box, std::span<const AnswerPart> parts);

}  // namespace rigcast::engine::cuda
