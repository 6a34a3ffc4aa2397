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
  std::string bytes_;              // of all pieces, one after the other
  std::vector<std::size_t> ends_;  // by id; a piece begins where the one before ends
};

/// With every mark (U+2581) as the space that it stands for.
std::string without_marks(std::string_view text);

}  // namespace rigcast::engine
