#include "bench/kernel_table/match.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace rigcast::bench {
namespace {

std::optional<ProductKind> kind_of(std::string_view function) {
  constexpr std::pair<std::string_view, ProductKind> kKinds[] = {
      {"matvec_one_format", ProductKind::kMatvec},   {"matvec_two_formats", ProductKind::kMatvec},
      {"matvec_any_format", ProductKind::kMatvec},   {"gate_up_one_format", ProductKind::kGateUp},
      {"gate_up_two_formats", ProductKind::kGateUp}, {"mlp_up_kernel", ProductKind::kMlpUp},
      {"route_token", ProductKind::kRouter},         {"down_experts", ProductKind::kExpertsDown},
      {"attend_in_splits", ProductKind::kAttention},
  };
  for (const auto& [name, kind] : kKinds)
    if (name == function) return kind;
  return std::nullopt;
}

// A kernel that is compiled for formats multiplies no others.
bool takes(const KernelName& kernel, const Product& product) {
  return kernel.formats.empty() || std::ranges::all_of(product.formats, [&](QuantFormat f) {
           return std::ranges::find(kernel.formats, f) != kernel.formats.end();
         });
}

}  // namespace

Result<std::vector<const Product*>> match(std::span<const KernelRun> token,
                                          std::span<const Product> products) {
  std::vector<const Product*> found;
  std::size_t next = 0;
  for (const KernelRun& run : token) {
    const auto kind = kind_of(run.name.function);
    found.push_back(nullptr);
    if (!kind) continue;
    if (next == products.size())
      return bad_input(fmt::format("{} comes after the last product", run.name.text));
    const Product& expected = products[next++];
    if (*kind != expected.kind || !takes(run.name, expected))
      return bad_input(
          fmt::format("product {} is of {}, not {}", next, run.name.text, expected.what));
    found.back() = &expected;
  }
  if (next < products.size())
    return bad_input(fmt::format("{} of {} products were recorded", next, products.size()));
  return found;
}

}  // namespace rigcast::bench
