#pragma once
// A vocabulary as a model file states it, unchecked: Tokenizer::make checks it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rigcast::engine {

using TokenId = std::int32_t;

enum class VocabularyKind {
  kSentencePiece,  // tokenizer.ggml.model "llama": scores say which pair merges first
  kBytePair,       // tokenizer.ggml.model "gpt2": ranked merges say so
  kCharacterPair,  // "gemma4": so do they, of characters, and spaces are written as U+2581
};

/// Types with the numbers of tokenizer.ggml.token_type; a file's number may be none of these.
enum class TokenType : std::int32_t {
  kNormal = 1,
  kUnknown = 2,      // stands for text without a token
  kControl = 3,      // never part of what a user wrote
  kUserDefined = 4,  // one token wherever its text occurs
  kUnused = 5,       // never results from encoding
  kByte = 6,         // spelt <0x00> to <0xFF>
};

struct Vocabulary {
  VocabularyKind kind = VocabularyKind::kSentencePiece;
  std::vector<std::string> tokens;  // by id
  std::vector<float> scores;        // by id; only SentencePiece has them
  std::vector<TokenType> types;     // by id; empty: all are normal
  std::vector<std::string> merges;  // "left right", first to merge first; only pairs have them
  std::string pre_tokenizer;        // tokenizer.ggml.pre; only byte pairs have one

  std::optional<TokenId> bos, eos, eot, eom, unknown, pad;

  // Values that a file does not state have defaults that depend on the kind and the pre-tokenizer.
  std::optional<bool> add_bos, add_eos, add_space_prefix;
};

}  // namespace rigcast::engine
