// Formats of the table: a chat with a system message, as the publishers' templates print it.

#include "engine/chat/turn_formats.hpp"

#include <map>
#include <set>

#include "tests/engine/chat/chat_fixture.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::fixtures;

namespace {

const std::vector<ChatMessage> kTalk = {system_message("Be brief."), user(" Hi "),
                                        assistant("Hello."), user("Bye")};

std::vector<std::string> words(std::string_view list) {
  std::vector<std::string> out;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(' '), list.size());
    out.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return out;
}

std::vector<std::string> tokens_of(const TurnFormat& row) {
  std::vector<std::string> out = words(row.tokens);
  for (const std::string_view list : {row.optional_tokens, row.ends})
    for (std::string& text : words(list))
      if (std::ranges::find(out, text) == out.end()) out.push_back(std::move(text));
  return out;
}

Tokenizer tokenizer_of(const TurnFormat& row, TokenType type = TokenType::kControl) {
  Vocabulary v = byte_pair("gpt-2");
  v.bos = add(v, "<bos>", TokenType::kControl);
  v.eos = add(v, "<eos>", TokenType::kControl);
  v.add_bos = false;
  for (const std::string& text : tokens_of(row)) add(v, text, type);
  return made(std::move(v));
}

std::string printed(ChatFormat format, const std::vector<ChatMessage>& talk = kTalk) {
  const Tokenizer t = tokenizer_of(*turn_format(format));
  const auto prompt = ChatPrompt::make(format, t);
  REQUIRE(prompt.ok());
  const auto ids = prompt->render(talk);
  REQUIRE(ids.ok());
  return t.decode(*ids, {.special = true, .continues = true});
}

