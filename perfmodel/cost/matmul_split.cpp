#include "perfmodel/cost/matmul_split.hpp"

#include "core/hardware/gpu_architecture.hpp"
#include "perfmodel/cost/kernel_cost.hpp"

namespace rigcast {
namespace {

// True if the backend's kernels turn a batch's weights of a format into floats while they multiply.
bool multiplies_as_floats(const StepContext& s, const GpuPart& gpu, QuantFormat format) {
  if (s.runtime.low_precision) return true;
  const BackendEfficiency& b = s.runtime.backends[std::size_t(s.settings.backend)];
  if (b.int8_units) return false;
  const GpuArchitecture* known = gpu_architecture(gpu.architecture);
  if (gpu.fp16_tensor || !known || !known->int8_dot) return true;
  constexpr int kSmallBlock = 32;
  const double since =
      (info(format).block_elements == kSmallBlock ? b.dots_since : b.dots_256_since).value;
  return since <= 0 || s.settings.build_year.value_or(since) < since;
}

// The rate of the matrix units that multiply a format's own bits, over that of 16 bits; 1: there
// are none.
double rate_of_few_bits(const GpuPart& gpu, QuantFormat format) {
  const GpuArchitecture* known = gpu_architecture(gpu.architecture);
  if (!known || !gpu.fp16_tensor) return 1;
  if (format == QuantFormat::kFP8 && known->fp8_units) return 2;
  if (format == QuantFormat::kINT8 && known->int8_units) return 2;
  return format == QuantFormat::kNVFP4 && known->fp4_units ? 4 : 1;
}

// Elements of a server's format as so many of 16 bits that take as long: multiplied by units of
// their own, or by kernels that turn them into 16 bits.
double as_16_bits(const StepContext& s, const GpuPart& gpu, const OpTraffic& t, QuantFormat format,
                  double elements) {
  const BatchEfficiency& batch = s.runtime.batch;
  const double rate = rate_of_few_bits(gpu, format);
  if (rate > 1) return elements / (rate * batch.low_precision.value);
  const double kernel = t.routed ? batch.packed_experts.value / batch.experts.value : 1.0;
  return elements / (s.runtime.format(format).batch.value * kernel);
}

// The factor on the rate of one format's tiles in the build that is forecast.
double tiles_before(const StepContext& s, const GpuPart& gpu, QuantFormat format) {
  return s.runtime.factor_before(
      ChangedFigure::kTiles, {s.settings.backend, gpu.architecture, format}, s.settings.build_year);
}

}  // namespace

MatmulSplit split_matmul(const StepContext& s, const GpuPart& gpu, const OpTraffic& t) {
  MatmulSplit m;
  double all = 0;
  for (std::size_t f = 0; f < t.weight_bytes_by_format.size(); ++f) {
    const auto format = QuantFormat(f);
    const double bytes = t.weight_bytes_by_format[f];
    if (bytes <= 0) continue;  // of most formats there are none
    const double elements = bytes * 8.0 / info(format).bits_per_weight();
    const double scaled = elements / s.runtime.format(format).batch.value;
    all += elements;
    if (format_group(format) == FormatGroup::kFloat) {
      m.floats += elements;
      m.floats_scaled += scaled;
    } else {
      const bool as_floats = multiplies_as_floats(s, gpu, format);
      (as_floats ? m.as_floats : m.quants) +=
          s.runtime.low_precision ? as_16_bits(s, gpu, t, format, elements) : elements;
      if (!as_floats) m.quants_scaled += scaled / tiles_before(s, gpu, format);
      m.elements += elements;
      m.quant_bytes += bytes;
    }
  }
  if (all <= 0) return {};
  m.floats /= all;
  m.floats_scaled /= all;
  m.quants /= all;
  m.quants_scaled /= all;
  m.as_floats /= all;
  return m;
}

}  // namespace rigcast
