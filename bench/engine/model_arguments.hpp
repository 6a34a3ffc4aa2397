#pragma once
// The model of a benchmark, from its first two arguments: MODEL of the catalogue and QUANT.

#include <fmt/core.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "core/catalogue/catalogue.hpp"
#include "core/model/quant_mix.hpp"
#include "core/model/tensor_table.hpp"

namespace rigcast::bench {

struct BenchModel {
  std::string name;
  ModelSpec spec;
  QuantMix mix;
  TensorTable tensors;
};

/// Defaults: llama-3.1-8b and Q4_K_M. nullopt: there is no such model or mix, which is printed.
inline std::optional<BenchModel> model_of_arguments(int argc, char** argv) {
  const char* data = std::getenv("RIGCAST_DATA");  // for a build that was moved to another machine
  const std::string name = argc > 1 ? argv[1] : "llama-3.1-8b";
  auto spec = Catalogue{data ? data : RIGCAST_SOURCE_DIR}.model(name);
  auto mix = QuantMix::from_name(argc > 2 ? argv[2] : "Q4_K_M");
  if (!spec || !mix) {
    fmt::print("{}\n", (!spec ? spec.error() : mix.error()).text());
    return std::nullopt;
  }
  auto tensors = make_tensor_table(*spec, *mix);
  if (!tensors) {
    fmt::print("{}\n", tensors.error().text());
    return std::nullopt;
  }
  return BenchModel{name, *std::move(spec), *std::move(mix), *std::move(tensors)};
}

}  // namespace rigcast::bench
