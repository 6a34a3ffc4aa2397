#include "engine/chat/answer_text.hpp"

#include <algorithm>
#include <utility>

namespace rigcast::engine {
namespace {

// Bytes at the end of the text that a stop begins with.
std::size_t possible_stop(std::string_view text, const std::vector<std::string>& stops) {
  std::size_t longest = 0;
  for (const std::string& stop : stops) {
    for (std::size_t n = std::min(stop.size() - 1, text.size()); n > longest; --n)
      if (text.ends_with(std::string_view(stop).substr(0, n))) longest = n;
  }
  return longest;
}

}  // namespace

AnswerText::AnswerText(Tokenizer tokenizer, AnswerOptions options)
    : tokenizer_(std::move(tokenizer)),
      options_(std::move(options)),
      decoder_(tokenizer_, {.special = false, .continues = options_.continues}) {
  if (!options_.harmony) return;
  message_ = tokenizer_.special_token("<|message|>");
  channel_ = tokenizer_.special_token("<|channel|>");
  end_ = tokenizer_.special_token("<|end|>");
  start_ = tokenizer_.special_token("<|start|>");
  state_ = Channel::kHeader;
}

AnswerPart AnswerText::push(TokenId id) {
  if (stopped_) return {};
  if (is_marker(id, message_)) {
    const bool hidden = header_.starts_with("analysis") || header_.starts_with("commentary");
    state_ = hidden ? Channel::kReasoning : Channel::kFinal;
    return {};
  }
  if (is_marker(id, channel_) || is_marker(id, end_) || is_marker(id, start_)) {
    AnswerPart rest = part_of(decoder_.finish());
    header_.clear();
    state_ = Channel::kHeader;
    return rest;
  }
  return part_of(decoder_.push(id));
}

AnswerPart AnswerText::finish() {
  if (stopped_) return {};
  AnswerPart rest = part_of(decoder_.finish());
  if (!stopped_) rest.text += std::exchange(held_, {});
  return rest;
}

AnswerPart AnswerText::part_of(std::string text) {
  switch (state_) {
    case Channel::kHeader: header_ += text; return {};
    case Channel::kReasoning: return {.text = {}, .reasoning = std::move(text)};
    case Channel::kFinal: return {.text = before_stop(std::move(text)), .reasoning = {}};
  }
  return {};
}

std::string AnswerText::before_stop(std::string text) {
  if (options_.stops.empty()) return text;
  held_ += text;
  std::size_t first = held_.npos;
  for (const std::string& stop : options_.stops) first = std::min(first, held_.find(stop));
  if (first != held_.npos) {
    stopped_ = true;
    held_.resize(first);
    return std::exchange(held_, {});
  }
  const std::size_t out = held_.size() - possible_stop(held_, options_.stops);
  std::string done = held_.substr(0, out);
  held_.erase(0, out);
  return done;
}

}  // namespace rigcast::engine
