#include "engine/tokenizer/stream_decoder.hpp"

#include <utility>

#include "engine/tokenizer/utf8.hpp"

namespace rigcast::engine {

StreamDecoder::StreamDecoder(Tokenizer tokenizer, DecodeOptions options)
    : tokenizer_(std::move(tokenizer)),
      options_(options),
      drop_space_(tokenizer_.adds_space_prefix() && !options.continues) {}

std::string StreamDecoder::push(TokenId id) {
  std::string_view piece = tokenizer_.piece(id);
  if (tokenizer_.is_control(id)) {
    drop_space_ = tokenizer_.adds_space_prefix();
    if (!options_.special) return {};
  } else if (drop_space_ && !piece.empty()) {
    if (piece.front() == ' ') piece.remove_prefix(1);
    drop_space_ = false;
  }
  held_ += piece;
  std::string whole = std::exchange(held_, {});
  const std::size_t tail = incomplete_utf8_tail(whole);
  held_ = whole.substr(whole.size() - tail);
  whole.resize(whole.size() - tail);
  return whole;
}

std::string StreamDecoder::finish() {
  drop_space_ = tokenizer_.adds_space_prefix() && !options_.continues;
  return std::exchange(held_, {});
}

}  // namespace rigcast::engine
