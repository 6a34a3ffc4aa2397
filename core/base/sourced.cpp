#include "core/base/sourced.hpp"

#include <array>

namespace rigcast {
namespace {
constexpr std::array<std::string_view, kSourceKindCount> kNames = {"measured", "fitted",
                                                                   "published", "spec", "assumed"};
}

std::string_view name(SourceKind kind) { return kNames[std::size_t(kind)]; }

std::optional<SourceKind> source_kind_from(std::string_view text) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == text) return SourceKind(i);
  return std::nullopt;
}

}  // namespace rigcast
