#pragma once
// GPUs that compute every layer together: tensor parallelism. Each has a part of every matrix and
// of every token's KV, and after attention and after the FFN all add up what each computed.

#include "core/base/sourced.hpp"
#include "core/base/units.hpp"

namespace rigcast {

/// How fast GPUs exchange: an all-reduce of a few bytes takes `latency`; of many, each of n GPUs
/// sends and receives 2 (n - 1) / n of them at the rate `bus`, as NCCL's tests count it.
struct GpuExchange {
  Sourced<Seconds> latency;
  Sourced<BytesPerSecond> bus;
  bool over_pcie = false;     // over the links that also join GPUs and host
  bool through_host = false;  // every byte is written to the host's memory and read from there
};

/// How a server's GPUs divide its work: `tensor` of them share every layer, `pipeline` such groups
/// have a part of the layers each, one behind the other, and `data` such pipelines serve requests
/// of their own.
struct GpuGroups {
  int tensor = 1, pipeline = 1, data = 1;
  bool whole_experts = false;  // of GPUs that share a layer, each has a part of its experts

  [[nodiscard]] int all() const { return tensor * pipeline * data; }
};

/// Stages of a pipeline at most.
inline constexpr int kMaxStages = 16;

struct SharedLayers {
  int gpus = 1;
  int kv_copies = 1;           // of every token's KV, where there are more GPUs than heads of KV
  bool whole_experts = false;  // each has a part of the experts, else a part of every expert
  GpuExchange exchange;
  double element = 2;        // bytes of an activation that is exchanged, of one token
  double batch_element = 2;  // of a prompt's batch
  double launches = 0;       // kernels of each exchange that are launched outside of a graph
  bool graphs = true;        // what is computed between two exchanges for a token is a graph
  int launchers = 1;         // GPUs for which one thread launches kernels, one after the other
};

/// Bytes that each GPU sends, and receives, until the sum of `bytes` of each is at all of them, or
/// until one has the others' parts of `bytes`. 0: there is one GPU.
Bytes all_reduce_bytes(const SharedLayers& shared, Bytes bytes);
Bytes gather_bytes(const SharedLayers& shared, Bytes bytes);
/// Time in which the sum of `bytes` of each GPU gets to all of them.
Seconds all_reduce_time(const SharedLayers& shared, Bytes bytes);
/// Time in which one GPU gets the others' parts of `bytes`.
Seconds gather_time(const SharedLayers& shared, Bytes bytes);

}  // namespace rigcast
