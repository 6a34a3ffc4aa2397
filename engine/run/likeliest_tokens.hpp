#pragma once
// The likeliest tokens of a vocabulary's logits.

#include <bit>
#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace rigcast::engine {

/// A token and its logit in one number, which sorts faster than ids whose logits are looked up. The
/// likelier token is the smaller one, of equal logits the one with the lower id. What is not a
/// number counts as negative infinity.
class RankedToken {
 public:
  RankedToken(float logit, std::int32_t id)
      : bits_(std::uint64_t(~ascending(logit)) << 32 | std::uint32_t(id)) {}

  std::int32_t id() const { return std::int32_t(std::uint32_t(bits_)); }
  float logit() const {
    const auto ascending = ~std::uint32_t(bits_ >> 32);
    return std::bit_cast<float>(ascending & kSign ? ascending ^ kSign : ~ascending);
  }
  auto operator<=>(const RankedToken&) const = default;

 private:
  static constexpr std::uint32_t kSign = 1u << 31;
  // Bits that ascend as the logits do; zeros of either sign are equal.
  static std::uint32_t ascending(float logit) {
    const float number = std::isnan(logit) ? -std::numeric_limits<float>::infinity() : logit + 0.0f;
    const auto bits = std::bit_cast<std::uint32_t>(number);
    return bits & kSign ? ~bits : bits | kSign;
  }

  std::uint64_t bits_;
};

bool any_nan(std::span<const float> logits);

/// The id of the largest logit; the lowest of equal ones. NaN never wins.
std::int32_t argmax_token(std::span<const float> logits);

/// Tokens that may be among the `wanted` likeliest of these, in the order of their ids, from
/// `first_id` on: these at least, and few more where a small part is wanted.
std::vector<RankedToken> candidates_of(std::span<const float> logits, std::size_t wanted,
                                       std::int32_t first_id = 0);

/// The `count` likeliest tokens come first, sorted.
void sort_likeliest(std::size_t count, std::span<RankedToken> tokens);

}  // namespace rigcast::engine
