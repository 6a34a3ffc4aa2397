#include "core/catalogue/power_curve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "core/hardware/gpu_architecture.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {
namespace {

struct PowerCurve {
  std::vector<std::pair<double, double>> points;  // share of the power, share of the speed
  std::string source;
};
using PowerCurves = std::map<std::string, PowerCurve, std::less<>>;

PowerCurve read_curve(const TomlTable& t) {
  PowerCurve curve;
  curve.source = t.text("source");
  for (const std::vector<double>& row : t.number_rows("points", 0.0, 2.0))
    if (row.size() == 2) curve.points.emplace_back(row[0], row[1]);
  const auto rises = [](const auto& a, const auto& b) {
    return a.first >= b.first || a.second > b.second;
  };
  if (curve.points.size() < 2 ||
      std::ranges::adjacent_find(curve.points, rises) != curve.points.end())
    t.refuse("points", "expected pairs in rising order");
  t.finish();
  return curve;
}

Result<PowerCurves> read_curves(const Catalogue& catalogue) {
  auto document = TomlDocument::read(catalogue.root() / "hwprofiles/power.toml");
  if (!document) return document.error();
  PowerCurves curves;
  const TomlTable root = document->root();
  for (const TomlTable& t : root.tables("curve")) {
    const std::string architecture = t.text("architecture");
    curves[architecture] = read_curve(t);
  }
  root.finish();
  if (auto error = document->error()) return *error;
  return curves;
}

double interpolated(const PowerCurve& curve, double share) {
  const auto& points = curve.points;
  if (share <= points.front().first) return points.front().second * share / points.front().first;
  for (std::size_t i = 1; i < points.size(); ++i) {
    const auto [x0, y0] = points[i - 1];
    const auto [x1, y1] = points[i];
    if (share <= x1) return y0 + (y1 - y0) * (share - x0) / (x1 - x0);
  }
  return 1;
}

}  // namespace

Result<Sourced<double>> speed_at_power(const Catalogue& catalogue, std::string_view architecture,
                                       double share) {
  const auto curves = read_curves(catalogue);
  if (!curves) return curves.error();
  std::string_view name = architecture;
  for (const GpuArchitecture* at = gpu_architecture(name); at; at = gpu_architecture(name)) {
    if (const auto found = curves->find(name); found != curves->end())
      return Sourced<double>{interpolated(found->second, share),
                             name == architecture ? SourceKind::kPublished : SourceKind::kAssumed,
                             found->second.source};
    name = at->neighbour;
  }
  return bad_input(
      fmt::format("no GPU of the architecture \"{}\" was measured below its power", architecture),
      "leave out power_limit");
}

}  // namespace rigcast
