#pragma once
// What changed when: figures that builds of before a date had otherwise.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/sourced.hpp"
#include "core/model/quant_format.hpp"
#include "core/runtime/backend.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {

/// Figures of a profile that changed from one build to another.
enum class ChangedFigure {
  kLaunch,        // launch overhead of all kernels
  kMoeKernels,    // launches of a MoE layer
  kNormKernels,   // launches of a norm
  kTiles,         // rate of quantized tiles
  kExperts,       // rate of the products of a batch's experts
  kAttention,     // rate of a batch's attention on a GPU
  kKvCycles,      // cycles of a GPU's unit for one token's attention
  kCpuAttention,  // rate of a batch's attention on the CPU
};
std::string_view name(ChangedFigure figure);

/// One change of one figure, by a commit with a date.
struct DatedChange {
  std::string id;
  ChangedFigure figure = ChangedFigure::kLaunch;
  std::optional<Backend> backend;          // absent: of all
  std::vector<std::string> architectures;  // of GPUs; empty: all
  std::vector<QuantFormat> formats;        // of weights; empty: all
  Sourced<double> since;                   // year of the first builds with it; 2024.5 is July 2024
  Sourced<double> before;                  // factor on the figure in builds of before
};

/// The tables of `table`, each a change under its id. Errors land in the table's document.
std::vector<DatedChange> read_changes(const TomlTable& table);

/// The kernels that a change may apply to.
struct KernelOwner {
  std::optional<Backend> backend;   // absent: the CPU's
  std::string_view architecture{};  // of the GPU; empty: of none
  std::optional<QuantFormat>
      format{};  // changes of that format alone; absent: those of all formats
};

/// The factor on `figure` in a build of `year`, or of today: the product of all later changes.
double factor_before(const std::vector<DatedChange>& changes, ChangedFigure figure,
                     const KernelOwner& of, std::optional<double> year);

}  // namespace rigcast
