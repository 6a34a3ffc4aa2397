#include "probe/rig_file.hpp"

#include <fmt/format.h>

namespace rigcast::probe {
namespace {

// Removes characters of a name that could end the TOML text.
std::string clean(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c >= ' ' && c != '"' && c != '\\' && c != '\x7f') out += c;
  return out;
}

}  // namespace

void RigFile::text(std::string_view key, std::string_view value) {
  out_ += fmt::format("{} = \"{}\"\n", key, clean(value));
}

void RigFile::texts(std::string_view key, const std::vector<std::string>& values) {
  std::string list;
  for (const std::string& value : values)
    list += fmt::format("{}\"{}\"", list.empty() ? "" : ", ", clean(value));
  out_ += fmt::format("{} = [{}]\n", key, list);
}

void RigFile::number(std::string_view key, int value) {
  out_ += fmt::format("{} = {}\n", key, value);
}

void RigFile::flag(std::string_view key, bool value) {
  out_ += fmt::format("{} = {}\n", key, value);
}

void RigFile::rate(std::string_view key, const Samples& samples, std::string_view how) {
  figure(key, fmt::format("{:.4g} GB/s", samples.median / 1e9), samples, how);
}

void RigFile::frequency(std::string_view key, const Samples& samples, std::string_view how) {
  figure(key, fmt::format("{:.4g} GHz", samples.median / 1e9), samples, how);
}

void RigFile::flops(std::string_view key, const Samples& samples, std::string_view how) {
  figure(key, fmt::format("{:.4g} GFLOP/s", samples.median / 1e9), samples, how);
}

void RigFile::time(std::string_view key, const Samples& samples, std::string_view how) {
  figure(key, fmt::format("{:.4g} us", samples.median * 1e6), samples, how);
}

void RigFile::size(std::string_view key, const Samples& samples, std::string_view how) {
  figure(key, fmt::format("{:.0f} MiB", samples.median / 0x1p20), samples, how);
}

void RigFile::small_size(std::string_view key, Bytes value, std::string_view how) {
  figure(key, fmt::format("{:.0f} KiB", value / 1_KiB), Samples{value.value, 0, 1}, how);
}

void RigFile::size(std::string_view key, Bytes value, std::string_view how) {
  size(key, Samples{value.value, 0, 1}, how);
}

void RigFile::figure(std::string_view key, const std::string& value, const Samples& samples,
                     std::string_view how) {
  if (samples.n == 0) return;
  out_ += fmt::format(
      "{} = {{ value = \"{}\", kind = \"measured\", n = {}, spread = {:.3f}, source = \"{}, {}\" "
      "}}\n",
      key, value, samples.n, samples.spread, how, date_);
}

}  // namespace rigcast::probe
