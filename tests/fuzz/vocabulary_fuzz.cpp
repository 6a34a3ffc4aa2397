// A file's vocabulary: the first bytes say of every key whether it is there and of which type, then
// which bytes of the file are others; the rest is text. What file_tokenizer makes of it is an
// error, or encodes any text to ids of the vocabulary.

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "engine/gguf/file.hpp"
#include "engine/gguf/header.hpp"
#include "engine/tokenizer/file_vocabulary.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace rigcast;
using namespace rigcast::engine;
using fuzz::Input;

template <class T>
T number(Input& in) {
  T value{};
  const std::string_view bytes = in.take(sizeof value);
  std::memcpy(&value, bytes.data(), bytes.size());
  return value;
}

template <class T>
std::vector<T> numbers(Input& in, std::size_t count) {
  std::vector<T> out(count);
  for (T& value : out) value = number<T>(in);
  return out;
}

std::vector<std::string> texts(Input& in, std::size_t count) {
  std::vector<std::string> out(count);
  for (std::string& text : out) text = in.take(in.below(12));
  return out;
}

template <class T>
std::vector<T> small_numbers(Input& in, std::size_t count, int base, unsigned most) {
  std::vector<T> out(count);
  for (T& value : out) value = T(base + int(in.below(most)));
  return out;
}

// Of any type.
void set_any(GgufHeader& header, const char* key, Input& in) {
  const std::size_t count = in.below(40);
  switch (in.below(9)) {
    case 0: return header.set(key, number<std::uint32_t>(in));
    case 1: return header.set(key, number<std::int64_t>(in));
    case 2: return header.set(key, number<double>(in));
    case 3: return header.set(key, in.byte() % 2 == 0);
    case 4: return header.set(key, std::string(in.take(count)));
    case 5: return header.set(key, numbers<float>(in, count));
    case 6: return header.set(key, numbers<double>(in, count));
    case 7: return header.set(key, numbers<std::int32_t>(in, count));
    default: return header.set(key, texts(in, count));
  }
}

// Mostly the type that it should have.
template <class T>
void set(GgufHeader& header, const char* key, Input& in, const T& make) {
  const unsigned how = in.byte();
  const std::string full = std::string("tokenizer.ggml.") + key;
  if (how < 0x30) return;
  if (how < 0x40) return set_any(header, full.c_str(), in);
  header.set(full, make());
}

std::string header_of(Input& in) {
  GgufHeader header;
  const std::size_t count = in.below(48);
  constexpr const char* kKinds[] = {"gpt2", "llama", "gpt2", "bert"};
  constexpr const char* kNames[] = {"gpt-2", "llama-bpe", "qwen2", "none of these"};
  set(header, "model", in, [&] { return kKinds[in.below(4)]; });
  set(header, "pre", in, [&] { return kNames[in.below(4)]; });
  set(header, "tokens", in, [&] { return texts(in, count); });
  set(header, "scores", in, [&] { return small_numbers<float>(in, count, -16, 16); });
  set(header, "token_type", in, [&] { return small_numbers<std::int32_t>(in, count, 1, 6); });
  set(header, "merges", in, [&] { return texts(in, in.below(24)); });
  for (const char* key :
       {"bos_token_id", "eos_token_id", "eot_token_id", "unknown_token_id", "padding_token_id"})
    set(header, key, in, [&] { return std::uint32_t(in.byte()); });
  for (const char* key : {"add_bos_token", "add_eos_token", "add_space_prefix"})
    set(header, key, in, [&] { return in.byte() % 2 == 0; });
  return header.encode();
}

void change_bytes(std::string& file, Input& in) {
  for (unsigned n = in.below(4); n > 0; --n) {
    const std::size_t at = number<std::uint16_t>(in) % file.size();
    file[at] = char(in.byte());
  }
}

void check(const Tokenizer& t, std::string_view text) {
  for (const bool parse : {false, true}) {
    const auto ids = t.encode(text, {true, parse});
    for (const TokenId id : ids) RIGCAST_ASSERT(id >= 0 && std::size_t(id) < t.size());
    fuzz::sink = fuzz::sink + t.decode(ids, {true, false}).size();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input in(data, size);
  std::string bytes = header_of(in);
  change_bytes(bytes, in);
  const auto file = GgufFile::from_bytes(std::as_bytes(std::span(bytes)), "fuzz");
  if (!fuzz::check(file)) return 0;
  const auto tokenizer = file_tokenizer(*file);
  if (fuzz::check(tokenizer) && *tokenizer) check(**tokenizer, in.rest());
  return 0;
}
