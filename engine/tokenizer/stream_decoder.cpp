#include "engine/tokenizer/stream_decoder.hpp"

#include <utility>

#include "engine/tokenizer/text/utf8.hpp"

namespace rigcast::engine {

StreamDecoder::StreamDecoder(Tokenizer tokenizer, DecodeOptions options)
    : tokenizer_(std::move(tokenizer)),
      options_(options),
      drop_space_(tokenizer_.adds_space_prefix() && !options.continues) {}

std::string StreamDecoder::push(TokenId id) {
  held_ += tokenizer_.next_text(id, drop_space_, options_);
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
