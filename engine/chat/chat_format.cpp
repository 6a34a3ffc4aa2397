#include "engine/chat/chat_format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "engine/tokenizer/vocabulary/vocabulary_check.hpp"

namespace rigcast::engine {
namespace {

constexpr NamedChatFormat kFormats[] = {
    {ChatFormat::kChatMl, "chatml", "Qwen 1.5 to 3, SmolLM2, Yi, Hermes"},
    {ChatFormat::kChatMlThink, "chatml-think", "QwQ, Qwen3 Thinking"},
    {ChatFormat::kLlama3, "llama3", "Llama 3 to 3.3"},
    {ChatFormat::kMistralV1, "mistral-v1", "Mistral 7B v0.1 and v0.2, Mixtral 8x7B"},
    {ChatFormat::kMistralV3, "mistral-v3", "Mistral 7B v0.3, Nemo, Mistral Small 22B"},
    {ChatFormat::kMistralV7, "mistral-v7", "Mistral Small 24B, Mistral Large 2411"},
    {ChatFormat::kGemma, "gemma", "Gemma 1 to 3"},
    {ChatFormat::kGptOss, "gpt-oss", "gpt-oss 20B and 120B"},
    {ChatFormat::kDeepSeekV2, "deepseek-v2", "DeepSeek V2, V2 Lite"},
    {ChatFormat::kDeepSeekV3, "deepseek-v3", "DeepSeek V2.5, V3"},
    {ChatFormat::kDeepSeekV31, "deepseek-v3.1", "DeepSeek V3.1"},
    {ChatFormat::kDeepSeekR1, "deepseek-r1", "DeepSeek R1 and what it was distilled into"},
};

std::string names_text() {
  std::string text;
  for (const NamedChatFormat& f : kFormats)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", f.name, f.models);
  return text;
}

bool has_all(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::ranges::all_of(parts,
                             [&](std::string_view part) { return text.find(part) != text.npos; });
}

bool has_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(parts,
                             [&](std::string_view part) { return text.find(part) != text.npos; });
}

// A template is a program's text, in which a line's end is mostly spelt \n.
bool prompts_to_think(std::string_view text, std::string_view before) {
  const std::string begin(before);
  return has_any(text, {begin + "<think>", begin + "\\n<think>", begin + "\n<think>"});
}

std::optional<ChatFormat> mistral_of(std::string_view text, const Tokenizer& tokenizer) {
  if (has_all(text, {"[SYSTEM_PROMPT]"})) return ChatFormat::kMistralV7;
  if (has_all(text, {"<<SYS>>"})) return std::nullopt;  // Llama 2
  return tokenizer.special_token("[INST]") ? ChatFormat::kMistralV3 : ChatFormat::kMistralV1;
}

ChatFormat deepseek_of(std::string_view text) {
  if (has_all(text, {"<｜Assistant｜></think>"})) return ChatFormat::kDeepSeekV31;
  return prompts_to_think(text, "<｜Assistant｜>") ? ChatFormat::kDeepSeekR1
                                                   : ChatFormat::kDeepSeekV3;
}

// What a vocabulary's tokens are good for, where nothing else says so.
std::optional<ChatFormat> format_of_tokens(const Tokenizer& tokenizer) {
  const auto has = [&](std::initializer_list<std::string_view> tokens) {
    return std::ranges::all_of(
        tokens, [&](std::string_view t) { return tokenizer.special_token(t).has_value(); });
  };
  if (has({"<|start|>", "<|channel|>", "<|message|>", "<|return|>"})) return ChatFormat::kGptOss;
  if (has({"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"})) return ChatFormat::kLlama3;
  if (has({"<start_of_turn>", "<end_of_turn>"})) return ChatFormat::kGemma;
  if (has({"<｜User｜>", "<｜Assistant｜>"})) return ChatFormat::kDeepSeekV3;
  if (has({"[SYSTEM_PROMPT]", "[INST]", "[/INST]"})) return ChatFormat::kMistralV7;
  if (has({"[INST]", "[/INST]"})) return ChatFormat::kMistralV3;
  if (has({"<|im_start|>", "<|im_end|>"}) && !has({"<|im_sep|>"})) return ChatFormat::kChatMl;
  return std::nullopt;
}

}  // namespace

std::span<const NamedChatFormat> chat_formats() { return kFormats; }

std::string_view name_of(ChatFormat format) {
  const auto found = std::ranges::find(kFormats, format, &NamedChatFormat::format);
  return found->name;
}

Result<ChatFormat> chat_format_named(std::string_view name) {
  const auto found = std::ranges::find(kFormats, name, &NamedChatFormat::name);
  if (found != std::ranges::end(kFormats)) return found->format;
  return bad_input(fmt::format("no chat template is named {}", in_quotes(name)), names_text());
}

// Facts: the templates in model files of their publishers, and llama.cpp's src/llama-chat.cpp,
// which tells them apart in about this way.
std::optional<ChatFormat> chat_format_of_template(std::string_view text,
                                                  const Tokenizer& tokenizer) {
  if (has_all(text, {"<|im_start|>"})) {
    // Phi 4 and SmolVLM have this token, and other formats.
    if (has_any(text, {"<|im_sep|>", "<end_of_utterance>"})) return std::nullopt;
    return prompts_to_think(text, "<|im_start|>assistant") ? ChatFormat::kChatMlThink
                                                           : ChatFormat::kChatMl;
  }
  if (has_all(text, {"[INST]"})) return mistral_of(text, tokenizer);
  if (has_all(text, {"<|start_header_id|>", "<|end_header_id|>"})) return ChatFormat::kLlama3;
  if (has_all(text, {"<start_of_turn>"})) return ChatFormat::kGemma;
  if (has_all(text, {"<|start|>", "<|channel|>", "<|message|>"})) return ChatFormat::kGptOss;
  if (has_all(text, {"<｜User｜>", "<｜Assistant｜>"})) return deepseek_of(text);
  if (has_all(text, {"'Assistant: '", "'User: '", "eos_token"})) return ChatFormat::kDeepSeekV2;
  return std::nullopt;
}

Result<FileChatFormat> chat_format_of(const GgufFile& file, const Tokenizer& tokenizer) {
  const auto text_of = [&](std::string_view key) {
    const Value* value = file.metadata().find(key);
    return value ? value->text().value_or("") : std::string_view();
  };
  const std::string hint = "--chat-template NAME, one of: " + names_text();
  if (const std::string_view text = text_of("tokenizer.chat_template"); !text.empty()) {
    if (const auto format = chat_format_of_template(text, tokenizer))
      return FileChatFormat{*format, false};
    return bad_input("the file's chat template is none that is known here", hint,
                     SourceRef{file.name()});
  }
  std::optional<ChatFormat> format = format_of_tokens(tokenizer);
  if (text_of("general.architecture") == "gpt-oss") format = ChatFormat::kGptOss;
  if (format) return FileChatFormat{*format, true};
  return bad_input("the file has no chat template, and its vocabulary no tokens of one", hint,
                   SourceRef{file.name()});
}

}  // namespace rigcast::engine
