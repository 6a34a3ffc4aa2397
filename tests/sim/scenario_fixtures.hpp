#pragma once
// Scenarios for tests: one rig and model, and what differs from them as keys of a scenario file.

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/catalogue/catalogue.hpp"
#include "core/scenario/scenario.hpp"
#include "core/text/toml_reader.hpp"
#include "tests/paths.hpp"

namespace rigcast::fixtures {

/// "rig.gpu" = "rtx-4090": text without quotes, other values as in TOML.
using Settings = std::vector<std::pair<std::string, std::string>>;

/// An 8B model of 32 layers on a 12 GB card. Names every part, so that nothing is assumed,
/// and fills VRAM to the last byte.
inline constexpr const char* kSmallRig = R"(
  [rig]
  gpu = ["rtx-3060-12gb"]
  cpu = "ryzen-7-5800x"
  ram = "2xddr4-3200:64GiB"
  ssd = "samsung-990-pro"
  pcie = "4x16"
  [model]
  name = "llama-3.1-8b"
  quant = "Q4_K_M"
  [placement]
  gpu_layers = 33
  [runtime]
  headroom = "0 GiB"
  [workload]
  prompt_tokens = 512
  output_tokens = 512
  context = 8192
)";

/// Throws the reader's error: in a test a scenario that does not read is a mistake of the test.
inline Scenario scenario(const Settings& settings = {}, const char* base = kSmallRig) {
  auto document = TomlDocument::parse(base, "scenario of a test");
  if (!document) throw std::invalid_argument(document.error().text());
  for (const auto& [key, value] : settings)
    if (auto error = document->set(key, value, key)) throw std::invalid_argument(error->text());
  auto made = make_scenario(*document, Catalogue(test::source_dir()));
  if (!made) throw std::invalid_argument(made.error().text());
  return *std::move(made);
}

inline std::shared_ptr<const Scenario> shared_scenario(const Settings& settings = {}) {
  return std::make_shared<const Scenario>(scenario(settings));
}

/// `settings` and then `more`: of a key that both set, the later value counts.
inline Settings with(Settings settings, const Settings& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

}  // namespace rigcast::fixtures
