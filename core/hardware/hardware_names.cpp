#include "core/hardware/hardware_names.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text/freetext.hpp"

namespace rigcast {
namespace {

using freetext::match;
using freetext::replaced;

constexpr const char* kParentheses = R"(\([^)]*\))";
constexpr const char* kSize = R"(\b\d{1,5}\s*Gi?B\b)";
// "01:00.0 VGA compatible controller: NVIDIA Corporation GA106 [GeForce RTX 3060] (rev a1)": the
// product is in brackets, behind those of "[AMD/ATI]".
constexpr const char* kLspci = R"(^.*\bcontroller[^:]*:.*\[([^\]]*)\][^\]]*$)";
constexpr const char* kFastestSlot = "5x16";  // the card's own link is the slower one

class Names {
 public:
  void add(std::string name) {
    if (!name.empty() && std::ranges::find(names_, name) == names_.end())
      names_.push_back(std::move(name));
  }
  /// The pattern removed from every name so far, as names of their own.
  void without(const char* pattern, const char* with = " ") {
    const std::vector<std::string> before = names_;
    for (const std::string& name : before) add(replaced(name, pattern, with));
  }
  std::vector<std::string> take() { return std::move(names_); }

 private:
  std::vector<std::string> names_;
};

// Splits at commas and " + " outside parentheses.
std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> items(1);
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    depth += (text[i] == '(') - (text[i] == ')');
    const bool plus = text.compare(i, 3, " + ") == 0;
    if (depth == 0 && (plus || text[i] == ',')) {
      items.emplace_back();
      i += plus ? 2 : 0;
    } else {
      items.back() += text[i];
    }
  }
  return items;
}

std::optional<int> number_of(const std::vector<std::string>& found) {
  if (found.empty()) return std::nullopt;
  return std::stoi(found[1]);
}

std::optional<int> channels_of(const std::string& text) {
  if (const auto n = number_of(match(text, R"(\b(\d{1,2})\s*(?:-\s*)?ch(?:annels?)?\b)"))) return n;
  if (const auto n = number_of(match(text, R"(\b(\d{1,2})x\s*(?:lp)?ddr)"))) return n;
  const auto word = match(text, R"(\b(single|dual|quad|hexa|octa)[ -]channel)");
  if (word.empty()) return std::nullopt;
  const std::string w = freetext::lower(word[1]);
  return w == "single" ? 1 : w == "dual" ? 2 : w == "quad" ? 4 : w == "hexa" ? 6 : 8;
}

std::optional<Bytes> capacity_of(const std::string& text) {
  if (const auto sticks = match(text, R"(\b(\d{1,2})x(\d{1,4})\s*Gi?B\b)"); !sticks.empty())
    return 1_GiB * (std::stod(sticks[1]) * std::stod(sticks[2]));
  if (const auto gib = freetext::gib(text)) return 1_GiB * *gib;
  return std::nullopt;
}

std::string slot_of(const std::string& text) {
  const auto found = match(text, R"(\b(?:gen\s*)?(?:\d/)?([1-6])(?:\.0)?\s*x\s*(16|8|4|2|1)\b)");
  return found.empty() ? "" : fmt::format("{}x{}", found[1], found[2]);
}

