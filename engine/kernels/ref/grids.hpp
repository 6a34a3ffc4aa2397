#pragma once
// Grids of IQ1, IQ2 and IQ3: an index stands for a point of eight or four values.

#include <cstddef>
#include <cstdint>

namespace rigcast::engine::ref {

#include "engine/kernels/ref/grid_points.inc"

/// Points of a grid, a byte for each value, the first value in the lowest byte.
template <class Word, std::size_t kPoints>
struct Grid {
  Word at[kPoints];
};

/// Replaces the codes of `kBits` bits with the levels that they stand for.
template <class Word, int kBits, std::size_t kPoints, std::size_t kLevels>
constexpr Grid<Word, kPoints> with_levels(const std::uint16_t (&points)[kPoints],
                                          const std::uint8_t (&levels)[kLevels]) {
  Grid<Word, kPoints> grid{};
  for (std::size_t i = 0; i < kPoints; ++i)
    for (int k = 0; k < int(sizeof(Word)); ++k)
      grid.at[i] |= Word(levels[points[i] >> (kBits * k) & ((1 << kBits) - 1)]) << (8 * k);
  return grid;
}

inline constexpr std::uint8_t kIq2Levels[] = {8, 25, 43};
inline constexpr std::uint8_t kIq3XxsLevels[] = {4, 12, 20, 28, 36, 44, 52, 62};
inline constexpr std::uint8_t kIq3SLevels[] = {1, 3, 5, 7, 9, 11, 13, 15};
/// Eighths, from -1 on: a point's values are -1, 0 and 1.
inline constexpr std::uint8_t kIq1Levels[] = {0, 8, 16};

inline constexpr auto kIq2XxsGrid = with_levels<std::uint64_t, 2>(kIq2XxsPoints, kIq2Levels);
inline constexpr auto kIq2XsGrid = with_levels<std::uint64_t, 2>(kIq2XsPoints, kIq2Levels);
inline constexpr auto kIq2SGrid = with_levels<std::uint64_t, 2>(kIq2SPoints, kIq2Levels);
inline constexpr auto kIq3XxsGrid = with_levels<std::uint32_t, 3>(kIq3XxsPoints, kIq3XxsLevels);
inline constexpr auto kIq3SGrid = with_levels<std::uint32_t, 3>(kIq3SPoints, kIq3SLevels);
inline constexpr auto kIq1Grid = with_levels<std::uint64_t, 2>(kIq1Points, kIq1Levels);

}  // namespace rigcast::engine::ref
