#pragma once
// Service level objectives: limits of latency that a share of the requests has to meet.

#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/units.hpp"
#include "core/catalogue/catalogue.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {

/// The latency at `percentile` of all requests, or of all gaps between tokens, is at most `limit`.
struct LatencyLimit {
  Seconds limit;
  double percentile = 95;  // above 0, at most 100: of all
};

struct Slo {
  std::optional<LatencyLimit> ttft;  // from arrival to first token
  std::optional<LatencyLimit> tpot;  // (last - first token) / (tokens - 1) of a request
  std::optional<LatencyLimit> itl;   // each gap between two tokens
  std::optional<LatencyLimit> e2e;   // from arrival to last token

  bool empty() const { return !ttft && !tpot && !itl && !e2e; }
};

/// "ttft=2s@95,tpot=80ms@95": a metric, a duration and its percentile, 95 where none is named.
/// Errors: another metric, one that is there twice, no duration, a percentile outside of (0, 100].
Result<Slo> parse_slo(std::string_view text);
/// Of the file of this name in loads/slo. Errors: there is none; those of the file.
Result<Slo> named_slo(const std::string& name, const Catalogue& catalogue);
/// As parse_slo() takes it.
std::string text(const Slo& slo);

/// The key's text, as of parse_slo() or the name of a file in loads/slo, or its table: { ttft =
/// "2 s", ttft_percentile = 95, ... }. Refuses others.
Slo read_slo(const TomlTable& table, std::string_view key, const Catalogue& catalogue);

}  // namespace rigcast
