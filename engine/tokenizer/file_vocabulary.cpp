#include "engine/tokenizer/file_vocabulary.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

namespace rigcast::engine {
namespace {

class VocabularyReader {
 public:
  explicit VocabularyReader(const GgufFile& file) : file_(file) {}

  Result<Vocabulary> read() && {
    read_kind();
    for (const std::string_view text : texts("tokens")) v_.tokens.emplace_back(text);
    for (const std::string_view text : texts("merges")) v_.merges.emplace_back(text);
    for (const double score : numbers("scores")) v_.scores.push_back(float(score));
    for (const std::int64_t type : integers("token_type")) v_.types.push_back(type_of(type));
    if (const Value* pre = find("pre")) v_.pre_tokenizer = pre->text().value_or("");
    if (v_.kind == VocabularyKind::kCharacterPair) v_.pre_tokenizer = "gemma4";
    v_.bos = id("bos_token_id");
    v_.eos = id("eos_token_id");
    v_.eot = id_or_none("eot_token_id");
    v_.eom = id_or_none("eom_token_id");
    v_.unknown = id("unknown_token_id");
    v_.pad = id_or_none("padding_token_id");
    v_.add_bos = flag("add_bos_token");
    v_.add_eos = flag("add_eos_token");
    v_.add_space_prefix = flag("add_space_prefix");
    if (error_) return *error_;
    return std::move(v_);
  }

 private:
  const Value* find(std::string_view key) const {
    return file_.metadata().find(fmt::format("tokenizer.ggml.{}", key));
  }

  void refuse(std::string_view key, std::string_view expected) {
    if (!error_)
      error_ = bad_input(fmt::format("tokenizer.ggml.{} is not {}", key, expected), {},
                         SourceRef{file_.name()});
  }

  void read_kind() {
    const Value* model = find("model");
    const std::string kind(model ? model->text().value_or("") : "");
    if (kind == "gpt2") {
      v_.kind = VocabularyKind::kBytePair;
    } else if (kind == "gemma4") {
      v_.kind = VocabularyKind::kCharacterPair;
    } else if (kind != "llama") {
      error_ =
          bad_input(fmt::format("a tokenizer of the kind \"{}\" is not understood", kind),
                    "llama, gpt2 and gemma4 are; runs on token ids need none: --prompt-tokens N",
                    SourceRef{file_.name()});
    }
  }

  std::vector<std::string_view> texts(std::string_view key) {
    const Value* value = find(key);
    if (!value) return {};
    auto all = value->texts();
    if (!all) refuse(key, "an array of strings");
    return all ? *std::move(all) : std::vector<std::string_view>{};
  }

  std::vector<double> numbers(std::string_view key) {
    const Value* value = find(key);
    if (!value) return {};
    auto all = value->numbers();
    if (!all) refuse(key, "an array of numbers");
    return all ? *std::move(all) : std::vector<double>{};
  }

  std::vector<std::int64_t> integers(std::string_view key) {
    const Value* value = find(key);
    if (!value) return {};
    auto all = value->integers();
    if (!all) refuse(key, "an array of whole numbers");
    return all ? *std::move(all) : std::vector<std::int64_t>{};
  }

  // The type of a number; 0, which is no type, if the number does not fit into 32 bits.
  static TokenType type_of(std::int64_t number) {
    const auto type = std::int32_t(number);
    return type == number ? TokenType(type) : TokenType(0);
  }

  std::optional<TokenId> id(std::string_view key) {
    const Value* value = find(key);
    if (!value) return std::nullopt;
    const auto number = value->integer();
    constexpr std::int64_t kMax = std::numeric_limits<TokenId>::max();
    if (number && *number >= 0 && *number <= kMax) return TokenId(*number);
    refuse(key, "a token id");
    return std::nullopt;
  }

  // An id that text does not need. -1 stands for any invalid value, about which the tokenizer
  // warns.
  std::optional<TokenId> id_or_none(std::string_view key) {
    const Value* value = find(key);
    const auto number = value ? value->integer() : std::nullopt;
    constexpr std::int64_t kMax = std::numeric_limits<TokenId>::max();
    if (number && (*number < 0 || *number > kMax)) return TokenId(-1);
    return id(key);
  }

  std::optional<bool> flag(std::string_view key) {
    const Value* value = find(key);
    if (!value) return std::nullopt;
    if (!value->flag()) refuse(key, "true or false");
    return value->flag();
  }

  const GgufFile& file_;
  Vocabulary v_;
  std::optional<Error> error_;
};

}  // namespace

Result<std::optional<Tokenizer>> file_tokenizer(const GgufFile& file) {
  const Value* model = file.metadata().find("tokenizer.ggml.model");
  const std::string_view kind = model ? model->text().value_or("") : "";
  const bool none = kind == "no_vocab" || kind == "none";
  if (none || !file.metadata().find("tokenizer.ggml.tokens")) return std::optional<Tokenizer>();
  auto vocabulary = VocabularyReader(file).read();
  if (!vocabulary) return vocabulary.error();
  auto tokenizer = Tokenizer::make(*std::move(vocabulary));
  if (!tokenizer) return tokenizer.error();
  return std::optional<Tokenizer>(*std::move(tokenizer));
}

}  // namespace rigcast::engine
