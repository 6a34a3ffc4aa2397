#include "engine/chat/chat_prompt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

namespace rigcast::engine {
namespace {

// Facts about the formats: openai/harmony's docs/format.md; mistralai/cookbook's
// concept-deep-dive/tokenization/templates.md; the templates in the model files of the others.
std::vector<std::string_view> markers_of(ChatFormat format) {
  switch (format) {
    case ChatFormat::kChatMl:
    case ChatFormat::kChatMlThink: return {"<|im_start|>", "<|im_end|>"};
    case ChatFormat::kLlama3: return {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"};
    case ChatFormat::kMistralV1: return {};
    case ChatFormat::kMistralV3: return {"[INST]", "[/INST]"};
    case ChatFormat::kMistralV7:
      return {"[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"};
    case ChatFormat::kGemma: return {"<start_of_turn>", "<end_of_turn>"};
    case ChatFormat::kGptOss: return {"<|start|>", "<|message|>", "<|channel|>", "<|end|>"};
    case ChatFormat::kDeepSeekV2: return {};
    case ChatFormat::kDeepSeekV3:
    case ChatFormat::kDeepSeekV31:
    case ChatFormat::kDeepSeekR1: return {"<｜User｜>", "<｜Assistant｜>"};
  }
  return {};
}

// Whether a prompt begins with BOS, whatever the file says of texts in general.
bool begins_with_bos(ChatFormat format, const Tokenizer& tokenizer) {
  switch (format) {
    case ChatFormat::kChatMl:
    case ChatFormat::kChatMlThink: return tokenizer.adds_bos();
    case ChatFormat::kGptOss: return false;
    default: return true;
  }
}

// Whether an answer in the history ends with EOS.
bool ends_with_eos(ChatFormat format) {
  switch (format) {
    case ChatFormat::kMistralV1:
    case ChatFormat::kMistralV3:
    case ChatFormat::kMistralV7:
    case ChatFormat::kDeepSeekV2:
    case ChatFormat::kDeepSeekV3:
    case ChatFormat::kDeepSeekV31:
    case ChatFormat::kDeepSeekR1: return true;
    default: return false;
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\v\f\r";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::string_view role_name(ChatRole role) {
  switch (role) {
    case ChatRole::kSystem: return "system";
    case ChatRole::kUser: return "user";
    case ChatRole::kAssistant: return "assistant";
  }
  return {};
}

// An earlier answer without its reasoning, which models are not shown again.
std::string_view without_reasoning(std::string_view answer) {
  constexpr std::string_view kEnd = "</think>";
  const std::size_t end = answer.rfind(kEnd);
  return end == answer.npos ? answer : answer.substr(end + kEnd.size());
}

// All system messages, with a blank line between them.
std::string system_text(std::span<const ChatMessage> messages) {
  std::string text;
  for (const ChatMessage& m : messages)
    if (m.role == ChatRole::kSystem) text += (text.empty() ? "" : "\n\n") + m.text;
  return text;
}

}  // namespace

// Puts together runs of text, each of which is encoded as a whole, and tokens between them.
class ChatPrompt::Writer {
 public:
  explicit Writer(const ChatPrompt& prompt) : p_(prompt) {}

  void text(std::string_view text) { run_ += text; }
  void token(TokenId id) {
    end_run();
    ids_.push_back(id);
  }
  void marker(std::string_view text) { token(p_.markers_.find(text)->second); }
  // A token if the vocabulary has it, else text.
  void marker_or_text(std::string_view text) {
    if (const auto id = p_.tokenizer_.special_token(text))
      token(*id);
    else
      run_ += text;
  }
  void eos() {
    if (const auto id = p_.tokenizer_.eos()) token(*id);
  }
  // Text after a token. SentencePiece puts a space before it: where a file says that its own
  // does not, the space is written.
  void spaced_text(std::string_view content) {
    const bool pieces = p_.tokenizer_.kind() == VocabularyKind::kSentencePiece;
    if (pieces && !p_.tokenizer_.adds_space_prefix()) text(" ");
    text(content);
  }

  std::vector<TokenId> finish() && {
    end_run();
    return std::move(ids_);
  }

 private:
  void end_run() {
    const std::string run = std::exchange(run_, {});
    bool continues = false;
    std::size_t done = 0;
    for (const std::size_t cut : cuts(run)) {
      encode(std::string_view(run).substr(done, cut - done), continues);
      done = cut;
      continues = true;
    }
    encode(std::string_view(run).substr(done), continues);
  }

  // Encoding finds user-defined tokens in any text. Those of the format are cut apart, so that
  // none of their pieces is one.
  std::vector<std::size_t> cuts(std::string_view run) const {
    std::vector<std::size_t> out;
    for (const std::string& text : p_.structure_)
      for (std::size_t at = run.find(text); at != run.npos; at = run.find(text, at + 1))
        out.push_back(at + 1);
    std::ranges::sort(out);
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  void encode(std::string_view text, bool continues) {
    if (text.empty()) return;
    const auto ids = p_.tokenizer_.encode(
        text, {.add_special = false, .parse_special = false, .continues = continues});
    ids_.insert(ids_.end(), ids.begin(), ids.end());
  }

  const ChatPrompt& p_;
  std::string run_;
  std::vector<TokenId> ids_;
};

Result<ChatPrompt> ChatPrompt::make(ChatFormat format, Tokenizer tokenizer) {
  ChatPrompt out(format, std::move(tokenizer));
  const Tokenizer& t = out.tokenizer_;
  for (const std::string_view text : markers_of(format)) {
    const auto id = t.special_token(text);
    if (!id)
      return bad_input(
          fmt::format("the vocabulary has no token {}, which the chat template {} needs", text,
                      name_of(format)),
          "--chat-template NAME: the one that the model was trained with");
    out.markers_.emplace(text, *id);
  }
  if (ends_with_eos(format) && !t.eos())
    return bad_input(fmt::format("the vocabulary has no EOS, which the chat template {} needs",
                                 name_of(format)));
  for (TokenId id = 0; std::size_t(id) < t.size(); ++id) {
    const bool is_marker =
        std::ranges::any_of(out.markers_, [&](const auto& marker) { return marker.second == id; });
    const std::string_view text = t.piece(id);
    if ((is_marker || t.ends_generation(id)) && !t.is_control(id) && text.size() > 1)
      out.structure_.emplace_back(text);
  }
  return out;
}

Result<std::vector<TokenId>> ChatPrompt::render(std::span<const ChatMessage> messages,
                                                const ChatPromptOptions& options) const {
  if (messages.empty()) return bad_input("there is no message");
  if (messages.back().role != ChatRole::kUser)
    return bad_input("the last message is not the user's: there is nothing to answer");
  Writer out(*this);
  if (begins_with_bos(format_, tokenizer_) && tokenizer_.bos()) out.token(*tokenizer_.bos());
  switch (format_) {
    case ChatFormat::kChatMl:
    case ChatFormat::kChatMlThink: write_chatml(messages, out); break;
    case ChatFormat::kLlama3: write_llama3(messages, out); break;
    case ChatFormat::kMistralV1: write_mistral_v1(messages, out); break;
    case ChatFormat::kMistralV3:
    case ChatFormat::kMistralV7: write_mistral(messages, out); break;
    case ChatFormat::kGemma: write_gemma(messages, out); break;
    case ChatFormat::kGptOss: write_gpt_oss(messages, options, out); break;
    case ChatFormat::kDeepSeekV2: write_deepseek_v2(messages, out); break;
    case ChatFormat::kDeepSeekV3:
    case ChatFormat::kDeepSeekV31:
    case ChatFormat::kDeepSeekR1: write_deepseek(messages, out); break;
  }
  return std::move(out).finish();
}

void ChatPrompt::write_chatml(std::span<const ChatMessage> messages, Writer& out) const {
  for (const ChatMessage& m : messages) {
    std::string_view text = m.text;
    if (m.role == ChatRole::kAssistant && text.find("</think>") != text.npos) {
      text = without_reasoning(text);
      text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
    }
    out.marker("<|im_start|>");
    out.text(role_name(m.role));
    out.text("\n");
    out.text(text);
    out.marker("<|im_end|>");
    out.text("\n");
  }
  out.marker("<|im_start|>");
  out.text("assistant\n");
  if (format_ != ChatFormat::kChatMlThink) return;
  out.marker_or_text("<think>");
  out.text("\n");
}

void ChatPrompt::write_llama3(std::span<const ChatMessage> messages, Writer& out) const {
  const auto header = [&](ChatRole role) {
    out.marker("<|start_header_id|>");
    out.text(role_name(role));
    out.marker("<|end_header_id|>");
    out.text("\n\n");
  };
  for (const ChatMessage& m : messages) {
    header(m.role);
    out.text(trim(m.text));
    out.marker("<|eot_id|>");
  }
  header(ChatRole::kAssistant);
}

// The system message is in the user's first one.
void ChatPrompt::write_mistral_v1(std::span<const ChatMessage> messages, Writer& out) const {
  std::string system = system_text(messages);
  for (const ChatMessage& m : messages) {
    if (m.role == ChatRole::kSystem) continue;
    if (m.role == ChatRole::kAssistant) {
      out.text(" ");
      out.text(m.text);
      out.eos();
      continue;
    }
    out.spaced_text("[INST] ");
    if (!system.empty()) out.text(std::exchange(system, {}) + "\n\n");
    out.text(m.text);
    out.text(" [/INST]");
  }
}

// Without tokens for it, the system message is in the user's last one.
void ChatPrompt::write_mistral(std::span<const ChatMessage> messages, Writer& out) const {
  const std::string system = system_text(messages);
  const bool has_tokens = format_ == ChatFormat::kMistralV7;
  if (has_tokens && !system.empty()) {
    out.marker("[SYSTEM_PROMPT]");
    out.spaced_text(system);
    out.marker("[/SYSTEM_PROMPT]");
  }
  for (const ChatMessage& m : messages) {
    if (m.role == ChatRole::kSystem) continue;
    if (m.role == ChatRole::kAssistant) {
      out.spaced_text(m.text);
      out.eos();
      continue;
    }
    out.marker("[INST]");
    const bool is_last = &m == &messages.back();
    out.spaced_text(!has_tokens && is_last && !system.empty() ? system + "\n\n" + m.text : m.text);
    out.marker("[/INST]");
  }
}

// The system message is in the user's first one; the assistant is called the model.
void ChatPrompt::write_gemma(std::span<const ChatMessage> messages, Writer& out) const {
  std::string system = system_text(messages);
  for (const ChatMessage& m : messages) {
    if (m.role == ChatRole::kSystem) continue;
    const bool is_user = m.role == ChatRole::kUser;
    out.marker("<start_of_turn>");
    out.text(is_user ? "user\n" : "model\n");
    if (is_user && !system.empty()) out.text(std::string(trim(std::exchange(system, {}))) + "\n\n");
    out.text(trim(m.text));
    out.marker("<end_of_turn>");
    out.text("\n");
  }
  out.marker("<start_of_turn>");
  out.text("model\n");
}

// Harmony: what others call the system message is the developer's.
void ChatPrompt::write_gpt_oss(std::span<const ChatMessage> messages,
                               const ChatPromptOptions& options, Writer& out) const {
  const auto message = [&](std::string_view role, std::string_view channel, std::string_view text) {
    out.marker("<|start|>");
    out.text(role);
    if (!channel.empty()) {
      out.marker("<|channel|>");
      out.text(channel);
    }
    out.marker("<|message|>");
    out.text(text);
    out.marker("<|end|>");
  };
  message(
      "system", {},
      fmt::format("You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: "
                  "2024-06\n{}\nReasoning: {}\n\n# Valid channels: analysis, commentary, final. "
                  "Channel must be included for every message.",
                  options.date.empty() ? "" : "Current date: " + options.date + "\n",
                  options.reasoning_effort));
  if (const std::string system = system_text(messages); !system.empty())
    message("developer", {}, "# Instructions\n\n" + system);
  for (const ChatMessage& m : messages) {
    if (m.role == ChatRole::kUser) message("user", {}, m.text);
    if (m.role == ChatRole::kAssistant) message("assistant", "final", m.text);
  }
  out.marker("<|start|>");
  out.text("assistant");
}

void ChatPrompt::write_deepseek_v2(std::span<const ChatMessage> messages, Writer& out) const {
  if (const std::string system = system_text(messages); !system.empty()) out.text(system + "\n\n");
  for (const ChatMessage& m : messages) {
    if (m.role == ChatRole::kUser) out.text("User: " + m.text + "\n\n");
    if (m.role != ChatRole::kAssistant) continue;
    out.text("Assistant: " + m.text);
    out.eos();
  }
  out.text("Assistant:");
}

void ChatPrompt::write_deepseek(std::span<const ChatMessage> messages, Writer& out) const {
  out.text(system_text(messages));
  for (const ChatMessage& m : messages) {
    if (m.role == ChatRole::kUser) {
      out.marker("<｜User｜>");
      out.text(m.text);
    }
    if (m.role != ChatRole::kAssistant) continue;
    out.marker("<｜Assistant｜>");
    if (format_ == ChatFormat::kDeepSeekV31) out.marker_or_text("</think>");
    out.text(format_ == ChatFormat::kDeepSeekV3 ? std::string_view(m.text)
                                                : without_reasoning(m.text));
    out.eos();
  }
  out.marker("<｜Assistant｜>");
  if (format_ == ChatFormat::kDeepSeekV31) out.marker_or_text("</think>");
  if (format_ != ChatFormat::kDeepSeekR1) return;
  out.marker_or_text("<think>");
  out.text("\n");
}

}  // namespace rigcast::engine
