#pragma once
// Chat formats in which a message is a text between two fixed ones: one row each.

#include <string_view>

#include "engine/chat/chat_format.hpp"

namespace rigcast::engine {

enum class PromptBos {
  kAsFile,  // the template prints none: as the file says of texts
  kAlways,
  kNone,  // another token stands in front, or none
};

struct TurnFormat {
  ChatFormat format;
  // What a message becomes: {} is its text, {eos} the vocabulary's EOS.
  std::string_view system, user, assistant;
  std::string_view answer;  // what the model writes on from
  // Texts that are tokens, with blanks between them: those the vocabulary must have, and those that
  // are text where it has them not.
  std::string_view tokens, optional_tokens = {};
  std::string_view ends = {};  // tokens that end an answer, whatever the file says
  PromptBos bos = PromptBos::kAsFile;
  std::string_view front = {};              // before all messages
  std::string_view trims = {};              // roles whose texts lose blanks at both ends: s, u, a
  bool system_in_front = false;             // all of its texts as one; otherwise each in its place
  std::string_view no_system = {};          // what is in front without a system message
  std::string_view user_after_system = {};  // the user's first message, if it differs there
  bool takes_blanks = false;  // SentencePiece: its tokens stand for the blanks behind them, too
  // What becomes of <think>...</think> in earlier answers.
  enum class Thoughts { kKept, kDropped, kDroppedWithLines } thoughts = Thoughts::kKept;
};

/// nullptr: the format has no row, since its messages are more than that.
const TurnFormat* turn_format(ChatFormat format);

}  // namespace rigcast::engine
