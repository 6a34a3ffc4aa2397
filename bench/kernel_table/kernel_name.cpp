#include "bench/kernel_table/kernel_name.hpp"

#include <cxxabi.h>

#include <charconv>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace rigcast::bench {
namespace {

std::string demangled(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : mangled;
}

void replace_all(std::string& in, std::string_view what, std::string_view by) {
  for (auto at = in.find(what); at != std::string::npos; at = in.find(what, at + by.size()))
    in.replace(at, what.size(), by);
}

// Without the parameters behind the template's arguments.
std::string without_parameters(const std::string& name) {
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    depth += name[i] == '<' ? 1 : name[i] == '>' ? -1 : 0;
    if (name[i] == '(' && depth == 0) return name.substr(0, i);
  }
  return name;
}

// Writes formats by name, "(QuantFormat)10" as "Q4_K", and returns them.
std::vector<QuantFormat> name_formats(std::string& text) {
  constexpr std::string_view kCast = "(QuantFormat)";
  std::vector<QuantFormat> formats;
  for (auto at = text.find(kCast); at != std::string::npos; at = text.find(kCast, at + 1)) {
    int number = -1;
    const char* const digits = text.data() + at + kCast.size();
    const auto [end, error] = std::from_chars(digits, text.data() + text.size(), number);
    if (error != std::errc{} || number < 0 || number >= kQuantFormatCount) continue;
    formats.push_back(QuantFormat(number));
    text.replace(at, std::size_t(end - (text.data() + at)), info(formats.back()).name);
  }
  return formats;
}

}  // namespace

KernelName kernel_name(const std::string& mangled) {
  std::string text = demangled(mangled);
  for (const char* noise : {"rigcast::engine::cuda::", "rigcast::engine::", "rigcast::",
                            "(anonymous namespace)::", "void "})
    replace_all(text, noise, "");
  text = without_parameters(text);
  replace_all(text, ", ", ",");
  replace_all(text, " >", ">");
  std::vector<QuantFormat> formats = name_formats(text);
  std::string function = text.substr(0, text.find('<'));
  return {std::move(text), std::move(function), std::move(formats)};
}

}  // namespace rigcast::bench
