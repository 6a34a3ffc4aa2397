#pragma once
// A figure and how we know it. A report counts what it rests on by kind.

#include <optional>
#include <string>
#include <string_view>

namespace rigcast {

enum class SourceKind {
  kMeasured,   // on this rig
  kFitted,     // from benchmark rows of other rigs
  kPublished,  // measured by others
  kSpec,       // data sheet
  kAssumed,    // nobody measured it
};
inline constexpr int kSourceKindCount = 5;

std::string_view name(SourceKind kind);
std::optional<SourceKind> source_kind_from(std::string_view text);

template <class T>
struct Sourced {
  T value{};
  SourceKind kind = SourceKind::kAssumed;
  std::string source{};
};

}  // namespace rigcast
