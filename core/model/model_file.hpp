#pragma once
// A model file as forecasts need it. Who reads such files is not core's business: a catalogue is
// given a reader.

#include <filesystem>
#include <functional>
#include <string>

#include "core/base/error.hpp"
#include "core/base/units.hpp"
#include "core/model/model_spec.hpp"
#include "core/model/tensor_table.hpp"

namespace rigcast {

struct ModelFile {
  ModelSpec spec;
  TensorTable tensors;  // the file's own formats and bytes
  std::string quant;    // the mix that it is closest to, or the format of most of its bytes
};

/// Reads the bytes of a vision projector's tensors.
using ProjectorReader = std::function<Result<Bytes>(const std::filesystem::path&)>;
using ModelFileReader = std::function<Result<ModelFile>(const std::filesystem::path&)>;

}  // namespace rigcast
