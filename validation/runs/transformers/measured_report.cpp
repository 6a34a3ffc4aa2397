#include "validation/runs/transformers/measured_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/base/quantile.hpp"

namespace rigcast::validation {
namespace {

// Speeds of `tokens` in the least and the most of these times.
std::optional<Interval> speeds(TokenCount tokens, const std::vector<double>& seconds) {
  if (seconds.size() < 2) return std::nullopt;
  const auto [least, most] = std::ranges::minmax_element(seconds);
  return Interval{double(tokens) / *most, double(tokens) / *least};
}

void add_parts(DeviceMemory& device, const TransformersMemory& m) {
  device.weights = m.weights;
  device.kv = m.kv.value_or(Bytes{});
  if (m.peak) device.activations = std::max(Bytes{}, *m.peak - device.weights - device.kv);
}

std::vector<DeviceMemory> memory_of(const Scenario& s, const TransformersOutput& measured) {
  std::vector<DeviceMemory> devices;
  const auto add = [&](std::string name, Tier tier, Bytes capacity) -> DeviceMemory& {
    DeviceMemory& device = devices.emplace_back();
    device.device = std::move(name);
    device.tier = tier;
    device.capacity = capacity;
    return device;
  };
  for (const auto& [device, memory] : measured.memory)
    if (!memory.kv) return devices;
  for (std::size_t g = 0; g < s.rig.gpus.size(); ++g) {
    DeviceMemory& gpu = add("GPU " + std::to_string(g), Tier::kVram, s.rig.gpus[g].memory.value);
    if (const auto found = measured.memory.find("cuda"); g == 0 && found != measured.memory.end())
      add_parts(gpu, found->second);
  }
  // Of a CPU that decodes after a GPU's prompt, the buffers are not told: its sum would be short.
  DeviceMemory& host = add("host", Tier::kRam, s.rig.ram.capacity.value);
  if (const auto found = measured.memory.find("cpu");
      measured.decode_device == measured.prompt_device && found != measured.memory.end())
    add_parts(host, found->second);
  return devices;
}

std::vector<std::string> notes(const TransformersOutput& measured) {
  const TransformersVersions& v = measured.versions;
  std::vector<std::string> out{fmt::format("transformers {}, torch {}, CUDA {}, attention {}",
                                           v.transformers, v.torch,
                                           v.cuda.empty() ? "none" : v.cuda, measured.attention)};
  if (measured.decode_device != measured.prompt_device)
    out.push_back(
        fmt::format("the copy of the cache to the CPU took {:.3f} s, between the first "
                    "token and the second: no figure includes it",
                    measured.handover_s));
  return out;
}

}  // namespace

Report measured_report(std::shared_ptr<const Scenario> scenario, const Placement& placement,
                       const TransformersOutput& measured) {
  const double ttft = median(measured.ttft_s), decode = median(measured.decode_s);
  Report r;
  r.origin = Origin::kMeasured;
  r.placement = placement;
  r.prefill_tokens_per_s = double(measured.prompt) / ttft;
  r.prefill_interval = speeds(measured.prompt, measured.ttft_s);
  r.decode_tokens_per_s = double(measured.decoded()) / decode;
  r.tokens_per_s_interval = speeds(measured.decoded(), measured.decode_s);
  r.tpot.mean = Seconds{decode / double(measured.decoded())};
  r.resident = TtftBreakdown{};
  r.resident->prefill = Seconds{ttft};
  r.memory.devices = memory_of(*scenario, measured);
  r.measured = MeasuredFigures{int(measured.ttft_s.size()), {}, {}, measured.token_s};
  r.warnings = notes(measured);
  r.scenario = std::move(scenario);
  return r;
}

}  // namespace rigcast::validation
