#pragma once
// Files come from strangers: what the rest of the tokenizer relies on is established here.

#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "engine/tokenizer/vocabulary/vocabulary.hpp"

namespace rigcast::engine {

inline constexpr std::size_t kMostTokens = std::size_t{1} << 22;
inline constexpr std::size_t kMostMerges = std::size_t{1} << 23;
inline constexpr std::size_t kLongestTokenBytes = 4096;
inline constexpr std::size_t kMostTokenBytes = std::size_t{1} << 25;  // of all together

/// Errors: no tokens, too many or too long ones, two of the same text, a type that is none, byte
/// tokens that spell no byte, scores or types that are not one a token, scores that cannot be
/// compared, an id outside of the vocabulary. Merges are BytePair's to check.
std::optional<Error> check_vocabulary(const Vocabulary& vocabulary);

/// Takes out the ids of end of turn, end of message and padding that name no token: text needs none
/// of them. Returns a warning for each.
std::vector<std::string> drop_foreign_ids(Vocabulary& vocabulary);

TokenType type_of(const Vocabulary& vocabulary, TokenId id);

/// The byte that "<0x41>" spells; nothing if the text is not of that form.
std::optional<unsigned char> spelt_byte(std::string_view text);

/// In quotes, with escapes for what a terminal should not see, cut off after a few words.
std::string quoted(std::string_view text);

}  // namespace rigcast::engine
