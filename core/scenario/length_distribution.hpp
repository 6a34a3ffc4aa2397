#pragma once
// How many tokens the prompts and the answers of a load have.

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/sourced.hpp"
#include "core/base/units.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {

inline constexpr TokenCount kMaxLength = 1 << 30;  // tokens of one prompt or answer

struct FixedLength {
  TokenCount tokens = 1;
};

/// Every number of tokens from `min` to `max` is as likely.
struct UniformLength {
  TokenCount min = 1, max = 1;
};

/// The logarithm of the tokens is normal.
struct LognormalLength {
  double median = 1;  // tokens
  double sigma = 0;   // of the logarithm
};

/// Lengths that were seen, with their weights; above 0 in sum.
struct HistogramLength {
  std::vector<std::pair<TokenCount, double>> bins;  // tokens, weight
};

using LengthDistribution =
    std::variant<FixedLength, UniformLength, LognormalLength, HistogramLength>;

/// Prompts and answers that go together, with their weights; above 0 in sum.
struct JointLengths {
  struct Bin {
    TokenCount prompt = 1, output = 1;
    double weight = 0;
  };
  std::vector<Bin> bins;

  [[nodiscard]] HistogramLength prompts() const;
  [[nodiscard]] HistogramLength outputs() const;
};

/// Of the distribution, before anything is rounded or cut to a context.
double mean_tokens(const LengthDistribution& lengths);

/// The lognormal distribution with these quantiles, in tokens. Requires 1 <= median <= p90.
LognormalLength lognormal_length(double median, double p90);

/// A number, { min, max }, { median, p90 } or { histogram = [[tokens, weight], ...] }; a table may
/// state its kind and source. Refuses others, and gives a fixed length of 1 for them.
Sourced<LengthDistribution> read_lengths(const TomlTable& table, std::string_view key,
                                         const FigureDefaults& from);

/// [[prompt, answer, weight], ...] in tokens. Refuses others, and gives lengths of 1 for them.
JointLengths read_joint_lengths(const TomlTable& table, std::string_view key);

}  // namespace rigcast
