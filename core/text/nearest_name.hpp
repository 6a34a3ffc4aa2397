#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rigcast {

/// Names close to `wanted` by edit distance, nearest first, at most `most`; empty if none is near.
std::vector<std::string> nearest_names(std::string_view wanted, std::span<const std::string> known,
                                       std::size_t most = 3);

/// "did you mean a, b?", or an empty text.
std::string did_you_mean(std::string_view wanted, std::span<const std::string> known);

/// Lower case, with every run of other than letters, digits and dots as one hyphen.
std::string as_id(std::string_view text);

}  // namespace rigcast
