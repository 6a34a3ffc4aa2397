#include "validation/runs/llama_cpp/measured_report.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "perfmodel/context/host_copies.hpp"
#include "perfmodel/runtimes/runtime_models.hpp"

namespace rigcast::validation {
namespace {

std::optional<Interval> range(const std::vector<double>& values) {
  if (values.size() < 2) return std::nullopt;
  const auto [lo, hi] = std::ranges::minmax_element(values);
  return Interval{*lo, *hi};
}

// llama.cpp numbers its GPUs: "CUDA0", "ROCm1", "Vulkan0"; there is one "Metal", with
// "Metal_Mapped". "CPU_Mapped" and "CUDA_Host" are of the host, which comes after the GPUs.
std::size_t device_of(const std::string& buffer, std::size_t gpus) {
  if (gpus > 0 && buffer.starts_with("Metal")) return 0;
  const std::size_t digits = buffer.find_last_not_of("0123456789") + 1;
  if (digits == buffer.size()) return gpus;
  return std::min<std::size_t>(std::strtoul(buffer.c_str() + digits, nullptr, 10), gpus);
}

Bytes& part_of(DeviceMemory& device, std::string_view kind) {
  if (kind == "model") return device.weights;
  if (kind == "KV" || kind == "RS") return device.kv;
  return device.activations;  // compute and output
}

// A part of the file that is mapped from its first to its last tensor that the host needs.
bool is_mapping(const BenchBuffer& b) { return b.kind == "model" && b.name.ends_with("_Mapped"); }

std::vector<DeviceMemory> memory_of(const Scenario& s, const Placement& placement,
                                    const std::vector<BenchBuffer>& buffers) {
  std::vector<DeviceMemory> devices;
  if (buffers.empty()) return devices;
  const std::size_t gpus = s.rig.gpus.size();
  const auto add = [&](std::string name, Tier tier, Bytes capacity) {
    DeviceMemory& device = devices.emplace_back();
    device.device = std::move(name);
    device.tier = tier;
    device.capacity = capacity;
  };
  for (std::size_t g = 0; g < gpus; ++g)
    add("GPU " + std::to_string(g), Tier::kVram, s.rig.gpus[g].memory.value);
  add("host", Tier::kRam, s.rig.ram.capacity.value);
  Bytes mapped;
  for (const BenchBuffer& b : buffers) {
    part_of(devices[device_of(b.name, gpus)], b.kind) += b.bytes;
    if (is_mapping(b)) mapped += b.bytes;
  }
  leave_copied_pages(s, placement, mapped, devices);
  return devices;
}

// The larger of each buffer: a prompt may need more, the answer follows more tokens.
std::vector<BenchBuffer> larger_of(std::vector<BenchBuffer> buffers,
                                   const std::vector<BenchBuffer>& others) {
  for (const BenchBuffer& other : others) {
    const auto same = std::ranges::find_if(buffers, [&](const BenchBuffer& b) {
      return b.name == other.name && b.kind == other.kind;
    });
    if (same == buffers.end())
      buffers.push_back(other);
    else
      same->bytes = std::max(same->bytes, other.bytes);
  }
  return buffers;
}

std::optional<TtftBreakdown> start(const std::optional<Seconds>& load, Seconds prefill) {
  if (!load) return std::nullopt;
  TtftBreakdown out;
  out.load = *load;
  out.prefill = prefill;
  return out;
}

}  // namespace

void leave_copied_pages(const Scenario& s, const Placement& placement, Bytes mapped,
                        std::vector<DeviceMemory>& devices) {
  if (devices.empty()) return;
  Bytes all;
  for (const DeviceMemory& d : devices) all += d.weights;
  // A tied matrix is the embedding on the host, and once more in a buffer of a GPU, or of a CPU
  // that multiplies it repacked.
  const bool repacked = runtime_model(s.runtime).repacked_weights(s, placement).tied.value > 0;
  const bool twice = repacked || placement.head != kHost;
  const Bytes needed = Bytes{double(s.tensors.bytes())} + (twice ? tied_matrix(s) : Bytes{});
  DeviceMemory& host = devices.back();
  const Bytes copied = std::clamp(all - needed, Bytes{}, std::min(mapped, host.weights));
  host.weights -= copied;
  host.page_cache += copied;
}

Report measured_report(std::shared_ptr<const Scenario> scenario, const Placement& placement,
                       const LlamaBenchMeasurement& measured, bool prefill_was_cold) {
  const BenchTest &prompt = measured.prefill.tests.at(0), &answer = measured.decode.tests.at(0);
  Report r;
  r.origin = Origin::kMeasured;
  r.placement = placement;
  r.prefill_tokens_per_s = prompt.median();
  r.prefill_interval = range(prompt.tokens_per_s);
  r.decode_tokens_per_s = answer.median();
  r.tokens_per_s_interval = range(answer.tokens_per_s);
  r.tpot.mean = Seconds{1 / answer.median()};
  const Seconds prefill{double(prompt.prompt) / prompt.median()};
  r.resident = TtftBreakdown{};
  r.resident->prefill = prefill;
  r.warm = start(answer.load, prefill);
  if (prefill_was_cold) r.cold = start(prompt.load, prefill);
  r.memory.devices = memory_of(*scenario, placement, larger_of(answer.buffers, prompt.buffers));
  r.measured = MeasuredFigures{int(answer.tokens_per_s.size()), {}, {}};
  r.scenario = std::move(scenario);
  return r;
}

}  // namespace rigcast::validation
