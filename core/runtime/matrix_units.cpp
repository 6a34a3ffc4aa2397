#include "core/runtime/matrix_units.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/hardware/gpu_architecture.hpp"

namespace rigcast {
namespace {

std::vector<std::string> read_architectures(const TomlTable& t, const char* key) {
  std::vector<std::string> architectures = t.texts(key);
  for (const std::string& architecture : architectures)
    if (!gpu_architecture(architecture))
      t.refuse(key, fmt::format("no architecture named \"{}\"", architecture));
  return architectures;
}

bool covers(const MatrixUnits& entry, std::string_view architecture, std::optional<double> year) {
  if (year && *year < entry.since.value) return false;
  if (!entry.architectures.empty())
    return std::ranges::find(entry.architectures, architecture) != entry.architectures.end();
  return std::ranges::find(entry.except, architecture) == entry.except.end();
}

}  // namespace

std::vector<MatrixUnits> read_matrix_units(const TomlTable& root, const char* key) {
  using enum Backend;
  std::vector<MatrixUnits> entries;
  for (const TomlTable& t : root.tables(key)) {
    MatrixUnits entry;
    t.require("backend");
    entry.backend = t.choice("backend", kVulkan,
                             {{name(kCuda), kCuda},
                              {name(kRocm), kRocm},
                              {name(kVulkan), kVulkan},
                              {name(kMetal), kMetal},
                              {name(kSycl), kSycl}});
    entry.architectures = read_architectures(t, "architectures");
    entry.except = read_architectures(t, "except");
    if (!entry.architectures.empty() && !entry.except.empty())
      t.refuse("except", "architectures are named already", "keep one of the two");
    entry.since = t.number_figure("since", 2020, 2100);
    t.finish();
    entries.push_back(std::move(entry));
  }
  return entries;
}

bool uses_matrix_units(const std::vector<MatrixUnits>& entries, Backend backend,
                       std::string_view architecture, std::optional<double> year) {
  bool listed = false;
  for (const MatrixUnits& entry : entries) {
    if (entry.backend != backend) continue;
    if (covers(entry, architecture, year)) return true;
    listed = true;
  }
  return !listed;
}

}  // namespace rigcast
