#include "report/trace.hpp"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

namespace rigcast {

std::string track_of(ActivityKind kind, DeviceIndex device) {
  switch (kind) {
    case ActivityKind::kReadFile:
    case ActivityKind::kSwapIn: return "SSD";
    case ActivityKind::kUpload:
    case ActivityKind::kFetchWeights:
    case ActivityKind::kFetchKv: return fmt::format("PCI-E to GPU {}", device);
    case ActivityKind::kStoreKv: return fmt::format("PCI-E from GPU {}", device);
    default: return device == kHost ? "CPU" : fmt::format("GPU {}", device);
  }
}

std::string to_chrome_trace(const std::vector<TraceEvent>& events, std::string_view title) {
  using nlohmann::json;
  json list = json::array();
  std::map<std::string, int> tracks;
  for (const TraceEvent& e : events) tracks.emplace(e.track, 0);
  int next = 1;
  for (auto& [track, id] : tracks) {
    id = next++;
    list.push_back({{"ph", "M"},
                    {"pid", 1},
                    {"tid", id},
                    {"name", "thread_name"},
                    {"args", {{"name", track}}}});
  }
  list.push_back({{"ph", "M"}, {"pid", 1}, {"name", "process_name"}, {"args", {{"name", title}}}});
  for (const TraceEvent& e : events) {
    json args = {{"phase", name(e.phase)}, {"token", e.token}};
    if (e.layer >= 0) args["layer"] = e.layer;
    if (e.bytes > 0) args["bytes"] = e.bytes;
    list.push_back({{"ph", "X"},
                    {"pid", 1},
                    {"tid", tracks.at(e.track)},
                    {"name", name(e.kind)},
                    {"cat", name(e.phase)},
                    {"ts", e.start_s * 1e6},
                    {"dur", (e.finish_s - e.start_s) * 1e6},
                    {"args", std::move(args)}});
  }
  return json{{"traceEvents", std::move(list)}, {"displayTimeUnit", "ms"}}.dump();
}

}  // namespace rigcast
