#pragma once
// Logits of a file's bytes on the CPU, with a cache in F32, and as rows.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/backends/cpu/cpu_executor.hpp"
#include "engine/gguf/model/read_model.hpp"
#include "tests/catch.hpp"
#include "tests/engine/architectures/family_files.hpp"
#include "tests/engine/executor_fixture.hpp"
#include "tests/engine/gguf/gguf_fixture.hpp"
#include "tests/engine/logits_compare.hpp"
#include "tests/folder.hpp"
#include "tests/peers/llama_cpp.hpp"
#include "tests/peers/llama_cpp_logits.hpp"

namespace rigcast::engine::fixtures {

/// After every token: a prompt as one batch, then one by one.
inline std::vector<float> own_logits(const std::string& bytes,
                                     const std::vector<std::int32_t>& tokens, std::size_t prompt) {
  const auto file = file_of(bytes);
  REQUIRE(file.ok());
  auto model = load_model(*file);
  REQUIRE(model.ok());
  choose_rope_factors(*model, 0);
  CpuExecutor executor(std::make_shared<const Model>(*std::move(model)),
                       CpuOptions{2, {QuantFormat::kF32, QuantFormat::kF32}, 16, 512});
  std::vector<float> out;
  for (std::size_t first = 0; first < tokens.size();) {
    const std::size_t count = first < prompt ? prompt - first : 1;
    const auto logits = executor.forward(std::span(tokens).subspan(first, count), Logits::kAll);
    out.insert(out.end(), logits.begin(), logits.end());
    first += count;
  }
  return out;
}

inline std::vector<std::vector<float>> rows_of(const std::vector<float>& all, std::size_t width) {
  std::vector<std::vector<float>> out;
  for (auto at = all.begin(); at != all.end(); at += std::ptrdiff_t(width))
    out.emplace_back(at, at + std::ptrdiff_t(width));
  return out;
}

}  // namespace rigcast::engine::fixtures
