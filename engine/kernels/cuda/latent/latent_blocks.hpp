#pragma once

namespace rigcast::engine::cuda {

/// Heads that share a read of the latent cache: those of a thread block.
inline constexpr int kLatentHeads = 16;
/// Tokens that a thread block copies and multiplies at once.
inline constexpr int kLatentTile = 32;
inline constexpr int kMaxLatentRank = 512;

}  // namespace rigcast::engine::cuda
