#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/vocabulary/vocabulary.hpp"

namespace rigcast::engine {

/// The bytes that each token of a checked vocabulary stands for.
class PieceTable {
 public:
  explicit PieceTable(const Vocabulary& vocabulary);

  /// Empty for an id that is outside of the vocabulary.
  std::string_view operator[](TokenId id) const;

 private:
  std::string bytes_;              // bytes of all pieces, contiguous
  std::vector<std::size_t> ends_;  // ends by id; a piece begins at the end of the previous one
};

/// The text with every mark (U+2581) replaced by the space for which it stands.
std::string without_marks(std::string_view text);

}  // namespace rigcast::engine
