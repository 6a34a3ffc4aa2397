// Which chat format a file has.

#include "engine/chat/chat_format.hpp"

#include <map>

#include "tests/engine/chat/chat_fixture.hpp"
#include "tests/engine/gguf/gguf_fixture.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::fixtures;

namespace {

// The characteristic parts of published templates, in their spelling.
const std::map<std::string, std::string> kTemplates = {
    {"chatml",
     "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' }}"
     "{{- '<|im_start|>assistant\\n' }}"},
    {"chatml-think", "{{- '<|im_start|>' + role }}{{- '<|im_start|>assistant\\n<think>\\n' }}"},
    {"llama3", "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'"},
    {"mistral-v1", "{{ ' [INST] ' + message['content'] + ' [/INST]' }}"},
    {"mistral-v7", "'[SYSTEM_PROMPT]' + system_message + '[/SYSTEM_PROMPT]' '[INST]'"},
    {"gemma", "{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim }}"},
    {"gpt-oss", "\"<|start|>assistant<|channel|>final<|message|>\""},
    {"deepseek-v2", "{{ 'User: ' + c }}{{ 'Assistant: ' + message['content'] + eos_token }}"},
    {"deepseek-v3",
     "{{'<｜User｜>' + c}}{{'<｜Assistant｜>' + content + '<｜end▁of▁sentence｜>'}}"},
    {"deepseek-v3.1", "'<｜User｜>' '<｜Assistant｜></think>'"},
    {"deepseek-r1", "'<｜User｜>' '<｜Assistant｜><think>\\n'"},
    {"qwen3.5",
     "'<|im_start|>' {%- set content = render_content(message.content, true)|trim %}"
     "{%- if enable_thinking is defined and enable_thinking is false %}"},
    {"qwen3.5-brief",
     "'<|im_start|>' {%- set content = render_content(message.content, true)|trim %}"
     "{%- if enable_thinking is defined and enable_thinking is true %}"},
    {"smollm3", "{{- \"<|im_start|>system\\n\" -}}{{- \"## Custom Instructions\\n\\n\" -}}"},
    {"llama4", "'<|header_start|>' + message['role'] + '<|header_end|>\\n\\n'"},
    {"gemma4", "'<|turn>model\\n' -}}{{- '<|channel>thought\\n<channel|>' -}}"},
    {"gemma4-plain", "{{- '<|turn>' + role + '\\n' }}{{- '<turn|>\\n' -}}"},
    {"phi3", "{{'<|user|>\n' + message['content'] + '<|end|>\n'}}{{ '<|assistant|>\n' }}"},
    {"phi4", "'<|im_start|>user<|im_sep|>' + message['content'] + '<|im_end|>'"},
    {"phi4-mini", "'<|' + message['role'] + '|>' + message['content'] + '<|end|>' '<|assistant|>'"},
    {"granite",
     "'<|start_of_role|>user<|end_of_role|>' + message['content'] + '<|end_of_text|>\\n'"},
    {"seed-oss", "{# <seed:bos> #}{{ bos_token + message.role + '\\n' }}"},
    {"glm4", "[gMASK]<sop>{% for item in messages %}<|{{ item['role'] }}|>\n{{ item['content'] }}"},
    {"glm4.5",
     "[gMASK]<sop> <|assistant|>{{- '\\n<think></think>' if not enable_thinking else '' }}"},
    {"glm4.7",
     "[gMASK]<sop> <|assistant|>{{- '</think>' if not enable_thinking else '<think>' -}}"},
    {"minimax-m2", "{{- ']~!b[' ~ ']~b]system' ~ '\\n' }}{{- '[e~[\\n' }}"},
    {"kimi-k2", "<|im_user|>{{message['role']}}<|im_middle|>"},
    {"kimi-k2-thinking", "<|im_user|>{{name}}<|im_middle|> <think></think>"},
    {"hunyuan", "'<|startoftext|>' + content + '<|extra_4|>' content + '<|extra_0|>'"},
    {"hy3", "'<｜hy_Assistant' + suffix '<｜reasoning_mode' + suffix"},
    {"ernie4.5", "\"User: \" + c \"Assistant: \" + c + sep_token \"<|end_of_sentence|>\""},
    {"ling2",
     "{% set thinking_option = 'off' %}\n{{- '<role>SYSTEM</role>' }}"
     "'<role>HUMAN</role>' + c + '<|role_end|>'"},
    {"exaone4", "role_indicators = {'assistant': '[|assistant|]\\n'} '[|endofturn|]\\n'"},
    {"exaone-moe", "'<|user|>\\n' '<|assistant|>\\n' '<|tool_declare|>'"},
    {"olmo2",
     "{{ bos_token }}{{ '<|user|>\\n' + message['content'] + '\\n' }}"
     "{{ '<|assistant|>\\n'  + message['content'] + eos_token }}"},
    {"falcon3",
     "{{ '<|user|>\\n' + message['content'] + '\\n' }}"
     "{{ '<|assistant|>\\n'  + message['content'] + eos_token }}"},
    {"command-r", "'<|START_OF_TURN_TOKEN|><|USER_TOKEN|>' + content.strip()"},
    {"command-r7b", "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|><|START_RESPONSE|>"},
    {"apertus", "set developer_token = '<|developer_start|>' '<|assistant_start|>'"},
    {"dots1", "'<|userprompt|>' + c + '<|endofuserprompt|>'"},
    {"nemotron-nano",
     "{{- '<SPECIAL_10>System\n' -}}{{- '<SPECIAL_11>User\n' + c }}{{- '\n<SPECIAL_12>\n\n' -}}"},
};

std::string named(const std::optional<ChatFormat>& format) {
  return format ? std::string(name_of(*format)) : "none";
}

Result<FileChatFormat> of_file(const char* architecture, const char* text, const Tokenizer& t) {
  GgufHeader header;
  header.set("general.architecture", std::string(architecture));
  if (text) header.set("tokenizer.chat_template", std::string(text));
  const std::string bytes = engine::fixtures::with_zeros(header);
  auto file = engine::fixtures::file_of(bytes);
  REQUIRE(file.ok());
  return chat_format_of(*file, t);
}

}  // namespace

