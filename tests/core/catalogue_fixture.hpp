#pragma once
// The data of the source tree, and scenarios written as text.

#include <optional>
#include <string>
#include <utility>

#include "core/catalogue/catalogue.hpp"
#include "core/scenario/scenario.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"

namespace rigcast::fixtures {

inline const Catalogue& catalogue() {
  static const Catalogue shared{test::source_dir()};
  return shared;
}

/// The scenario of a text, as if it were a file "s.toml".
inline Result<Scenario> scenario(const std::string& text) {
  const auto document = TomlDocument::parse(text, "s.toml");
  if (!document) return document.error();
  return make_scenario(*document, catalogue());
}

/// The error's text, or nothing if there was none.
inline std::string error_of(const std::string& text) {
  const auto made = scenario(text);
  return made ? "" : made.error().text();
}

/// The scenario of a text that is right.
inline Scenario made(const std::string& text) {
  auto s = scenario(text);
  INFO(error_of(text));
  REQUIRE(s);
  return *std::move(s);
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Every key of a scenario file, as docs and design write it.
inline const std::string kFullScenario = R"([rig]
gpu = ["rtx-3060-12gb"]
cpu = "core-i7-8700"
ram = "2xddr4-2666:32GiB"
ssd = "sata-ssd"
pcie = "3x16"
os = "linux"
vram_reserved = "300 MiB"
[model]
name = "mistral-7b-v0.3"
quant = "Q4_K_M"
[placement]
gpu_layers = "auto"
tensor_split = [1.0]
split_mode = "layer"
cpu_moe_layers = 0
cpu_ffn_layers = 0
decode_device = "gpu"
[kv]
policy = "paged"
type_k = "f16"
type_v = "f16"
threshold = 0.95
hot_tokens = 512
block_tokens = 128
cold_type = "q4_0"
evict = "oldest"
prefetch = true
[runtime]
name = "rigcast"
threads = 6
batch = 2048
ubatch = 512
flash_attention = true
backend = "auto"
build = "2026-01"
mmap = true
numa = "none"
cpu_blas = false
op_offload = true
[workload]
prompt_tokens = 512
output_tokens = 6656
context = 8192
users = 1
start = "warm"
)";

}  // namespace rigcast::fixtures
