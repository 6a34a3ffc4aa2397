#include "calibration/runs/calibrate_on_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "calibration/fit/fit.hpp"
#include "calibration/runs/run_parameters.hpp"
#include "core/text/toml_edit.hpp"

namespace rigcast::calibration {
namespace {

namespace fs = std::filesystem;

// Names of the files: relative paths for those in the profile's own tree, file names for others.
std::string names_of(std::span<const std::string> files, const fs::path& profile) {
  std::string all;
  for (const std::string& file : files) {
    std::error_code failed;
    const fs::path root = fs::absolute(profile, failed).parent_path().parent_path();
    fs::path place = fs::relative(file, root, failed);
    if (failed || place.empty() || *place.begin() == "..") place = fs::path(file).filename();
    all += (all.empty() ? "" : " and ") + place.string();
  }
  return all;
}

// The profile's `fitted_on` text; entries for the other device stay.
std::string fitted_on_text(const KeptRows& kept) {
  std::set<std::string> names(kept.configurations().begin(), kept.configurations().end());
  for (const std::string& name : kept.profile().fitted_on)
    if ((name.find("GPU") != std::string::npos) != kept.on_gpu()) names.insert(name);
  std::string text = "[\n";
  for (const std::string& name : names) text += fmt::format("  {},\n", toml_text(name));
  return text + "]";
}

}  // namespace

Result<std::string> fitted_profile(const KeptRows& kept, const RunFit& fit,
                                   std::span<const std::string> files) {
  const fs::path& file = kept.profile().files.front();
  std::ifstream in(file, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  const std::string source =
      toml_text(fmt::format("fit on {} of {}", names_of(files, file), kept.date()));
  std::vector<TomlEdit> edits;
  for (std::size_t i = 0; i < fit.parameters.size(); ++i) {
    const Parameter& p = fit.parameters[i];
    edits.push_back({p.path, fmt::format("{{ value = {}, kind = \"fitted\", source = {} }}",
                                         toml_value(p, fit.values[i]), source)});
  }
  edits.push_back({"fitted_on", fitted_on_text(kept)});
  auto out = with_values(text, edits);
  if (!out) return out;
  if (const auto read_back = TomlDocument::parse(*out, file.string()); !read_back)
    return read_back.error();
  return out;
}

Result<RunsCalibration> calibrate_on_runs(std::span<const std::string> files,
                                          const Catalogue& catalogue, int jobs) {
  auto kept = KeptRows::read(files, catalogue);
  if (!kept) return kept.error();
  const auto parameters = run_parameters(kept->profile(), kept->on_gpu());
  auto fit = fit_runs(*kept, parameters, likely(parameters), jobs);
  if (!fit) return fit.error();
  auto text = fitted_profile(*kept, *fit, files);
  if (!text) return text.error();
  return RunsCalibration{*std::move(kept), *std::move(fit), *std::move(text)};
}

}  // namespace rigcast::calibration
