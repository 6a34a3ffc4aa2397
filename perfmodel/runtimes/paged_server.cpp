#include "perfmodel/runtimes/paged_server.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/runtime/window_blocks.hpp"

namespace rigcast {
namespace {

// Bytes of an element of the activations.
constexpr double kElement = 2;

double widest_ffn(const ModelSpec& model) {
  if (!model.moe) return double(model.ffn);
  const MixtureOfExperts& moe = *model.moe;
  return std::max(double(model.ffn), double(moe.experts_used * moe.expert_ffn + moe.shared_ffn));
}

// What a GPU's share leaves for the pool. The share is of what PyTorch sees, and does not count the
// context, which has to fit beside it.
Bytes pool_of(const DeviceMemory& d, const SchedulerPolicy& policy, Bytes unseen) {
  const Bytes seen = d.capacity - unseen;
  const Bytes always = d.weights + d.staging;
  switch (policy.pool) {
    case PoolRule::kShareLessPeak: return seen * policy.memory_share - always - d.activations;
    case PoolRule::kStaticShare: return seen * policy.memory_share - always;
    case PoolRule::kShareOfFree: return (seen - always - d.activations) * policy.memory_share;
    case PoolRule::kTokens: break;  // is none of these servers'
  }
  return {};
}

// GPUs that a device of the placement stands for.
double gpus_of(const MemoryContext& s, DeviceIndex device) {
  const auto& shared = s.rig.gpus[std::size_t(device)].shared;
  return shared ? shared->gpus : 1;
}

// A block of all of a device's layers that keep all tokens, of all GPUs that share them.
double bytes_of_block(const MemoryContext& s, const Placement& p, DeviceIndex device,
                      const WindowBlocks& windows) {
  double per_token = 0;
  for (int l = 0; l < s.model.layers; ++l)
    if (p.layers[std::size_t(l)].kv == device &&
        (windows.window <= 0 || s.model.sees_all_tokens(l)))
      per_token += kv_bytes_per_token(s.model, l, s.kv.types);
  const auto& shared = s.rig.gpus[std::size_t(device)].shared;
  return per_token * (shared ? shared->kv_copies : 1) * windows.filled *
         double(s.scheduler->block_tokens);
}

}  // namespace

// The peak of a pass with as many tokens as a step may have, which the server runs before it
// divides its memory (vllm/v1/worker/gpu_worker.py, determine_available_memory()): a layer's input,
// its norm's output, both products of the FFN and their product. Then the sampler's passes over the
// logits of all sequences, in F32 (vllm/v1/sample/sampler.py).
Bytes PagedServer::compute_buffers(const MemoryContext& s, const Placement& p, DeviceIndex device,
                                   bool works) const {
  if (!works || device == kHost || !s.scheduler) return {};
  const ModelSpec& m = s.model;
  const double rows = double(s.scheduler->step_tokens);
  const double gpus = gpus_of(s, device);
  const double layer = rows * kElement * (2 * gpus * double(m.hidden) + 3 * widest_ffn(m));
  constexpr double kCopies = 3;  // of the logits: as they are, sorted, and their probabilities
  const double logits = kCopies * logits_bytes(m).value * double(s.scheduler->sequences);
  if (p.head != device) return Bytes{layer};
  return Bytes{std::max(layer, gpus * logits)};  // the pool is that of the GPU with the logits
}

// The pool of each GPU, in whole blocks of all of its layers that keep all tokens. A server whose
// pool does not hold one context does not start: what its share leaves of the memory is nobody's.
// The stages of a pipeline have as many blocks as the one with the fewest
// (vllm/v1/core/kv_cache_utils.py, get_kv_cache_configs()).
void PagedServer::add_cache(const MemoryContext& s, const Placement& p, const Batch&,
                            MemoryPlan& plan) const {
  if (!s.runtime.server || !s.scheduler) return;
  const RuntimeProfile::Server& server = *s.runtime.server;
  const TokenCount block = s.scheduler->block_tokens;
  const WindowBlocks windows = window_blocks(s.model, *s.scheduler);
  const double context = std::ceil(double(s.context) / double(block)) +
                         double(windows.of(s.context, block));  // blocks
  std::vector<double> bytes(plan.devices.size() - 1);
  double fewest = std::numeric_limits<double>::infinity();
  for (std::size_t g = 0; g < bytes.size(); ++g) {
    DeviceMemory& d = plan.devices[g];
    const double block_bytes = bytes[g] = bytes_of_block(s, p, DeviceIndex(g), windows);
    if (block_bytes <= 0) continue;
    const double gpus = gpus_of(s, DeviceIndex(g));
    d.staging += server.outside_pool.value * gpus;
    const Bytes left = std::min(pool_of(d, *s.scheduler, server.unseen.value * gpus), d.free());
    const double blocks = std::floor(left.value / block_bytes);
    if (blocks < context) d.overhead += std::max(Bytes{}, d.free() - left);
    fewest = std::min(fewest, std::max(context, blocks));
  }
  for (std::size_t g = 0; g < bytes.size(); ++g)
    if (bytes[g] > 0) plan.devices[g].kv += Bytes{fewest * bytes[g]};
}

// The first stage of a pipeline has the embedding, the last one the head, be it the same matrix.
EndMatrices PagedServer::end_matrices(const StepContext& s, const Placement& p) const {
  if (p.head == kHost) return {1, kHost, kHost};
  if (s.rig.between_stages) return {1, p.head, 0};
  return {s.tensors.head_is_embedding ? 0 : 1, p.head, p.head};
}

TokenCount PagedServer::cells(const MemoryContext&, TokenCount cached) const { return cached; }

}  // namespace rigcast
