#pragma once
// Checks of vocabularies, because files may be malicious: they establish what the rest of the
// tokenizer relies on.

#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "engine/tokenizer/vocabulary/vocabulary.hpp"

namespace rigcast::engine {

inline constexpr std::size_t kMaxTokens = std::size_t{1} << 22;
inline constexpr std::size_t kMaxMerges = std::size_t{1} << 23;
inline constexpr std::size_t kMaxTokenLength = 4096;
inline constexpr std::size_t kMaxTokenBytes = std::size_t{1} << 25;  // bytes of all tokens together

/// Checks a vocabulary. Errors: no tokens, too many or too long ones, two with the same text, an
/// invalid type, byte tokens that spell no byte, a number of scores or types other than the number
/// of tokens, scores that are NaN, an id outside of the vocabulary. BytePair checks merges.
std::optional<Error> check_vocabulary(const Vocabulary& vocabulary);

/// Removes the ids of end of turn, end of message and padding if they name no token: text does not
/// need them. Returns a warning for each.
std::vector<std::string> drop_foreign_ids(Vocabulary& vocabulary);

TokenType type_of(const Vocabulary& vocabulary, TokenId id);

/// The byte that "<0x41>" spells; nothing if the text is not of that form.
std::optional<unsigned char> spelt_byte(std::string_view text);

/// The text in quotes, shortened, with escapes for characters that a terminal should not receive.
std::string in_quotes(std::string_view text);

}  // namespace rigcast::engine
