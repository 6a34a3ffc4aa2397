#pragma once
// From the ids of an answer to its text, as a client sees it.

#include <optional>
#include <string>
#include <vector>

#include "engine/tokenizer/stream_decoder.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace rigcast::engine {

struct AnswerPart {
  std::string text{};
  std::string reasoning{};  // what gpt-oss writes into other channels than the final one

  bool empty() const { return text.empty() && reasoning.empty(); }
};

struct AnswerOptions {
  bool harmony = false;    // the answer is messages of gpt-oss, with channels
  bool continues = false;  // the answer goes on from text: a space at its beginning is a part of it
  std::vector<std::string> stops{};  // texts before which an answer ends, none of them empty
};

/// Never gives a part of a character, nor of a text that may become a stop.
class AnswerText {
 public:
  AnswerText(Tokenizer tokenizer, AnswerOptions options);

  /// What one more token completes; nothing after a stop.
  AnswerPart push(TokenId id);
  /// What was held back, which may be a part of a character where the answer ends within one.
  AnswerPart finish();
  /// One of the stops has occurred.
  bool stopped() const { return stopped_; }

 private:
  enum class Channel { kHeader, kReasoning, kFinal };

  bool is_marker(TokenId id, const std::optional<TokenId>& marker) const {
    return options_.harmony && marker && id == *marker;
  }
  AnswerPart part_of(std::string text);
  std::string before_stop(std::string text);

  Tokenizer tokenizer_;
  AnswerOptions options_;
  StreamDecoder decoder_;
  std::optional<TokenId> message_, channel_, end_, start_;
  Channel state_ = Channel::kFinal;
  std::string header_;  // of the harmony message that has begun
  std::string held_;    // text that may become a stop
  bool stopped_ = false;
};

}  // namespace rigcast::engine