std::vector<std::string> parts_of_links(const std::string& text) {
  const std::string plus = replaced(text, R"(\s*(;|\s\+\s)\s*)", ";");
  std::vector<std::string> parts(1);
  for (const char c : plus) {
    if (c == ';')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

}  // namespace

std::vector<std::string> gpu_names(std::string_view text) {
  std::vector<std::string> names;
  for (const std::string& item : split_list(freetext::clipped(text))) {
    const std::string name = replaced(item, R"(^\s+|\s+$)");
    if (!name.empty() && freetext::lower(name) != "none") names.push_back(name);
  }
  return names;
}

// "(gfx906; VRAM size not stated)" is about a chip that is named; "(model not stated)" is not, nor,
// of chips that differ in their cores, "(core count not stated)".
bool is_unnamed(const std::string& part) {
  const std::string name = replaced(part, kParentheses);
  return name.empty() || !match(name, R"(^unknown|\bnot stated|desktop)").empty() ||
         !match(part, R"(\b(?:cores?|model)\b[^)]*\bnot stated)").empty();
}

std::vector<std::string> simpler_gpu_names(const std::string& name) {
  Names names;
  names.add(replaced(replaced(name, R"(^\s+)"), kLspci, "$1"));
  names.without(R"(\bLite Hash Rate\b)");
  names.without(R"(\b\d{1,2}P\+\d{1,2}E\+(\d{1,2})GPU\b)",
                "($1-core GPU)");  // as LocalScore has it
  names.without(R"(\((?:R|TM|C)\)|\bNVIDIA\b|\bAMD\b|\bATI\b|\bIntel\b)");
  names.without(R"(\bGeForce\b)");
  names.without(R"(\bSXM[345]\b)", "SXM");
  names.without(R"(\b80GB HBM3\b)", "SXM");  // as the driver calls the H100 SXM
  names.without(R"(\b(?:Graphics|Generation|Edition|Mac (?:Studio|mini|Pro)|MacBook \w+)\b)");
  names.without(kSize);
  names.without(kParentheses);
  names.without(R"(\b(?:i?GPU|ECO|OC)\b)");
  names.without(R"(^M([1-9])\b)", "Apple M$1");
  return names.take();
}

std::string gpu_family(const std::string& name) {
  const std::vector<std::string> names = simpler_gpu_names(name);
  return names.empty() ? "" : names.back();
}

bool states_gpu_size(const std::string& name) {
  return !match(name, kSize).empty() || !match(name, R"(\d[- ](?:GPU )?cores?\b)").empty();
}

std::vector<std::string> gpu_alternatives(const std::string& name) {
  std::vector<std::string> names(1);
  for (const char c : gpu_family(name)) {
    if (c == '/')
      names.emplace_back();
    else
      names.back() += c;
  }
  const auto common = match(names.front(), R"(^(?:[^\d]*\s)?)");  // words before the model's number
  for (std::size_t i = 1; i < names.size(); ++i) names[i] = common.front() + names[i];
  return names;
}

std::vector<std::string> listed_gpus(const std::string& text) {
  if (!match(text, kLspci).empty()) return {text};
  std::vector<std::string> names(1);
  for (const char c : text) {
    if (c == ',')
      names.emplace_back();
    else
      names.back() += c;
  }
  return names;
}

std::vector<std::string> simpler_cpu_names(const std::string& name) {
  Names names;
  names.add(replaced(name, R"(^\s+)"));
  names.without(R"(\((?:R|TM|C)\)|\bIntel\b|\bAMD\b|\bCPU\b)");
  names.without(R"(\b\d{1,2}th Gen\b)");
  names.without(R"(\s+(?:@|w/|with)\s.*$)");
  names.without(R"(\b\w+-Core Processor\b|\bProcessor\b)");
  names.without(kParentheses);
  names.without(R"(-\s*\d{1,4}\s*Gi?B$)");
  names.without(R"(\b\d{1,3}c\b|\bNPS\d\b)");
  names.without(R"(^1 socket of 2x )", "");
  names.without(R"(\bFCLK \d{3,4}\b|\s\d(?:\.\d{1,2})?\s?GHz$)");
  names.without(R"(\s\d{1,3}\s*Gi?B$)");
  return names.take();
}

StatedRam stated_ram(const std::string& text) {
  StatedRam ram;
  const auto type = match(text, R"(\b\d{0,2}x?((?:lp)?ddr[345]x?)(?:[- ](\d{3,5})\b)?)");
  if (!type.empty()) {
    ram.type = freetext::lower(type[1]);
    if (!type[2].empty()) ram.mega_transfers = std::stoi(type[2]);
  }
  ram.channels = channels_of(text);
  ram.per_socket = freetext::contains(freetext::lower(text), "per socket");
  ram.capacity = capacity_of(text);
  return ram;
}

StatedPcie stated_pcie(const std::string& text, std::size_t gpus) {
  StatedPcie pcie;
  const std::vector<std::string> parts = parts_of_links(text);
  if (gpus > 1 && parts.size() == gpus) {
    for (const std::string& part : parts) {
      const std::string slot = slot_of(part);
      pcie.slots.push_back(slot.empty() ? kFastestSlot : slot);
    }
    return pcie;  // rates of single links cannot be stated
  }
  if (parts.size() > 1) return pcie;
  if (const std::string slot = slot_of(text); !slot.empty()) pcie.slots.push_back(slot);
  const auto rate = match(text, R"((\d{1,3}(?:\.\d{1,3})?)\s*GB/s)");
  if (!rate.empty()) pcie.h2d = BytesPerSecond{std::stod(rate[1]) * 1e9};
  return pcie;
}

}  // namespace rigcast
