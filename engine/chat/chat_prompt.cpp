#include "engine/chat/chat_prompt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "engine/chat/turn_formats.hpp"

namespace rigcast::engine {
namespace {

std::vector<std::string_view> parts(std::string_view list) {
  std::vector<std::string_view> out;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(' '), list.size());
    out.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return out;
}

// Facts about the formats without a row: openai/harmony's docs/format.md; mistralai/cookbook's
// concept-deep-dive/tokenization/templates.md; the templates in the model files of the others.
std::vector<std::string_view> markers_of(ChatFormat format) {
  if (const TurnFormat* row = turn_format(format)) return parts(row->tokens);
  switch (format) {
    case ChatFormat::kMistralV3: return {"[INST]", "[/INST]"};
    case ChatFormat::kMistralV7:
      return {"[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"};
    case ChatFormat::kGemma: return {"<start_of_turn>", "<end_of_turn>"};
    case ChatFormat::kGptOss: return {"<|start|>", "<|message|>", "<|channel|>", "<|end|>"};
    default: return {};
  }
}

// Whether a prompt begins with BOS, whatever the file says of texts in general.
bool begins_with_bos(ChatFormat format, const Tokenizer& tokenizer) {
  const TurnFormat* row = turn_format(format);
  if (!row) return format != ChatFormat::kGptOss;
  return row->bos == PromptBos::kAlways || (row->bos == PromptBos::kAsFile && tokenizer.adds_bos());
}

// Whether an answer in the history ends with EOS.
bool ends_with_eos(ChatFormat format) {
  if (const TurnFormat* row = turn_format(format))
    return row->assistant.find("{eos}") != row->assistant.npos;
  return format != ChatFormat::kGemma && format != ChatFormat::kGptOss;
}

constexpr std::string_view kBlanks = " \t\n\v\f\r";

std::string_view trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// An earlier answer without its reasoning, which models are not shown again.
std::string_view without_reasoning(std::string_view answer) {
  constexpr std::string_view kEnd = "</think>";
  const std::size_t end = answer.rfind(kEnd);
  return end == answer.npos ? answer : answer.substr(end + kEnd.size());
}

// The message's text as a prompt shows it.
std::string_view shown(const TurnFormat& format, const ChatMessage& m) {
  using Thoughts = TurnFormat::Thoughts;
  std::string_view text = m.text;
  const bool thinks = m.role == ChatRole::kAssistant && text.find("</think>") != text.npos;
  if (thinks && format.thoughts != Thoughts::kKept) {
    text = without_reasoning(text);
    if (format.thoughts == Thoughts::kDroppedWithLines)
      text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  }
  constexpr char kRoles[] = {'s', 'u', 'a'};
  const char role = kRoles[static_cast<std::size_t>(m.role)];
  return format.trims.find(role) == format.trims.npos ? text : trim(text);
}

// All system messages, with a blank line between them.
std::string system_text(std::span<const ChatMessage> messages) {
  std::string text;
  for (const ChatMessage& m : messages)
    if (m.role == ChatRole::kSystem) text += (text.empty() ? "" : "\n\n") + m.text;
  return text;
}

}  // namespace

std::vector<TokenId> turn_ends(ChatFormat format, const Tokenizer& tokenizer) {
  std::vector<TokenId> out;
  if (const TurnFormat* row = turn_format(format))
    for (const std::string_view text : parts(row->ends))
      if (const auto id = tokenizer.special_token(text)) out.push_back(*id);
  return out;
}

// Puts together runs of text, each of which is encoded as a whole, and tokens between them.
class ChatPrompt::Writer {
 public:
  explicit Writer(const ChatPrompt& prompt) : p_(prompt) {
    const TurnFormat* row = turn_format(p_.format_);
    takes_blanks_ =
        row && row->takes_blanks && p_.tokenizer_.kind() == VocabularyKind::kSentencePiece;
  }

