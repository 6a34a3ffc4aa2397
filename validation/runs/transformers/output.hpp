#pragma once
// The line that scripts/run_transformers.py prints.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/units.hpp"

namespace rigcast::validation {

struct TransformersVersions {
  std::string python, torch, transformers, cuda;  // empty: not told
};

/// Memory of one device, "cuda" or "cpu".
struct TransformersMemory {
  Bytes weights;
  std::optional<Bytes> kv;  // at the end of a run; absent: of a quantized cache it is not told
  std::optional<Bytes>
      peak;  // of a GPU what torch allocated, of a CPU by how much the process grew
};

struct TransformersOutput {
  TransformersVersions versions;
  std::vector<double> ttft_s, decode_s;  // of every repeat, equally many; all are above 0
  std::vector<double> token_s;           // of the tokens after the first, in the last repeat
  double handover_s = 0;  // of the last repeat's cache to the CPU that decodes; in neither time
  TokenCount prompt = 0, output = 0, depth = 0;
  std::string gpu;  // its name; empty: none was used
  std::string prompt_device, decode_device, attention;
  std::map<std::string, TransformersMemory> memory;

  /// Tokens after the first: `decode_s` is their time.
  TokenCount decoded() const { return output - 1; }
};

/// Reads the line, among whatever else the libraries printed. Errors: kDoesNotFit where memory did
/// not suffice; kBadInput where a package is missing or too old, or the script refuses the model;
/// kMachine where it failed, or where there is no such line, or it is cut or has impossible
/// figures.
Result<TransformersOutput> parse_transformers_output(const std::string& text);

/// The same of `--versions`.
Result<TransformersVersions> parse_transformers_versions(const std::string& text);

}  // namespace rigcast::validation
