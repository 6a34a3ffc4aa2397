// Whose matrix units a backend uses.
#include "core/runtime/matrix_units.hpp"

#include "tests/catch.hpp"

using namespace rigcast;

namespace {

std::vector<MatrixUnits> entries(const std::string& text) {
  const auto document = TomlDocument::parse(text, "test");
  REQUIRE(document);
  auto read = read_matrix_units(document->root(), "matrix_units");
  if (auto error = document->error()) FAIL(error->text());
  return read;
}

bool is_refused(const std::string& text) {
  const auto document = TomlDocument::parse(text, "test");
  if (!document) return true;
  read_matrix_units(document->root(), "matrix_units");
  return document->error().has_value();
}

const std::string kAllButIntel =
    "[[matrix_units]]\nbackend = \"vulkan\"\nexcept = [\"alchemist\", \"battlemage\"]\n"
    "since = 2024.9\n";
const std::string kOne =
    "[[matrix_units]]\nbackend = \"vulkan\"\narchitectures = [\"battlemage\"]\nsince = 2025.4\n";

}  // namespace

TEST_CASE("A backend uses the matrix units of the GPUs that it names", "[runtime]") {
  const auto all = entries(kAllButIntel + kOne);
  const auto used = [&](Backend backend, std::string_view gpu, std::optional<double> year) {
    return uses_matrix_units(all, backend, gpu, year);
  };
  CHECK(used(Backend::kVulkan, "ada", 2025.0));
  CHECK_FALSE(used(Backend::kVulkan, "ada", 2024.5));
  CHECK_FALSE(used(Backend::kVulkan, "alchemist", 2026.0));
  CHECK_FALSE(used(Backend::kVulkan, "battlemage", 2025.0));
  CHECK(used(Backend::kVulkan, "battlemage", 2025.5));
  CHECK(used(Backend::kVulkan, "battlemage", std::nullopt));  // not said: the newest
  CHECK_FALSE(used(Backend::kVulkan, "alchemist", std::nullopt));
  CHECK(used(Backend::kCuda, "alchemist", 2020.0));  // no entry: those of all
  CHECK(uses_matrix_units({}, Backend::kVulkan, "ada", 2020.0));
}

TEST_CASE("An entry of matrix units names a backend, a date and known GPUs", "[runtime]") {
  for (const char* broken :
       {"since = 2025\n", "backend = \"abacus\"\nsince = 2025\n", "backend = \"vulkan\"\n",
        "backend = \"vulkan\"\nsince = 2025\nexcept = [\"voodoo\"]\n",
        "backend = \"vulkan\"\nsince = 2025\nunknown = 1\n"})
    CHECK(is_refused("[[matrix_units]]\n" + std::string(broken)));
  CHECK(is_refused(kAllButIntel + "architectures = [\"ada\"]\n"));
}
