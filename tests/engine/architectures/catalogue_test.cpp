// Which models of the catalogue are executed.

#include <filesystem>
#include <set>
#include <string>

#include "engine/architectures/bind_model.hpp"
#include "engine/synth/synthetic_model.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"

namespace rigcast::engine {

// Executing one of them, or adding one to the catalogue, changes this list.
TEST_CASE("Models of the catalogue are executed, but for these", "[engine][architectures]") {
  const std::set<std::string> expected = {"deepseek-v3.2", "gemma-3n-e2b", "gemma-3n-e4b",
                                          "glm-5",         "glm-5.2",      "kimi-linear-48b-a3b",
                                          "ling-3.0-tiny", "minimax-m3",   "muse-glimmer-30b"};
  std::set<std::string> refused;
  int executed = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(test::source_dir()) + "/models")) {
    if (entry.path().extension() != ".toml") continue;
    const auto spec = load_model_spec(entry.path());
    REQUIRE(spec);
    const auto error = check_executable(*spec);
    if (!error) {
      // Hyperparameters, shapes and names are those of its tensors.
      const auto table = make_tensor_table(*spec, *QuantMix::from_name("Q4_0"));
      REQUIRE(table);
      const auto model = make_synthetic_vectors(*spec, *table, 1);
      INFO(spec->id << ": " << (model ? "" : model.error().message));
      CHECK(model.ok());
      ++executed;
      continue;
    }
    refused.insert(spec->id);
    const bool named = error->message.find(spec->architecture) != std::string::npos ||
                       error->message.find(spec->name) != std::string::npos;
    CHECK(named);
  }
  CHECK(refused == expected);
  CHECK(executed == 182);
}

}  // namespace rigcast::engine
