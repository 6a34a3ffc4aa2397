#pragma once
// A machine and a runtime in round numbers, apart from the data files: what a test states must not
// change with them.

#include <utility>

#include "core/scenario/scenario.hpp"
#include "perfmodel/memory.hpp"
#include "tests/catch.hpp"
#include "tests/core/model_fixtures.hpp"

namespace rigcast::fixtures {

inline GpuPart card(Bytes memory) {
  GpuPart g;
  g.id = g.name = "card";
  g.architecture = "any";
  g.memory.value = memory;
  g.bandwidth.value = 400_GBps;
  g.pcie = {4, 16};
  return g;
}

/// One GPU of 24 GiB and 64 GiB of RAM, of which others use 300 MiB and 2 GiB; a context has 400
/// MiB.
inline Rig machine(Bytes vram = 24_GiB, int gpus = 1) {
  Rig rig;
  for (int g = 0; g < gpus; ++g) {
    rig.gpus.push_back(card(vram));
    rig.links.emplace_back();
  }
  rig.cpu.cores = rig.cpu.threads = 8;
  rig.ram.capacity.value = 64_GiB;
  rig.ram.bandwidth.value = 50_GBps;
  rig.vram_reserved.value = 300_MiB;
  rig.gpu_context.value = 400_MiB;
  rig.ram_reserved.value = 2_GiB;
  return rig;
}

/// Allocates its cache for the whole context in multiples of 256, as llama.cpp does.
inline RuntimeProfile whole_context_runtime() {
  RuntimeProfile r;
  r.id = r.name = "fixture";
  r.kv_policies = {KvPolicy::kVram,  KvPolicy::kRam,      KvPolicy::kStream,
                   KvPolicy::kPaged, KvPolicy::kCombined, KvPolicy::kSpill};
  r.rules = RuntimeRules::kLlamaCpp;
  r.memory.kv_padding = 256;
  r.memory.logits = LogitsRows::kUbatch;
  r.memory.maps_file = true;
  r.memory.staging = 4_MiB;
  r.gpu["default"] = {};
  return r;
}

inline Scenario scenario_of(ModelSpec model, Rig rig = machine(), const char* quant = "F16") {
  Scenario s;
  s.rig = std::move(rig);
  s.model = std::move(model);
  s.quant = quant;
  const auto mix = QuantMix::from_name(quant);
  REQUIRE(mix);
  auto table = make_tensor_table(s.model, *mix);
  REQUIRE(table);
  s.tensors = *std::move(table);
  s.runtime = whole_context_runtime();
  s.settings.threads = 8;
  s.workload.context = 4096;
  s.workload.prompt_tokens = 512;
  s.workload.output_tokens = 128;
  return s;
}

inline const DeviceMemory& host(const MemoryPlan& plan) { return plan.devices.back(); }
inline const DeviceMemory& gpu(const MemoryPlan& plan, std::size_t i = 0) {
  return plan.devices.at(i);
}

}  // namespace rigcast::fixtures