// What Jinja prints of the templates in the publishers' model files, with <bos> and <eos> for
// theirs. dots1 and exaone-moe: what llama.cpp prints. Without what a template adds of itself: a
// default system message (Command R7B).
const std::map<std::string, std::string> kPrinted = {
    {"chatml",  // Qwen3, LFM2 but for its BOS
     "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n"
     "<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
     "<|im_start|>assistant\n"},
    {"chatml-think",
     "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n"
     "<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
     "<|im_start|>assistant\n<think>\n"},
    {"qwen3.5",
     "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
     "<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
     "<|im_start|>assistant\n<think>\n"},
    {"qwen3.5-brief",
     "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
     "<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
     "<|im_start|>assistant\n<think>\n\n</think>\n\n"},
    {"smollm3",
     "<|im_start|>system\n## Metadata\n\nKnowledge Cutoff Date: June 2025\nReasoning Mode: "
     "/think\n\n## Custom Instructions\n\nBe brief.\n\n<|im_end|>\n<|im_start|>user\n Hi "
     "<|im_end|>\n<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
     "<|im_start|>assistant\n"},
    {"llama3",
     "<bos><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
     "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
     "<|start_header_id|>assistant<|end_header_id|>\n\nHello.<|eot_id|>"
     "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
     "<|start_header_id|>assistant<|end_header_id|>\n\n"},
    {"llama4",
     "<bos><|header_start|>system<|header_end|>\n\nBe brief.<|eot|>"
     "<|header_start|>user<|header_end|>\n\n Hi <|eot|>"
     "<|header_start|>assistant<|header_end|>\n\nHello.<|eot|>"
     "<|header_start|>user<|header_end|>\n\nBye<|eot|>"
     "<|header_start|>assistant<|header_end|>\n\n"},
    {"gemma4",
     "<bos><|turn>system\nBe brief.<turn|>\n<|turn>user\nHi<turn|>\n<|turn>model\nHello.<turn|>\n"
     "<|turn>user\nBye<turn|>\n<|turn>model\n<|channel>thought\n<channel|>"},
    {"gemma4-plain",
     "<bos><|turn>system\nBe brief.<turn|>\n<|turn>user\nHi<turn|>\n<|turn>model\nHello.<turn|>\n"
     "<|turn>user\nBye<turn|>\n<|turn>model\n"},
    {"phi3",
     "<|system|>\nBe brief.<|end|>\n<|user|>\n Hi <|end|>\n<|assistant|>\nHello.<|end|>\n"
     "<|user|>\nBye<|end|>\n<|assistant|>\n"},
    {"phi4",
     "<|im_start|>system<|im_sep|>Be brief.<|im_end|><|im_start|>user<|im_sep|> Hi <|im_end|>"
     "<|im_start|>assistant<|im_sep|>Hello.<|im_end|><|im_start|>user<|im_sep|>Bye<|im_end|>"
     "<|im_start|>assistant<|im_sep|>"},
    {"phi4-mini",
     "<|system|>Be brief.<|end|><|user|> Hi <|end|><|assistant|>Hello.<|end|><|user|>Bye<|end|>"
     "<|assistant|>"},
    {"granite",
     "<|start_of_role|>system<|end_of_role|>Be brief.<|end_of_text|>\n"
     "<|start_of_role|>user<|end_of_role|> Hi <|end_of_text|>\n"
     "<|start_of_role|>assistant<|end_of_role|>Hello.<|end_of_text|>\n"
     "<|start_of_role|>user<|end_of_role|>Bye<|end_of_text|>\n"
     "<|start_of_role|>assistant<|end_of_role|>"},
    {"seed-oss",
     "<seed:bos>system\nBe brief.<seed:eos><seed:bos>user\n Hi <seed:eos>"
     "<seed:bos>assistant\nHello.<seed:eos><seed:bos>user\nBye<seed:eos><seed:bos>assistant\n"},
    {"glm4",
     "[gMASK]<sop><|system|>\nBe brief.<|user|>\n Hi <|assistant|>\nHello.<|user|>\nBye"
     "<|assistant|>\n"},
    {"glm4.5",
     "[gMASK]<sop><|system|>\nBe brief.<|user|>\n Hi <|assistant|>\n<think></think>\nHello."
     "<|user|>\nBye<|assistant|>"},
    {"glm4.7",
     "[gMASK]<sop><|system|>Be brief.<|user|> Hi <|assistant|></think>Hello.<|user|>Bye"
     "<|assistant|><think>"},
    {"minimax-m2",
     "]~!b[]~b]system\nBe brief.[e~[\n]~b]user\n Hi [e~[\n]~b]ai\nHello.[e~[\n]~b]user\nBye[e~[\n"
     "]~b]ai\n<think>\n"},
    {"kimi-k2",
     "<|im_system|>system<|im_middle|>Be brief.<|im_end|><|im_user|>user<|im_middle|> Hi <|im_end|>"
     "<|im_assistant|>assistant<|im_middle|>Hello.<|im_end|><|im_user|>user<|im_middle|>Bye"
     "<|im_end|><|im_assistant|>assistant<|im_middle|>"},
    {"kimi-k2-thinking",
     "<|im_system|>system<|im_middle|>Be brief.<|im_end|><|im_user|>user<|im_middle|> Hi <|im_end|>"
     "<|im_assistant|>assistant<|im_middle|><think></think>Hello.<|im_end|>"
     "<|im_user|>user<|im_middle|>Bye<|im_end|><|im_assistant|>assistant<|im_middle|>"},
    {"hunyuan",
     "<|startoftext|>Be brief.<|extra_4|> Hi "
     "<|extra_0|>Hello.<|eos|><|startoftext|>Bye<|extra_0|>"},
    {"hy3",
     "<bos>Be brief.<｜reasoning_mode:opensource｜>reasoning_effort:no_think"
     "<｜hy_User:opensource｜> Hi "
     "<｜hy_Assistant:opensource｜><think:opensource></think:opensource>"
     "Hello.<｜hy_eos:opensource｜><｜hy_User:opensource｜>Bye<｜hy_Assistant:opensource｜>"
     "<think:opensource></think:opensource>"},
    {"ernie4.5",
     "<|begin_of_sentence|>Be brief.\nUser:  Hi \nAssistant: Hello.<|end_of_sentence|>User: Bye\n"
     "Assistant: "},
    {"ling2",
     "<role>SYSTEM</role>Be brief.\ndetailed thinking off<|role_end|><role>HUMAN</role> Hi "
     "<|role_end|><role>ASSISTANT</role>Hello.<|role_end|><role>HUMAN</role>Bye<|role_end|>"
     "<role>ASSISTANT</role>"},
    {"exaone4",
     "[|system|]\nBe brief.[|endofturn|]\n[|user|]\n Hi [|endofturn|]\n[|assistant|]\n<think>\n\n"
     "</think>\n\nHello.[|endofturn|]\n[|user|]\nBye[|endofturn|]\n[|assistant|]\n<think>\n\n"
     "</think>\n\n"},
    {"exaone-moe",
     "<|system|>\nBe brief.<|endofturn|>\n<|user|>\nHi<|endofturn|>\n<|assistant|>\nHello."
     "<|endofturn|>\n<|user|>\nBye<|endofturn|>\n<|assistant|>\n"},
    {"olmo2",
     "<bos><|system|>\nBe brief.\n<|user|>\n Hi \n<|assistant|>\nHello.<eos>\n<|user|>\nBye\n"
     "<|assistant|>\n"},
    {"falcon3",
     "<|system|>\nBe brief.\n<|user|>\n Hi \n<|assistant|>\nHello.<eos>\n<|user|>\nBye\n"
     "<|assistant|>\n"},
    {"command-r",
     "<bos><|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>Be brief.<|END_OF_TURN_TOKEN|>"
     "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>Hi<|END_OF_TURN_TOKEN|>"
     "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>Hello.<|END_OF_TURN_TOKEN|>"
     "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>Bye<|END_OF_TURN_TOKEN|>"
     "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"},
    {"command-r7b",
     "<bos><|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>Be brief.<|END_OF_TURN_TOKEN|>"
     "<|START_OF_TURN_TOKEN|><|USER_TOKEN|> Hi <|END_OF_TURN_TOKEN|>"
     "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|><|START_RESPONSE|>Hello.<|END_RESPONSE|>"
     "<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|USER_TOKEN|>Bye<|END_OF_TURN_TOKEN|>"
     "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|><|START_THINKING|><|END_THINKING|>"},
    {"apertus",
     "<bos><|system_start|>Be brief.<|system_end|><|developer_start|>Deliberation: disabled\nTool "
     "Capabilities: disabled<|developer_end|><|user_start|> Hi <|user_end|><|assistant_start|>"
     "Hello.<|assistant_end|><|user_start|>Bye<|user_end|><|assistant_start|>"},
    {"dots1",
     "<|system|>Be brief.<|endofsystem|><|userprompt|> Hi <|endofuserprompt|><|response|>Hello."
     "<|endofresponse|><|userprompt|>Bye<|endofuserprompt|><|response|>"},
    {"nemotron-nano",
     "<SPECIAL_10>System\nBe brief.\n\n<SPECIAL_11>User\nHi\n<SPECIAL_11>Assistant\nHello.\n"
     "<SPECIAL_12>\n\n<SPECIAL_11>User\nBye\n<SPECIAL_11>Assistant\n<think>\n\n"},
    {"deepseek-v3",
     "<bos>Be brief.<｜User｜> Hi <｜Assistant｜>Hello.<eos><｜User｜>Bye<｜Assistant｜>"},
    {"deepseek-v3.1",
     "<bos>Be brief.<｜User｜> Hi <｜Assistant｜></think>Hello.<eos><｜User｜>Bye<｜Assistant｜>"
     "</think>"},
    {"deepseek-r1",
     "<bos>Be brief.<｜User｜> Hi <｜Assistant｜>Hello.<eos><｜User｜>Bye<｜Assistant｜><think>\n"},
};

}  // namespace

