#include "bench/kernel_trace.hpp"

#include <cuda_runtime_api.h>
#include <cupti.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace rigcast::bench {
namespace {

void check(CUptiResult result) {
  if (result == CUPTI_SUCCESS) return;
  const char* text = nullptr;
  cuptiGetResultString(result, &text);
  throw std::runtime_error(fmt::format("CUPTI: {}", text ? text : "failed"));
}

int attribute(cudaDeviceAttr which) {
  int value = 0;
  const cudaError_t error = cudaDeviceGetAttribute(&value, which, 0);
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
  return value;
}

struct Recorded {
  std::string name;
  std::uint64_t start, end;  // ns
  std::int64_t blocks;
  BlockNeeds block;
  int cluster, clusters_at_once;  // blocks of a cluster; how many of them, 0: unknown
};

std::vector<Recorded> recorded;

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* records) {
  constexpr std::size_t kBytes = std::size_t(8) << 20;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBytes));
  *bytes = *buffer ? kBytes : 0;
  *records = 0;
}

Recorded read_record(const CUpti_ActivityKernel9& k) {
  const std::int64_t threads = std::int64_t(k.blockX) * k.blockY * k.blockZ;
  return {k.name ? k.name : "?",
          k.start,
          k.end,
          std::int64_t(k.gridX) * k.gridY * k.gridZ,
          {int(threads), k.registersPerThread, k.staticSharedMemory + k.dynamicSharedMemory},
          int(std::max(1u, k.clusterX) * std::max(1u, k.clusterY) * std::max(1u, k.clusterZ)),
          int(k.maxActiveClusters)};
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                          std::size_t valid) {
  const std::unique_ptr<std::uint8_t, decltype(&std::free)> owned(buffer, &std::free);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
      recorded.push_back(read_record(*reinterpret_cast<const CUpti_ActivityKernel9*>(record)));
}

// Blocks of a cluster run together, within groups of multiprocessors that differ in size: how many
// do is only known where CUPTI says it.
int at_once(const GpuLimits& gpu, const Recorded& k) {
  return k.cluster > 1 ? k.clusters_at_once * k.cluster : blocks_at_once(gpu, k.block);
}

}  // namespace

GpuLimits gpu_limits() {
  return {attribute(cudaDevAttrMultiProcessorCount),
          attribute(cudaDevAttrMaxThreadsPerMultiProcessor),
          attribute(cudaDevAttrMaxBlocksPerMultiprocessor),
          attribute(cudaDevAttrMaxRegistersPerMultiprocessor),
          attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor),
          attribute(cudaDevAttrReservedSharedMemoryPerBlock),
          attribute(cudaDevAttrComputeCapabilityMajor) < 8 ? 256 : 128};
}

KernelTrace::KernelTrace(const GpuLimits& gpu) : gpu_(gpu) {
  check(cuptiActivityRegisterCallbacks(give_buffer, take_buffer));
}

void KernelTrace::begin() {
  recorded.clear();  // of a run that failed
  check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
}

std::vector<KernelRun> KernelTrace::end() {
  check(cuptiActivityFlushAll(1));
  check(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
  std::map<std::string, KernelName> names;
  std::vector<KernelRun> runs;
  for (const Recorded& k : std::exchange(recorded, {})) {
    const auto [name, is_new] = names.try_emplace(k.name);
    if (is_new) name->second = kernel_name(k.name);
    runs.push_back({name->second, k.start, k.end, k.blocks, at_once(gpu_, k)});
  }
  std::ranges::stable_sort(runs, {}, [](const KernelRun& k) { return std::pair(k.end, k.start); });
  return runs;
}

}  // namespace rigcast::bench
