#pragma once
// The largest batches that kernels of the project's own engine compute at once. Engine and forecast
// size buffers by them.

namespace rigcast {

/// The largest batch that a GPU multiplies with quantized weights directly; for longer ones weights
/// are written out as FP16 first.
inline constexpr int kMaxSmallBatch = 64;

/// Tokens whose experts are computed at once: weights are then read seldom, and rows need little
/// memory. The limit is higher where experts are copied for a batch, because copying takes longer
/// than all else.
inline constexpr int kMaxRoutedTokens = 1024, kMaxRoutedTokensStreamed = 4096;

}  // namespace rigcast
