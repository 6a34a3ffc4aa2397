#include "tests/peers/llama_bench/flags.hpp"

#include <algorithm>
#include <charconv>

namespace llama_bench {
namespace {

constexpr CacheType kCacheTypes[] = {{"f16", 1},  {"bf16", 30}, {"q8_0", 8}, {"q4_0", 2},
                                     {"q4_1", 3}, {"q5_0", 6},  {"q5_1", 7}, {"iq4_nl", 20}};

template <class Number>
Number number(const std::string& text, Number least) {
  Number out{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || out < least)
    throw Failure("not a number in range: " + text);
  return out;
}

}  // namespace

void take_flags(const std::vector<std::string>& words, const std::vector<Flag>& known) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto flag = std::ranges::find_if(
        known, [&](const Flag& f) { return std::ranges::count(f.names, words[i]) > 0; });
    if (flag == known.end()) throw Failure("unknown flag: " + words[i]);
    const std::string& name = words[i];
    if (!flag->value.empty() && ++i == words.size()) throw Failure(name + " needs a value");
    try {
      flag->take(flag->value.empty() ? "" : words[i]);
    } catch (const Failure& e) {
      throw Failure(name + ": " + e.what());
    }
  }
}

std::string flag_lines(const std::vector<Flag>& flags) {
  std::string out;
  for (const Flag& flag : flags) {
    std::string line = "  ";
    for (const std::string& name : flag.names) line += (line.size() > 2 ? ", " : "") + name;
    if (!flag.value.empty()) line += " " + flag.value;
    if (!flag.meaning.empty()) {
      line.resize(std::max<std::size_t>(line.size() + 1, 44), ' ');
      line += "(" + flag.meaning + ")";
    }
    out += line + "\n";
  }
  return out;
}

std::vector<std::string> split(const std::string& text, const char* separators) {
  std::vector<std::string> out;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find_first_of(separators, begin);
    out.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return out;
    begin = end + 1;
  }
}

int positive(const std::string& text) { return number(text, 1); }
int not_negative(const std::string& text) { return number(text, 0); }
float share(const std::string& text) { return number(text, 0.0f); }
std::optional<int> gpu_layers(const std::string& text) { return number(text, -1); }

std::vector<float> shares(const std::string& text) {
  std::vector<float> out;
  for (const std::string& part : split(text, ",/")) out.push_back(share(part));
  return out;
}

bool truth(const std::string& text) {
  if (text == "1" || text == "true" || text == "on") return true;
  if (text == "0" || text == "false" || text == "off") return false;
  throw Failure("neither 0 nor 1: " + text);
}

int flash_attn(const std::string& text) { return text == "auto" ? -1 : truth(text); }

CacheType cache_type(const std::string& text) {
  for (const CacheType& type : kCacheTypes)
    if (text == type.name) return type;
  throw Failure("no type of a KV cache: " + text);
}

int one_of(const std::string& text, const std::vector<std::string>& names) {
  const auto found = std::ranges::find(names, text);
  if (found != names.end()) return int(found - names.begin());
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  throw Failure(text + " is none of " + all);
}

std::string load_mode(const std::string& text) {
  one_of(text, {"auto", "none", "mmap", "mlock", "mmap+mlock", "dio"});
  return text;
}

std::vector<Override> overrides(const std::string& text) {
  std::vector<Override> out;
  for (const std::string& part : split(text, ";")) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos) throw Failure("no PATTERN=BUFFER: " + part);
    out.push_back({part.substr(0, equals), part.substr(equals + 1)});
  }
  return out;
}

}  // namespace llama_bench
