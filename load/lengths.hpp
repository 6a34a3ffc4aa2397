#pragma once
// Random numbers of a load, and lengths that are drawn with them. Boost's engines and distributions
// give the same numbers wherever they are compiled, which those of the standard library do not.

#include <boost/random/mersenne_twister.hpp>
#include <functional>

#include "core/scenario/length_distribution.hpp"

namespace rigcast {

using Random = boost::random::mt19937_64;

/// A draw of a number of tokens, at least 1 and at most kMaxLength.
using DrawLength = std::function<TokenCount(Random&)>;

DrawLength draw_from(const LengthDistribution& lengths);

}  // namespace rigcast
