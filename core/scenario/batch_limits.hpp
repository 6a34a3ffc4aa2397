#pragma once
// The largest batches that kernels of the project's own engine compute at once, by which engine and
// forecast size buffers, and what of one sequence the engine does not do with several: neither
// executes nor forecasts it.

namespace rigcast {

/// What is refused, and what to do instead.
struct BatchRefusal {
  const char* what;
  const char* hint;
};

inline constexpr BatchRefusal kNoHostShareOfBatches{
    "several sequences at once: the host attends to no cold blocks of theirs",
    "--kv stream, paged or ram"};
inline constexpr BatchRefusal kNoColdTypesOfBatches{
    "several sequences at once: their cold blocks have the cache's own type",
    "the same kv.cold_type and --kv-type"};
inline constexpr BatchRefusal kNoHandoverOfBatches{
    "several sequences at once: prompts and decodes share steps, so the host does not decode what "
    "the GPU has prefilled",
    "leave out --decode-device"};

/// The largest batch that a GPU multiplies with quantized weights directly; for longer ones weights
/// are written out as FP16 first.
inline constexpr int kMaxSmallBatch = 64;

/// Tokens whose experts are computed at once: weights are then read seldom, and rows need little
/// memory. The limit is higher where experts are copied for a batch, because copying takes longer
/// than all else.
inline constexpr int kMaxRoutedTokens = 1024, kMaxRoutedTokensStreamed = 4096;

}  // namespace rigcast
