#pragma once
// The GPU's side of a mailbox: a vector for the host, and the wait for its answer.

#include <span>

#include "engine/cuda/mailbox.cuh"

namespace rigcast::engine::cuda {

/// 4-byte values on the GPU.
struct MessagePart {
  const void* from = nullptr;
  int count = 0;
};
inline constexpr int kMostParts = 3;

/// Sends the parts one after the other. None: the host is only told that the GPU got here. Throws
/// std::invalid_argument, CudaFailure.
void send(const Stream& stream, std::span<const MessagePart> parts, const MailboxView& box);

/// A part of the answer: it goes to `to` [count], or is added to what is there.
struct AnswerUse {
  float* to = nullptr;
  int count = 0;
  bool add = false;
};
/// Waits for the answer to the last message, whose parts lie one after the other. Throws as send().
void receive(const Stream& stream, const MailboxView& box, std::span<const AnswerUse> parts);

}  // namespace rigcast::engine::cuda
