#pragma once
// The chat formats that prompts can be written in, and which of them a model file states.

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "engine/gguf/file.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace rigcast::engine {

enum class ChatFormat {
  kChatMl,
  kChatMlThink,  // an answer begins with <think>, which is a part of the prompt
  kQwen35,       // so here; messages lose blanks at their ends
  kQwen35Brief,  // an empty <think></think> is a part of the prompt
  kSmolLm3,
  kLlama3,
  kLlama4,
  kMistralV1,  // [INST] is text
  kMistralV3,  // [INST] is a token; the system message is in the user's last one
  kMistralV7,  // the system message has tokens of its own
  kGemma,
  kGemma4,       // an empty channel of thoughts is a part of the prompt
  kGemma4Plain,  // it is not
  kGptOss,
  kPhi3,
  kPhi4,
  kPhi4Mini,
  kGranite,
  kSeedOss,
  kGlm4,
  kGlm45,
  kGlm47,
  kMiniMaxM2,
  kKimiK2,
  kKimiK2Thinking,
  kHunyuan,
  kHy3,
  kErnie,
  kLing2,
  kExaone4,
  kExaoneMoe,
  kOlmo2,
  kFalcon3,
  kCommandR,
  kCommandR7b,
  kApertus,
  kDots1,
  kNemotronNano,
  kDeepSeekV2,
  kDeepSeekV3,
  kDeepSeekV31,  // answers without reasoning: </think> is a part of the prompt
  kDeepSeekR1,
};

struct NamedChatFormat {
  ChatFormat format;
  std::string_view name;    // as in --chat-template
  std::string_view models;  // who uses it
};

std::span<const NamedChatFormat> chat_formats();
std::string_view name_of(ChatFormat format);

/// Error: no format has that name; the hint lists those that exist.
Result<ChatFormat> chat_format_named(std::string_view name);

struct FileChatFormat {
  ChatFormat format;
  bool is_guess = false;  // by the vocabulary's tokens: the file states no template
};

/// The format of a file, by what is characteristic of its tokenizer.chat_template; without one by
/// its architecture and its special tokens. Errors: it is another format, or there is nothing to go
/// by; the hint says what to pass instead.
Result<FileChatFormat> chat_format_of(const GgufFile& file, const Tokenizer& tokenizer);

/// The same of a template's text; nullopt: none of these formats.
std::optional<ChatFormat> chat_format_of_template(std::string_view text,
                                                  const Tokenizer& tokenizer);

}  // namespace rigcast::engine
