#include "engine/tokenizer/vocabulary/vocabulary_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_set>
#include <utility>

namespace rigcast::engine {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

std::optional<Error> check_sizes(const Vocabulary& v) {
  if (v.tokens.empty()) return bad_input("the vocabulary has no tokens");
  if (v.tokens.size() > kMaxTokens)
    return bad_input(fmt::format("the vocabulary has {} tokens; at most {} are read",
                                 v.tokens.size(), kMaxTokens));
  if (v.merges.size() > kMaxMerges)
    return bad_input(fmt::format("the vocabulary has {} merges; at most {} are read",
                                 v.merges.size(), kMaxMerges));
  if (!v.types.empty() && v.types.size() != v.tokens.size())
    return bad_input(fmt::format("the vocabulary has {} tokens and {} token types", v.tokens.size(),
                                 v.types.size()));
  const bool scored = v.kind == VocabularyKind::kSentencePiece;
  if ((scored || !v.scores.empty()) && v.scores.size() != v.tokens.size())
    return bad_input(fmt::format("the vocabulary has {} tokens and {} scores", v.tokens.size(),
                                 v.scores.size()));
  return std::nullopt;
}

std::optional<Error> check_token(const Vocabulary& v, std::size_t i) {
  const std::string& text = v.tokens[i];
  if (text.size() > kMaxTokenLength)
    return bad_input(
        fmt::format("token {} has {} bytes; at most {} are read", i, text.size(), kMaxTokenLength));
  if (!v.types.empty()) {
    const TokenType type = v.types[i];
    if (type < TokenType::kNormal || type > TokenType::kByte)
      return bad_input(fmt::format("token {}, {}, has type {}; types are 1 to 6", i,
                                   in_quotes(text), static_cast<std::int32_t>(type)));
    if (type == TokenType::kByte && !spelt_byte(text))
      return bad_input(
          fmt::format("token {}, {}, is a byte and not spelt like \"<0x0A>\"", i, in_quotes(text)));
  }
  if (v.kind == VocabularyKind::kSentencePiece && !std::isfinite(v.scores[i]))
    return bad_input(
        fmt::format("token {}, {}, has a score that is no number", i, in_quotes(text)));
  return std::nullopt;
}

std::optional<Error> check_tokens(const Vocabulary& v) {
  std::unordered_set<std::string_view> seen;
  seen.reserve(v.tokens.size());
  std::array<bool, 256> byte_seen{};
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    if (auto error = check_token(v, i)) return error;
    const std::string& text = v.tokens[i];
    bytes += text.size();
    if (bytes > kMaxTokenBytes)
      return bad_input(fmt::format("the tokens have more than {} bytes together", kMaxTokenBytes));
    // Files pad their vocabulary with empty tokens: these match nothing and decode to nothing.
    if (!text.empty() && !seen.insert(text).second)
      return bad_input(fmt::format("token {}, {}, is in the vocabulary twice", i, in_quotes(text)));
    if (type_of(v, TokenId(i)) != TokenType::kByte) continue;
    bool& twice = byte_seen[*spelt_byte(text)];
    if (twice)
      return bad_input(fmt::format("token {}, {}, is a byte that another one is too", i, text));
    twice = true;
  }
  return std::nullopt;
}

bool is_foreign(const Vocabulary& v, std::optional<TokenId> id) {
  return id && (*id < 0 || std::size_t(*id) >= v.tokens.size());
}

std::string foreign_text(const Vocabulary& v, const char* name, TokenId id) {
  return fmt::format("the {} token has id {}; the vocabulary has ids 0 to {}", name, id,
                     v.tokens.size() - 1);
}

std::optional<Error> check_id(const Vocabulary& v, const char* name, std::optional<TokenId> id) {
  if (!is_foreign(v, id)) return std::nullopt;
  return bad_input(foreign_text(v, name, *id));
}

}  // namespace

TokenType type_of(const Vocabulary& vocabulary, TokenId id) {
  return vocabulary.types.empty() ? TokenType::kNormal : vocabulary.types[std::size_t(id)];
}

std::optional<unsigned char> spelt_byte(std::string_view text) {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return std::nullopt;
  const int high = hex_digit(text[3]), low = hex_digit(text[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<unsigned char>(high * 16 + low);
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kShown = 48;
  std::string out = "\"";
  for (const char c : text.substr(0, kShown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte >= 0x20 && byte < 0x7F) {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
  }
  return out + (text.size() > kShown ? "...\"" : "\"");
}

std::vector<std::string> drop_foreign_ids(Vocabulary& v) {
  std::vector<std::string> warnings;
  const std::pair<std::optional<TokenId>*, const char*> ids[] = {
      {&v.eot, "end-of-turn"}, {&v.eom, "end-of-message"}, {&v.pad, "padding"}};
  for (const auto& [id, name] : ids) {
    if (v.tokens.empty() || !is_foreign(v, *id)) continue;
    warnings.push_back(foreign_text(v, name, **id) + ": it is not used");
    id->reset();
  }
  return warnings;
}

std::optional<Error> check_vocabulary(const Vocabulary& v) {
  if (auto error = check_sizes(v)) return error;
  if (auto error = check_tokens(v)) return error;
  if (auto error = check_id(v, "BOS", v.bos)) return error;
  if (auto error = check_id(v, "EOS", v.eos)) return error;
  if (auto error = check_id(v, "unknown", v.unknown)) return error;
  if (v.add_bos.value_or(false) && !v.bos)
    return bad_input("a BOS token is to be added and the vocabulary names none");
  if (v.add_eos.value_or(false) && !v.eos)
    return bad_input("an EOS token is to be added and the vocabulary names none");
  return std::nullopt;
}

}  // namespace rigcast::engine
