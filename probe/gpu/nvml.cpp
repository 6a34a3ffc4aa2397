#include "probe/gpu/nvml.hpp"

namespace rigcast::probe {
namespace {

// The library's interface as documented in its manual, because not every toolkit has its header.
using Status = int;  // 0: success
struct MemoryInfo {
  unsigned long long total, free, used;
};
using Plain = Status();
using DeviceByBusId = Status(const char*, void**);
using MemoryOf = Status(void*, MemoryInfo*);
using NumberOf = Status(void*, unsigned*);

}  // namespace

Nvml::Nvml() : library_{"libnvidia-ml.so.1", "libnvidia-ml.so"} {
  auto* start = library_.function<Plain>("nvmlInit_v2");
  ready_ = start && start() == 0;
}

Nvml::~Nvml() {
  if (auto* stop = library_.function<Plain>("nvmlShutdown"); ready_ && stop) stop();
}

void* Nvml::device(const std::string& bus_id) const {
  auto* find = library_.function<DeviceByBusId>("nvmlDeviceGetHandleByPciBusId_v2");
  void* handle = nullptr;
  return ready_ && find && find(bus_id.c_str(), &handle) == 0 ? handle : nullptr;
}

std::optional<Nvml::Memory> Nvml::memory(const std::string& bus_id) const {
  auto* ask = library_.function<MemoryOf>("nvmlDeviceGetMemoryInfo");
  void* const handle = device(bus_id);
  MemoryInfo info{};
  if (!handle || !ask || ask(handle, &info) != 0) return std::nullopt;
  return Memory{Bytes{double(info.total)}, Bytes{double(info.used)}};
}

GpuLink Nvml::link(const std::string& bus_id) const {
  void* const handle = device(bus_id);
  if (!handle) return {};
  const auto ask = [&](const char* name) {
    auto* number = library_.function<NumberOf>(name);
    unsigned value = 0;
    return number && number(handle, &value) == 0 ? int(value) : 0;
  };
  GpuLink link;
  link.now = {ask("nvmlDeviceGetCurrPcieLinkGeneration"), ask("nvmlDeviceGetCurrPcieLinkWidth")};
  link.card = {ask("nvmlDeviceGetGpuMaxPcieLinkGeneration"), ask("nvmlDeviceGetMaxPcieLinkWidth")};
  return link;
}

}  // namespace rigcast::probe
