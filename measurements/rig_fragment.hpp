#pragma once
// [rig] of a run's scenario: the parts that its source names.
// Every name in it is an id of the catalogue or a word of ours: nothing stated is quoted.

#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "measurements/measurement.hpp"
#include "measurements/name_resolver.hpp"

namespace rigcast {

struct RigFragment {
  std::string toml;
  std::vector<GpuPart> gpus;
  std::string text;
  bool cpu_stated = false;  // and found
  bool ram_known = false;
  bool host_stated = false;  // its CPU or its RAM

  bool unified() const { return !gpus.empty() && gpus.front().unified; }
};
/// The RAM is large enough for a model of `size`: it ran.
Result<RigFragment> rig_fragment(const Measurement& m, Bytes size, NameResolver& resolver);

}  // namespace rigcast