TEST_CASE("Published templates are told apart by what is theirs", "[chat]") {
  const Tokenizer t = chat_tokenizer({});
  for (const auto& [name, text] : kTemplates) {
    CAPTURE(name);
    CHECK(named(chat_format_of_template(text, t)) == name);
  }
  const char* mistral = "{{- '[INST] ' + message['content'] + '[/INST]' }}";
  CHECK(named(chat_format_of_template(mistral, chat_tokenizer({"[INST]"}))) == "mistral-v3");
  CHECK(named(chat_format_of_template(mistral, t)) == "mistral-v1");
  for (const char* other :
       {"<|im_start|>user<end_of_utterance>", "<|im_start|>system\n<global_setting>",
        "[INST] <<SYS>>", "<|START_OF_TURN_TOKEN|><|START_TEXT|>",
        "<|assistant|>\n<|end|>[BEGIN FINAL RESPONSE]", "]~b]system<thinking_instructions>[e~[",
        "<｜User｜><｜Assistant｜>｜DSML｜", "### Instruction:", "x"})
    CHECK(named(chat_format_of_template(other, t)) == "none");
}

TEST_CASE("Every format but Mistral's of version 3 has a template among these", "[chat]") {
  for (const NamedChatFormat& f : chat_formats())
    CHECK(kTemplates.contains(std::string(f.name)) == (f.name != "mistral-v3"));
}

TEST_CASE("Every format is found by its name", "[chat]") {
  for (const NamedChatFormat& f : chat_formats()) {
    const auto found = chat_format_named(f.name);
    REQUIRE(found.ok());
    CHECK(*found == f.format);
    CHECK(name_of(f.format) == f.name);
  }
  const auto none = chat_format_named("alpaca");
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().message == "no chat template is named \"alpaca\"");
  CHECK(none.error().hint.find("mistral-v7 (Mistral Small 24B") != std::string::npos);
}

TEST_CASE("A file's format is its template's, or a guess by its tokens", "[chat]") {
  const Tokenizer chatml = chat_tokenizer({"<|im_start|>", "<|im_end|>"});
  const auto stated = of_file("llama", kTemplates.at("gemma").c_str(), chatml);
  REQUIRE(stated.ok());
  CHECK((stated->format == ChatFormat::kGemma && !stated->is_guess));
  const auto guessed = of_file("qwen2", nullptr, chatml);
  REQUIRE(guessed.ok());
  CHECK((guessed->format == ChatFormat::kChatMl && guessed->is_guess));
  const auto by_name = of_file("gpt-oss", nullptr, chat_tokenizer({}));
  REQUIRE(by_name.ok());
  CHECK(by_name->format == ChatFormat::kGptOss);
}

TEST_CASE("An unknown template is refused with what to pass instead", "[chat]") {
  const Tokenizer chatml = chat_tokenizer({"<|im_start|>", "<|im_end|>"});
  const auto other = of_file("llama", "{{ '### Instruction:' }}", chatml);
  REQUIRE_FALSE(other.ok());
  CHECK(other.error().message == "the file's chat template is none that is known here");
  CHECK(other.error().hint.starts_with("--chat-template NAME, one of: chatml ("));
  const auto none = of_file("llama", nullptr, chat_tokenizer({}));
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().message.starts_with("the file has no chat template"));
}
