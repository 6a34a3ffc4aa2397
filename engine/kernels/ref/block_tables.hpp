#pragma once
// Values of 4-bit codes that are not evenly spaced.

#include <array>
#include <cstdint>

namespace rigcast::engine::ref {

/// IQ4_NL and IQ4_XS: denser around 0.
inline constexpr std::array<std::int8_t, 16> kNonLinear4 = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// MXFP4: twice the value of E2M1, so that all are integers.
inline constexpr std::array<std::int8_t, 16> kTwiceE2M1 = {0, 1,  2,  3,  4,  6,  8,  12,
                                                           0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace rigcast::engine::ref