  void text(std::string_view text) { run_ += text; }
  void token(TokenId id) {
    end_run();
    ids_.push_back(id);
  }
  void marker(std::string_view text) { token(p_.markers_.find(text)->second); }
  void eos() {
    if (const auto id = p_.tokenizer_.eos()) token(*id);
  }
  // A text of the format itself, in which the format's tokens are ids.
  void fixed(std::string_view text) {
    while (!text.empty()) {
      const auto next = first_marker(text);
      run_ += text.substr(0, next.begin);
      if (next.length > 0) token(next.id);
      text.remove_prefix(next.begin + next.length);
    }
  }
  // A message in a row of the table.
  void message(std::string_view pattern, std::string_view content) {
    const std::size_t at = pattern.find("{}");
    fixed(pattern.substr(0, at));
    text(content);
    std::string_view rest = pattern.substr(at + 2);
    if (rest.starts_with("{eos}")) {
      eos();
      rest.remove_prefix(5);
    }
    fixed(rest);
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
  struct Place {
    std::size_t begin, length;
    TokenId id;
  };

  // The first token of the format in a text, and of several there the longest; else the end.
  Place first_marker(std::string_view text) const {
    Place first{text.size(), 0, -1};
    for (const auto& [marker, id] : p_.markers_) {
      const std::size_t at = text.find(marker);
      if (at < first.begin || (at == first.begin && marker.size() > first.length))
        first = {at, marker.size(), id};
    }
    return first;
  }

  void end_run() {
    std::string run = std::exchange(run_, {});
    if (takes_blanks_) run.erase(0, std::min(run.find_first_not_of(kBlanks), run.size()));
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
  bool takes_blanks_ = false;  // at the beginning of a run, which stands behind a token
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
  if (const TurnFormat* row = turn_format(format)) {
    for (const std::string_view text : parts(row->optional_tokens))
      if (const auto id = t.special_token(text)) out.markers_.emplace(text, *id);
  }
  if (ends_with_eos(format) && !t.eos())
    return bad_input(fmt::format("the vocabulary has no EOS, which the chat template {} needs",
                                 name_of(format)));
  const std::vector<TokenId> ends = turn_ends(format, t);
  for (TokenId id = 0; std::size_t(id) < t.size(); ++id) {
    const bool is_marker =
        std::ranges::any_of(out.markers_, [&](const auto& marker) { return marker.second == id; });
    const bool is_end = t.ends_generation(id) || std::ranges::find(ends, id) != ends.end();
    const std::string_view text = t.piece(id);
    if ((is_marker || is_end) && !t.is_control(id) && text.size() > 1)
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
  if (const TurnFormat* row = turn_format(format_)) {
    write_turns(*row, messages, out);
    return std::move(out).finish();
  }
  switch (format_) {
    case ChatFormat::kMistralV1: write_mistral_v1(messages, out); break;
    case ChatFormat::kGemma: write_gemma(messages, out); break;
    case ChatFormat::kGptOss: write_gpt_oss(messages, options, out); break;
    case ChatFormat::kDeepSeekV2: write_deepseek_v2(messages, out); break;
    default: write_mistral(messages, out); break;
  }
  return std::move(out).finish();
}

void ChatPrompt::write_turns(const TurnFormat& format, std::span<const ChatMessage> messages,
                             Writer& out) const {
  out.fixed(format.front);
  const std::string system = system_text(messages);
  const std::string_view in_front = format.trims.starts_with('s') ? trim(system) : system;
  if (system.empty()) out.fixed(format.no_system);
  if (format.system_in_front && !system.empty()) out.message(format.system, in_front);
  bool first = !system.empty() && !format.user_after_system.empty();
  for (const ChatMessage& m : messages) {
    const std::string_view text = shown(format, m);
    switch (m.role) {
      case ChatRole::kSystem:
        if (!format.system_in_front) out.message(format.system, text);
        break;
      case ChatRole::kUser:
        out.message(std::exchange(first, false) ? format.user_after_system : format.user, text);
        break;
      case ChatRole::kAssistant: out.message(format.assistant, text); break;
    }
  }
  out.fixed(format.answer);
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

}  // namespace rigcast::engine
