#include "engine/tokenizer/special_tokens.hpp"

namespace rigcast::engine {
namespace {

std::uint64_t edge(std::uint32_t node, char byte) {
  return std::uint64_t{node} << 8 | static_cast<unsigned char>(byte);
}

}  // namespace

void SpecialTokens::add(std::string_view text, TokenId id) {
  if (text.empty()) return;
  first_bytes_.set(static_cast<unsigned char>(text.front()));
  std::uint32_t node = 0;
  for (const char c : text) {
    const auto [next, is_new] = edges_.emplace(edge(node, c), std::uint32_t(ends_.size()));
    if (is_new) ends_.push_back(-1);
    node = next->second;
  }
  if (ends_[node] < 0) ends_[node] = id;
}

std::optional<SpecialTokens::Found> SpecialTokens::find(std::string_view text,
                                                        std::size_t from) const {
  if (edges_.empty()) return std::nullopt;
  for (std::size_t at = from; at < text.size(); ++at) {
    if (!first_bytes_.test(static_cast<unsigned char>(text[at]))) continue;
    if (auto found = longest_at(text, at)) return found;
  }
  return std::nullopt;
}

std::optional<SpecialTokens::Found> SpecialTokens::longest_at(std::string_view text,
                                                              std::size_t begin) const {
  std::optional<Found> longest;
  std::uint32_t node = 0;
  for (std::size_t at = begin; at < text.size(); ++at) {
    const auto next = edges_.find(edge(node, text[at]));
    if (next == edges_.end()) break;
    node = next->second;
    if (ends_[node] >= 0) longest = Found{begin, at + 1 - begin, ends_[node]};
  }
  return longest;
}

}  // namespace rigcast::engine
