#include "engine/cuda/message.cuh"

#include <algorithm>
#include <stdexcept>

#include "engine/cuda/launch.cuh"

namespace rigcast::engine::cuda {
namespace {

struct Parts {
  MessagePart part[kMaxParts];
};

// One block: messages within a token are so small that one block is faster than a barrier across
// blocks.
__global__ void __launch_bounds__(1024)
    send_parts(const __grid_constant__ Parts parts, MailboxView box) {
  allow_next_kernel();
  wait_for_inputs();
  float* to = box.message;
  for (const MessagePart& part : parts.part) {
    for (int i = int(threadIdx.x); i < part.count; i += int(blockDim.x))
      to[i] = static_cast<const float*>(part.from)[i];
    to += part.count;
  }
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x != 0) return;
  const unsigned number = *box.number + 1;
  *box.number = number;
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(box.sent)),
               "r"(number)
               : "memory");
}

__device__ unsigned answered(const MailboxView& box) {
  unsigned number;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];"
               : "=r"(number)
               : "l"(__cvta_generic_to_global(box.answered))
               : "memory");
  return number;
}

struct Uses {
  AnswerPart use[kMaxParts];
};

__global__ void __launch_bounds__(1024)
    receive_answer(MailboxView box, const __grid_constant__ Uses uses) {
  allow_next_kernel();
  wait_for_inputs();
  if (threadIdx.x == 0) {
    const unsigned number = *box.number;
    while (int(answered(box) - number) < 0) {
    }
  }
  __syncthreads();
  const float* from = box.answer;
  for (const AnswerPart& use : uses.use) {
    for (int i = int(threadIdx.x); i < use.count; i += int(blockDim.x)) {
      const float x = __ldcv(from + i);  // bypasses the GPU's caches
      use.to[i] = use.add ? use.to[i] + x : x;
    }
    from += use.count;
  }
}

}  // namespace

void send(const Stream& stream, std::span<const MessagePart> parts, const MailboxView& box) {
  if (parts.size() > std::size_t(kMaxParts))
    throw std::invalid_argument("send: more parts than a message has");
  Parts all{};
  std::ranges::copy(parts, all.part);
  launch(stream, {dim3(1), dim3(1024)}, Start::kEarly, send_parts, all, box);
}

void receive(const Stream& stream, const MailboxView& box, std::span<const AnswerPart> parts) {
  if (parts.size() > std::size_t(kMaxParts))
    throw std::invalid_argument("receive: more parts than an answer has");
  Uses all{};
  std::ranges::copy(parts, all.use);
  launch(stream, {dim3(1), dim3(1024)}, Start::kEarly, receive_answer, box, all);
}

}  // namespace rigcast::engine::cuda
