#pragma once
// [model] of a run's scenario: which model, which mix, and the file's size where no mix gives it.
// Every name in it is an id of the catalogue or a word of ours: nothing stated is quoted.

#include <memory>
#include <string>

#include "core/base/error.hpp"
#include "measurements/measurement.hpp"
#include "measurements/name_resolver.hpp"
#include "measurements/parsed_notes.hpp"

namespace rigcast {

struct ModelFragment {
  std::string toml;
  std::shared_ptr<const ModelSpec> spec;
  Bytes size;  // of the tensors
};
Result<ModelFragment> model_fragment(const Measurement& m, const ParsedNotes& parsed_notes,
                                     NameResolver& resolver);

}  // namespace rigcast
