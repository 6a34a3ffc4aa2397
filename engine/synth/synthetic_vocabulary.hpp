#pragma once
// A vocabulary for files of random weights: any text can be cut into its tokens.

#include <cstdint>

#include "engine/gguf/header.hpp"

namespace rigcast::engine {

/// The fewest tokens that a vocabulary needs: the unknown one, a beginning, two ends and all bytes.
inline constexpr std::int64_t kFewestTokens = 4 + 256;

/// Adds a SentencePiece vocabulary of `size` tokens (of kFewestTokens or more): those above, then
/// printable characters, then words of a, b, ... zz, aaa, ..., inside a word and at its beginning.
/// Shorter words have better scores. It is none of a publisher's.
void set_synthetic_vocabulary(GgufHeader& header, std::int64_t size);

}  // namespace rigcast::engine