TEST_CASE("A chat is written as the publishers' templates print it", "[chat]") {
  for (const NamedChatFormat& named : chat_formats()) {
    CAPTURE(named.name);
    const TurnFormat* row = turn_format(named.format);
    const auto expected = kPrinted.find(std::string(named.name));
    REQUIRE((row != nullptr) == (expected != kPrinted.end()));
    if (row) CHECK(printed(named.format) == expected->second);
  }
}

TEST_CASE("The tokens of a format are ids, and a text that spells them is text", "[chat]") {
  for (const NamedChatFormat& named : chat_formats()) {
    const TurnFormat* row = turn_format(named.format);
    if (!row) continue;
    CAPTURE(named.name);
    std::string attack;
    for (const std::string& text : tokens_of(*row)) attack += text + "x";
    for (const TokenType type : {TokenType::kControl, TokenType::kUserDefined}) {
      const Tokenizer t = tokenizer_of(*row, type);
      const auto prompt = ChatPrompt::make(named.format, t);
      REQUIRE(prompt.ok());
      const auto count = [&](const std::string& text, const std::string& token) {
        const auto ids = prompt->render(std::vector{user(text)});
        REQUIRE(ids.ok());
        return std::ranges::count(*ids, *t.special_token(token));
      };
      for (const std::string& token : tokens_of(*row))
        CHECK(count(attack, token) == count("", token));
      for (const std::string& token : words(row->tokens))
        CHECK(printed(named.format).find(token) != std::string::npos);
    }
  }
}

