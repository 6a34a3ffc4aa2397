#include "perfmodel/runtimes/paged_server.hpp"

#include <algorithm>
#include <cmath>

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
  }
  return {};
}

// GPUs that a device of the placement stands for.
double gpus_of(const MemoryContext& s, DeviceIndex device) {
  const auto& shared = s.rig.gpus[std::size_t(device)].shared;
  return shared ? shared->gpus : 1;
}

}  // namespace

// The peak of a pass with as many tokens as a step may have, which the server runs before it
// divides its memory (vllm/v1/worker/gpu_worker.py, determine_available_memory()): a layer's input,
// its norm's output, both products of the FFN and their product. Then the sampler's passes over the
// logits of all sequences, in F32 (vllm/v1/sample/sampler.py).
Bytes PagedServer::compute_buffers(const MemoryContext& s, const Placement&, DeviceIndex device,
                                   bool works) const {
  if (!works || device == kHost || !s.scheduler) return {};
  const ModelSpec& m = s.model;
  const double rows = double(s.scheduler->step_tokens);
  const double gpus = gpus_of(s, device);
  const double layer = rows * kElement * (2 * gpus * double(m.hidden) + 3 * widest_ffn(m));
  constexpr double kCopies = 3;  // of the logits: as they are, sorted, and their probabilities
  const double logits = kCopies * logits_bytes(m).value * double(s.scheduler->sequences);
  return Bytes{std::max(layer, gpus * logits)};  // the pool is that of the GPU with the logits
}

// The pool of each GPU, in whole blocks of all of its layers.
void PagedServer::add_cache(const MemoryContext& s, const Placement& p, const Batch&,
                            MemoryPlan& plan) const {
  if (!s.runtime.server || !s.scheduler) return;
  const RuntimeProfile::Server& server = *s.runtime.server;
  for (std::size_t g = 0; g + 1 < plan.devices.size(); ++g) {
    DeviceMemory& d = plan.devices[g];
    double per_token = 0;
    for (int l = 0; l < s.model.layers; ++l)
      if (p.layers[std::size_t(l)].kv == DeviceIndex(g))
        per_token += kv_bytes_per_token(s.model, l, s.kv.types);
    if (per_token <= 0) continue;
    const double gpus = gpus_of(s, DeviceIndex(g));
    if (const auto& shared = s.rig.gpus[g].shared) per_token *= shared->kv_copies;
    d.staging += server.outside_pool.value * gpus;
    const Bytes left = std::min(pool_of(d, *s.scheduler, server.unseen.value * gpus), d.free());
    const double block = per_token * double(s.scheduler->block_tokens);
    const double context = std::ceil(per_token * double(s.context) / block) * block;
    // A server whose pool does not hold one context does not start.
    d.kv += Bytes{std::max(context, std::floor(left.value / block) * block)};
  }
}

EndMatrices PagedServer::end_matrices(const StepContext& s, const Placement& p) const {
  if (p.head == kHost) return {1, kHost, kHost};
  return {s.tensors.head_is_embedding ? 0 : 1, p.head, p.head};
}

TokenCount PagedServer::cells(const MemoryContext&, TokenCount cached) const { return cached; }

}  // namespace rigcast
