#include "engine/tokenizer/tokenizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "engine/tokenizer/byte_pair.hpp"
#include "engine/tokenizer/piece_table.hpp"
#include "engine/tokenizer/sentence_piece.hpp"
#include "engine/tokenizer/text/pretokenizer.hpp"
#include "engine/tokenizer/vocabulary/special_tokens.hpp"
#include "engine/tokenizer/vocabulary/vocabulary_check.hpp"

namespace rigcast::engine {

struct Tokenizer::Parts {
  explicit Parts(Vocabulary v) : vocabulary(std::move(v)), pieces(vocabulary) {}

  Vocabulary vocabulary;
  PieceTable pieces;
  SpecialTokens user_defined;
  SpecialTokens all_special;  // user-defined, control and unknown
  std::set<TokenId> ends;     // tokens that end generation
  // Exactly one of these is present.
  std::optional<SentencePiece> sentence_piece;
  std::optional<BytePair> byte_pair;
  bool add_bos = false, add_eos = false, add_space_prefix = false;
  std::vector<std::string> warnings;

  void find_special();
  void find_ends();
  void resolve_defaults(bool bos, bool space_prefix);
  void warn_of_losses(bool may_lose_text);
  std::optional<Error> make_byte_pair();
  void make_sentence_piece();
  void encode_text(std::string_view text, bool space_due, std::vector<TokenId>& ids) const;
};

void Tokenizer::Parts::find_special() {
  std::vector<std::pair<std::string_view, TokenId>> own, all;
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const auto id = TokenId(i);
    // The text of a token as users write it: a user-defined token of SentencePiece has marks for
    // its spaces.
    const std::string_view text = pieces[id];
    switch (type_of(vocabulary, id)) {
      case TokenType::kUserDefined: own.emplace_back(text, id); [[fallthrough]];
      case TokenType::kControl:
      case TokenType::kUnknown: all.emplace_back(text, id); break;
      default: break;
    }
  }
  user_defined = SpecialTokens(own);
  all_special = SpecialTokens(all);
}

// Finds tokens that end an answer. Files often do not name those of their chat template; these
// texts are the ones at which llama.cpp stops, too.
void Tokenizer::Parts::find_ends() {
  constexpr std::string_view kEnds[] = {"<|eot_id|>",
                                        "<|im_end|>",
                                        "<|end|>",
                                        "<|return|>",
                                        "<|call|>",
                                        "<|flush|>",
                                        "<|calls|>",
                                        "<end_of_turn>",
                                        "</s>",
                                        "<|endoftext|>",
                                        "<|eom_id|>",
                                        "<EOT>",
                                        "_<EOT>",
                                        "[EOT]",
                                        "[EOS]",
                                        "<|end_of_text|>",
                                        "<end_of_utterance>",
                                        "<eos>",
                                        "<turn|>",
                                        "<|tool_response>",
                                        "[e~[",
                                        "<｜end▁of▁sentence｜>"};
  for (const auto id : {vocabulary.eos, vocabulary.eot, vocabulary.eom})
    if (id) ends.insert(*id);
  bool returns = false, calls = false;
  std::optional<TokenId> end_of_message;
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const auto id = TokenId(i);
    const TokenType type = type_of(vocabulary, id);
    if (type != TokenType::kControl && type != TokenType::kUserDefined) continue;
    const std::string_view text = vocabulary.tokens[i];
    if (std::ranges::find(kEnds, text) == std::end(kEnds)) continue;
    ends.insert(id);
    returns = returns || text == "<|return|>";
    calls = calls || text == "<|call|>";
    if (text == "<|end|>") end_of_message = id;
  }
  // In Harmony, which has all three tokens, an answer continues after the end of a message.
  if (returns && calls && end_of_message && end_of_message != vocabulary.eos)
    ends.erase(*end_of_message);
}

void Tokenizer::Parts::resolve_defaults(bool bos, bool space_prefix) {
  add_bos = vocabulary.add_bos.value_or(bos && vocabulary.bos);
  add_eos = vocabulary.add_eos.value_or(false);
  add_space_prefix = space_prefix;
}

void Tokenizer::Parts::warn_of_losses(bool may_lose_text) {
  if (may_lose_text)
    warnings.push_back(
        "the vocabulary has neither a token for every byte nor an unknown token: text that it "
        "cannot spell is left out");
}

std::optional<Error> Tokenizer::Parts::make_byte_pair() {
  Pretokenizer pretokenizer = Pretokenizer::named(vocabulary.pre_tokenizer);
  if (!pretokenizer.is_known())
    warnings.push_back(
        fmt::format("{}: text is cut into words as GPT-2 does, and some tokens will differ from "
                    "those that the model was trained with",
                    vocabulary.pre_tokenizer.empty()
                        ? "the vocabulary names no pre-tokenizer"
                        : "unknown pre-tokenizer " + in_quotes(vocabulary.pre_tokenizer)));
  resolve_defaults(pretokenizer.adds_bos(), false);
  auto made = BytePair::make(vocabulary, std::move(pretokenizer));
  if (!made) return made.error();
  byte_pair = std::move(*made);
  if (byte_pair->merges_left_out() > 0)
    warnings.push_back(fmt::format("{} merges are of tokens that are not normal and are left out",
                                   byte_pair->merges_left_out()));
  warn_of_losses(byte_pair->may_lose_text());
  return std::nullopt;
}

