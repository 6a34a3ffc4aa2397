#include "engine/cuda/mailbox.cuh"

#include <cstring>

#include "engine/cuda/cuda_call.cuh"

namespace rigcast::engine {
namespace {

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

Mailbox::Mailbox(std::size_t floats)
    : floats_((floats + 31) / 32 * 32),
      memory_((kLine + 2 * floats_) * sizeof(float), "messages of GPU and host"),
      number_(sizeof(unsigned)) {
  reset();
}

MailboxView Mailbox::view() const {
  float* const base = memory_.on_device<float>();
  auto* const counts = reinterpret_cast<unsigned*>(base);
  return {base + kLine, base + kLine + floats_, counts, counts + 32, number_.as<unsigned>()};
}

const float* Mailbox::await(const Stream& stream) {
  const unsigned next = received_ + 1;
  for (unsigned looks = 1; count(0).load(std::memory_order_acquire) != next; ++looks) {
    pause();
    // Failed or finished work sends no message.
    if (looks % (1 << 16) != 0) continue;
    const cudaError_t state = cudaStreamQuery(stream.get());
    if (state == cudaErrorNotReady) continue;
    if (count(0).load(std::memory_order_acquire) == next) break;
    RIGCAST_CUDA_CALL(state);
    throw MachineError("the GPU has ended without the message that the host waits for");
  }
  received_ = next;
  return memory_.as<float>() + kLine;
}

void Mailbox::answer() { count(1).store(received_, std::memory_order_release); }

void Mailbox::release() { count(1).store(received_ + (1u << 30), std::memory_order_release); }

void Mailbox::reset() {
  received_ = 0;
  count(0).store(0);
  count(1).store(0);
  RIGCAST_CUDA_CALL(cudaMemset(number_.as(), 0, sizeof(unsigned)));
  RIGCAST_CUDA_CALL(cudaDeviceSynchronize());
}

}  // namespace rigcast::engine