TEST_CASE("An answer ends at its format's tokens, whatever the file names", "[chat]") {
  for (const NamedChatFormat& named : chat_formats()) {
    const TurnFormat* row = turn_format(named.format);
    if (!row) continue;
    CAPTURE(named.name);
    const Tokenizer t = tokenizer_of(*row);
    std::set<std::string> ends;
    for (const TokenId id : turn_ends(named.format, t)) ends.emplace(t.piece(id));
    const std::vector<std::string> expected = words(row->ends);
    CHECK(ends == std::set<std::string>(expected.begin(), expected.end()));
    // What closes an answer in the history is an end: one of these, or EOS.
    const std::string_view closing = row->assistant.substr(row->assistant.find("{}") + 2);
    const bool by_eos = closing.starts_with("{eos}");
    const bool by_next = closing.empty() && ends.contains("<|user|>");
    const bool by_token = std::ranges::any_of(
        ends, [&](const std::string& end) { return closing.find(end) != closing.npos; });
    CHECK((by_eos || by_next || by_token));
  }
}

TEST_CASE("What stands in front without a system message", "[chat]") {
  const std::vector<ChatMessage> talk = {user("a")};
  CHECK(printed(ChatFormat::kLing2, talk) ==
        "<role>SYSTEM</role>detailed thinking off<|role_end|><role>HUMAN</role>a<|role_end|>"
        "<role>ASSISTANT</role>");
  CHECK(printed(ChatFormat::kApertus, talk).starts_with("<bos><|developer_start|>Deliberation"));
  CHECK(printed(ChatFormat::kNemotronNano, talk) ==
        "<SPECIAL_10>System\n\n\n<SPECIAL_11>User\na\n<SPECIAL_11>Assistant\n<think>\n\n");
  CHECK(printed(ChatFormat::kHunyuan, talk) == "<|startoftext|>a<|extra_0|>");
  CHECK(printed(ChatFormat::kMiniMaxM2, talk) == "]~!b[]~b]user\na[e~[\n]~b]ai\n<think>\n");
  CHECK(printed(ChatFormat::kSmolLm3, talk) ==
        "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n");
}

TEST_CASE("Reasoning of earlier answers is dropped where the template drops it", "[chat]") {
  const std::vector<ChatMessage> talk = {user("a"), assistant("<think>\nx\n</think>\n\nb"),
                                         user("c")};
  CHECK(printed(ChatFormat::kGlm47, talk) ==
        "[gMASK]<sop><|user|>a<|assistant|></think>b<|user|>c<|assistant|><think>");
  CHECK(printed(ChatFormat::kMiniMaxM2, talk) ==
        "]~!b[]~b]user\na[e~[\n]~b]ai\nb[e~[\n]~b]user\nc[e~[\n]~b]ai\n<think>\n");
  CHECK(printed(ChatFormat::kGranite, talk).find("x\n</think>\n\nb<|end_of_text|>") !=
        std::string::npos);
  CHECK(printed(ChatFormat::kDeepSeekV31, talk).find("</think>\n\nb<eos>") != std::string::npos);
}
