#include "engine/chat/chat_format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "engine/tokenizer/vocabulary/vocabulary_check.hpp"

namespace rigcast::engine {
namespace {

constexpr NamedChatFormat kFormats[] = {
    {ChatFormat::kChatMl, "chatml", "Qwen 1.5 to 3, SmolLM2, OLMo 3, LFM2, Yi, Hermes"},
    {ChatFormat::kChatMlThink, "chatml-think", "QwQ, Qwen3 Thinking, OLMo 3 Think"},
    {ChatFormat::kQwen35, "qwen3.5", "Qwen3.5, Qwen3.6"},
    {ChatFormat::kQwen35Brief, "qwen3.5-brief", "Qwen3.5 without reasoning"},
    {ChatFormat::kSmolLm3, "smollm3", "SmolLM3"},
    {ChatFormat::kLlama3, "llama3", "Llama 3 to 3.3"},
    {ChatFormat::kLlama4, "llama4", "Llama 4"},
    {ChatFormat::kMistralV1, "mistral-v1", "Mistral 7B v0.1 and v0.2, Mixtral 8x7B"},
    {ChatFormat::kMistralV3, "mistral-v3", "Mistral 7B v0.3, Nemo, Mistral Small 22B"},
    {ChatFormat::kMistralV7, "mistral-v7", "Mistral Small 24B, Mistral Large 2411, Ministral 3"},
    {ChatFormat::kGemma, "gemma", "Gemma 1 to 3"},
    {ChatFormat::kGemma4, "gemma4", "Gemma 4"},
    {ChatFormat::kGemma4Plain, "gemma4-plain", "Gemma 4 whose prompt has no channel of thoughts"},
    {ChatFormat::kGptOss, "gpt-oss", "gpt-oss 20B and 120B"},
    {ChatFormat::kPhi3, "phi3", "Phi-3, Phi-3.5"},
    {ChatFormat::kPhi4, "phi4", "Phi-4"},
    {ChatFormat::kPhi4Mini, "phi4-mini", "Phi-4-mini"},
    {ChatFormat::kGranite, "granite", "Granite 3 and 4"},
    {ChatFormat::kSeedOss, "seed-oss", "Seed-OSS"},
    {ChatFormat::kGlm4, "glm4", "GLM-4"},
    {ChatFormat::kGlm45, "glm4.5", "GLM-4.5, GLM-4.6"},
    {ChatFormat::kGlm47, "glm4.7", "GLM-4.7, GLM-4.7-Flash"},
    {ChatFormat::kMiniMaxM2, "minimax-m2", "MiniMax M2"},
    {ChatFormat::kKimiK2, "kimi-k2", "Kimi K2 Instruct"},
    {ChatFormat::kKimiK2Thinking, "kimi-k2-thinking", "Kimi K2 Thinking"},
    {ChatFormat::kHunyuan, "hunyuan", "Hunyuan A13B"},
    {ChatFormat::kHy3, "hy3", "Hy3"},
    {ChatFormat::kErnie, "ernie4.5", "ERNIE 4.5"},
    {ChatFormat::kLing2, "ling2", "Ling 2.0"},
    {ChatFormat::kExaone4, "exaone4", "EXAONE 4.0"},
    {ChatFormat::kExaoneMoe, "exaone-moe", "K-EXAONE"},
    {ChatFormat::kOlmo2, "olmo2", "OLMo 2, Tulu 3"},
    {ChatFormat::kFalcon3, "falcon3", "Falcon 3"},
    {ChatFormat::kCommandR, "command-r", "Command R and R+, Aya"},
    {ChatFormat::kCommandR7b, "command-r7b", "Command R7B, Command A"},
    {ChatFormat::kApertus, "apertus", "Apertus"},
    {ChatFormat::kDots1, "dots1", "dots.llm1"},
    {ChatFormat::kNemotronNano, "nemotron-nano", "Nemotron Nano 9B and 12B v2"},
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

// What a template of a format has in it. The first row counts of which all is there.
struct Sign {
  std::optional<ChatFormat> format;  // nullopt: a format that is not written here
  std::vector<std::string_view> all;
};

// Facts: the templates in model files of their publishers, and llama.cpp's src/llama-chat.cpp,
// which tells them apart in about this way.
const std::vector<Sign>& signs() {
  using F = ChatFormat;
  static const std::vector<Sign> kSigns = {
      {F::kPhi4, {"<|im_start|>", "<|im_sep|>"}},
      {std::nullopt, {"<|im_start|>", "<end_of_utterance>"}},  // SmolVLM
      {std::nullopt, {"<|im_start|>", "<global_setting>"}},    // ERNIE 4.5 Thinking
      {F::kSmolLm3, {"<|im_start|>", "## Custom Instructions"}},
      {F::kQwen35Brief, {"<|im_start|>", "message.content, true)|trim", "enable_thinking is true"}},
      {F::kQwen35, {"<|im_start|>", "message.content, true)|trim"}},
      {F::kChatMlThink, {"<|im_start|>assistant<think>"}},
      {F::kChatMlThink, {"<|im_start|>assistant\n<think>"}},
      {F::kChatMl, {"<|im_start|>"}},
      {F::kMistralV7, {"[INST]", "[SYSTEM_PROMPT]"}},
      {std::nullopt, {"[INST]", "<<SYS>>"}},  // Llama 2
      {F::kMistralV3, {"[INST]"}},
      {std::nullopt, {"<|assistant|>", "[BEGIN FINAL RESPONSE]"}},  // Apriel
      {F::kPhi3, {"<|assistant|>\n", "<|end|>"}},
      {F::kPhi3, {"'<|assistant|>' + '\n'", "<|end|>"}},
      {F::kPhi4Mini, {"<|assistant|>", "<|end|>"}},
      {F::kGlm47, {"[gMASK]<sop>", "else '<think>'"}},
      {F::kGlm45, {"[gMASK]<sop>", "<think>"}},
      {F::kGlm4, {"[gMASK]<sop>"}},
      {F::kExaoneMoe, {"<|assistant|>", "<|user|>", "<|tool_declare|>"}},
      {F::kOlmo2, {"bos_token", "'<|user|>\n' + message['content'] + '\n'", "eos_token"}},
      {F::kFalcon3, {"'<|user|>\n' + message['content'] + '\n'", "'<|assistant|>\n'", "eos_token"}},
      {std::nullopt, {"<|START_OF_TURN_TOKEN|>", "<|START_TEXT|>"}},  // North Mini
      {F::kCommandR7b, {"<|START_OF_TURN_TOKEN|>", "<|START_RESPONSE|>"}},
      {F::kCommandR, {"<|START_OF_TURN_TOKEN|>", "<|USER_TOKEN|>"}},
      {F::kLlama3, {"<|start_header_id|>", "<|end_header_id|>"}},
      {F::kLlama4, {"<|header_start|>", "<|header_end|>"}},
      {F::kGemma, {"<start_of_turn>"}},
      {F::kGemma4, {"<|turn>", "<|channel>thought\n<channel|>"}},
      {F::kGemma4Plain, {"<|turn>", "<turn|>"}},
      {F::kGranite, {"<|start_of_role|>"}},
      {F::kSeedOss, {"<seed:bos>"}},
      {std::nullopt, {"]~b]", "<thinking_instructions>"}},  // MiniMax M3
      {F::kMiniMaxM2, {"]~b]", "[e~["}},
      {F::kKimiK2Thinking, {"<|im_middle|>", "<think></think>"}},
      {F::kKimiK2, {"<|im_middle|>"}},
      {F::kLing2, {"<role>HUMAN</role>", "<|role_end|>", "set thinking_option = 'off' %}\n{{"}},
      {F::kExaone4, {"[|assistant|]", "[|endofturn|]", "role_indicators"}},
      {F::kHunyuan, {"<|extra_0|>", "<|extra_4|>"}},
      {F::kHy3, {"<｜hy_Assistant", "reasoning_mode"}},
      {F::kDots1, {"<|endofuserprompt|>"}},
      {F::kNemotronNano, {"<SPECIAL_10>System", "<SPECIAL_11>User", "<SPECIAL_12>"}},
      {F::kErnie, {"User: ", "Assistant: ", "<|end_of_sentence|>"}},
      {F::kApertus, {"<|assistant_start|>", "<|developer_start|>"}},
      {F::kGptOss, {"<|start|>", "<|channel|>", "<|message|>"}},
      {std::nullopt, {"<｜User｜>", "｜DSML｜"}},  // DeepSeek V3.2 and V4
      {F::kDeepSeekV31, {"<｜User｜>", "<｜Assistant｜></think>"}},
      {F::kDeepSeekR1, {"<｜User｜>", "<｜Assistant｜><think>"}},
      {F::kDeepSeekR1, {"<｜User｜>", "<｜Assistant｜>\n<think>"}},
      {F::kDeepSeekV3, {"<｜User｜>", "<｜Assistant｜>"}},
      {F::kDeepSeekV2, {"'Assistant: '", "'User: '", "eos_token"}},
  };
  return kSigns;
}

// A template is a program's text, in which a line's end is mostly spelt \n.
std::string with_line_ends(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool spelt = text[i] == '\\' && i + 1 < text.size() && text[i + 1] == 'n';
    out += spelt ? '\n' : text[i];
    i += spelt;
  }
  return out;
}

// What a vocabulary's tokens are good for, where nothing else says so.
std::optional<ChatFormat> format_of_tokens(const Tokenizer& tokenizer) {
  const auto has = [&](std::initializer_list<std::string_view> tokens) {
    return std::ranges::all_of(
        tokens, [&](std::string_view t) { return tokenizer.special_token(t).has_value(); });
  };
  if (has({"<|start|>", "<|channel|>", "<|message|>", "<|return|>"})) return ChatFormat::kGptOss;
  if (has({"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"})) return ChatFormat::kLlama3;
  if (has({"<|header_start|>", "<|header_end|>", "<|eot|>"})) return ChatFormat::kLlama4;
  if (has({"<start_of_turn>", "<end_of_turn>"})) return ChatFormat::kGemma;
  if (has({"<|turn>", "<turn|>"})) return ChatFormat::kGemma4Plain;
  if (has({"<|start_of_role|>", "<|end_of_role|>"})) return ChatFormat::kGranite;
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

std::optional<ChatFormat> chat_format_of_template(std::string_view text,
                                                  const Tokenizer& tokenizer) {
  const std::string program = with_line_ends(text);
  const auto found = std::ranges::find_if(signs(), [&](const Sign& sign) {
    return std::ranges::all_of(
        sign.all, [&](std::string_view part) { return program.find(part) != program.npos; });
  });
  if (found == signs().end()) return std::nullopt;
  if (found->format == ChatFormat::kMistralV3 && !tokenizer.special_token("[INST]"))
    return ChatFormat::kMistralV1;
  return found->format;
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
