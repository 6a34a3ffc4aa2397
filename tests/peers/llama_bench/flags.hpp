#pragma once
// Flags of a command line, and the values that they take. Each throws Failure for what its flag
// cannot mean.

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/peers/llama_bench/settings.hpp"

namespace llama_bench {

struct Flag {
  std::vector<std::string> names;
  std::string value;  // as --help names it; empty: the flag takes none
  std::string meaning;
  std::function<void(const std::string&)> take;
};

/// Hands each flag of `words` its value. Throws Failure with the flag's name.
void take_flags(const std::vector<std::string>& words, const std::vector<Flag>& known);
/// Lines of --help.
std::string flag_lines(const std::vector<Flag>& flags);

std::vector<std::string> split(const std::string& text, const char* separators);
/// A flag that sets `out`.
template <class T, class Parse>
Flag one(std::vector<std::string> names, std::string value, std::string meaning, T& out,
         Parse parse) {
  return {std::move(names), std::move(value), std::move(meaning),
          [&out, parse](const std::string& text) { out = parse(text); }};
}
/// A flag with values between commas.
template <class T, class Parse>
Flag list(std::vector<std::string> names, std::string value, std::string meaning,
          std::vector<T>& out, Parse parse) {
  return {std::move(names), std::move(value), std::move(meaning), [&out, parse](const auto& text) {
            for (const std::string& part : split(text, ",")) out.push_back(parse(part));
          }};
}

int positive(const std::string& text);
int not_negative(const std::string& text);
float share(const std::string& text);                // 0 or more
std::vector<float> shares(const std::string& text);  // between ',' or '/'
bool truth(const std::string& text);
int one_of(const std::string& text, const std::vector<std::string>& names);
int flash_attn(const std::string& text);  // -1: auto
std::optional<int> gpu_layers(const std::string& text);
CacheType cache_type(const std::string& text);
std::string load_mode(const std::string& text);
std::vector<Override> overrides(const std::string& text);

}  // namespace llama_bench
