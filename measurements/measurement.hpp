#pragma once
// One figure of one run of a real machine, as its source states it: nothing is resolved yet.

#include <optional>
#include <string>
#include <string_view>

#include "core/base/metrics.hpp"
#include "core/base/units.hpp"

namespace rigcast {

enum class Metric {
  kTg,    // tokens generated per second
  kPp,    // prompt tokens processed per second
  kTtft,  // seconds to the first token
  kLoad,  // seconds to load the model
  kVram,  // GB of GPU memory
};
/// "tg_tps", "pp_tps", "ttft_s", "load_s", "vram_gb".
std::string_view name(Metric metric);
std::optional<Metric> metric_from(std::string_view name);
/// nullopt: it is no speed.
std::optional<SpeedMetric> speed_metric(Metric metric);

struct Measurement {
  std::string id;
  std::string source;
  std::string date;  // "YYYY-MM-DD", or its beginning
  std::string tool;
  std::string build;
  std::string gpu;  // "none" or empty: CPU only
  int gpu_count = 0;
  std::string cpu;
  std::string ram_type;
  std::optional<BytesPerSecond> ram_bandwidth;
  std::string pcie;
  std::string os;
  std::string model;
  std::optional<double> params_b;
  std::string quant;
  std::optional<Bytes> size;      // of the model file
  std::optional<int> gpu_layers;  // nullopt: not stated
  std::optional<int> layers;
  std::optional<int> cpu_moe_layers;     // first layers, as --n-cpu-moe counts them
  std::optional<int> ram_expert_layers;  // layers whose experts are in RAM, dense ones not counted
  std::string kv_location;               // "gpu", "cpu", "split" or not stated
  std::string type_k;
  std::string type_v;
  std::optional<bool> flash_attention;
  std::optional<int> threads;
  std::optional<int> batch;
  std::optional<int> ubatch;
  TokenCount depth = 0;
  TokenCount prompt = 0;
  TokenCount generated = 0;
  Metric metric = Metric::kTg;
  double value = 0;
  std::optional<double> stdev;
  std::string notes;
  int line = 0;

  /// Whoever collected it found a reason not to trust it.
  bool doubtful() const {
    return notes.find("SUSPECT") != std::string::npos || notes.find("CAUTION") != std::string::npos;
  }
};

}  // namespace rigcast