void Tokenizer::Parts::make_sentence_piece() {
  resolve_defaults(true, vocabulary.add_space_prefix.value_or(true));
  sentence_piece.emplace(vocabulary);
  warn_of_losses(sentence_piece->may_lose_text());
}

void Tokenizer::Parts::encode_text(std::string_view text, bool space_due,
                                   std::vector<TokenId>& ids) const {
  if (byte_pair) {
    byte_pair->encode(text, ids);
  } else if (space_due) {
    sentence_piece->encode(" " + std::string(text), ids);
  } else {
    sentence_piece->encode(text, ids);
  }
}

Result<Tokenizer> Tokenizer::make(Vocabulary vocabulary) {
  std::vector<std::string> warnings = drop_foreign_ids(vocabulary);
  if (auto error = check_vocabulary(vocabulary)) return *error;
  const auto parts = std::make_shared<Parts>(std::move(vocabulary));
  parts->warnings = std::move(warnings);
  parts->find_special();
  parts->find_ends();
  if (parts->vocabulary.kind == VocabularyKind::kSentencePiece) {
    parts->make_sentence_piece();
  } else if (auto error = parts->make_byte_pair()) {
    return *error;
  }
  return Tokenizer(parts);
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  const Parts& p = *parts_;
  const SpecialTokens& special = options.parse_special ? p.all_special : p.user_defined;
  std::vector<TokenId> ids;
  if (options.add_special && p.add_bos) ids.push_back(*p.vocabulary.bos);
  bool space_due = p.add_space_prefix && !options.continues;
  std::size_t done = 0;
  for (const auto& found : special.find_all(text)) {
    const std::string_view before = text.substr(done, found.begin - done);
    const bool control = is_control(found.id);
    // A user-defined token is text: the space comes before it. A control token is not.
    if (!before.empty() || (!control && space_due)) {
      p.encode_text(before, space_due, ids);
      space_due = false;
    }
    ids.push_back(found.id);
    if (control) space_due = p.add_space_prefix;
    done = found.begin + found.length;
  }
  if (done < text.size()) p.encode_text(text.substr(done), space_due, ids);
  if (options.add_special && p.add_eos) ids.push_back(*p.vocabulary.eos);
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, DecodeOptions options) const {
  bool drop_space = adds_space_prefix() && !options.continues;
  std::string text;
  for (const TokenId id : ids) text += next_text(id, drop_space, options);
  return text;
}

std::string_view Tokenizer::next_text(TokenId id, bool& drop_space,
                                      const DecodeOptions& options) const {
  std::string_view text = piece(id);
  if (is_control(id)) {
    drop_space = adds_space_prefix();
    return options.special ? text : std::string_view();
  }
  if (drop_space && !text.empty()) {
    if (text.front() == ' ') text.remove_prefix(1);
    drop_space = false;
  }
  return text;
}

std::string_view Tokenizer::piece(TokenId id) const { return parts_->pieces[id]; }

std::optional<TokenId> Tokenizer::special_token(std::string_view text) const {
  for (TokenId id = 0; std::size_t(id) < size(); ++id) {
    if (piece(id) != text) continue;
    const TokenType type = type_of(parts_->vocabulary, id);
    if (type == TokenType::kControl || type == TokenType::kUserDefined) return id;
  }
  return std::nullopt;
}

bool Tokenizer::is_control(TokenId id) const {
  return id >= 0 && std::size_t(id) < size() &&
         type_of(parts_->vocabulary, id) == TokenType::kControl;
}

bool Tokenizer::ends_generation(TokenId id) const { return parts_->ends.contains(id); }

std::size_t Tokenizer::size() const { return parts_->vocabulary.tokens.size(); }
VocabularyKind Tokenizer::kind() const { return parts_->vocabulary.kind; }
std::optional<TokenId> Tokenizer::bos() const { return parts_->vocabulary.bos; }
std::optional<TokenId> Tokenizer::eos() const { return parts_->vocabulary.eos; }
std::optional<TokenId> Tokenizer::eot() const { return parts_->vocabulary.eot; }
std::optional<TokenId> Tokenizer::unknown() const { return parts_->vocabulary.unknown; }
std::optional<TokenId> Tokenizer::pad() const { return parts_->vocabulary.pad; }
bool Tokenizer::adds_bos() const { return parts_->add_bos; }
bool Tokenizer::adds_space_prefix() const { return parts_->add_space_prefix; }
const std::vector<std::string>& Tokenizer::warnings() const { return parts_->warnings; }

}  // namespace rigcast::engine
