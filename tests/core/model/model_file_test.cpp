// A scenario of a model file, whoever reads it.

#include "core/model/model_file.hpp"

#include "core/scenario/scenario.hpp"
#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"
#include "tests/core/model_fixtures.hpp"

using namespace rigcast;
using fixtures::contains;

namespace {

const std::string kRig = "[rig]\ngpu = 'rtx-3060-12gb'\n[model]\n";

// Reads Llama 3.1 8B out of "llama.gguf", and nothing out of anything else.
Result<ModelFile> read_stub(const std::filesystem::path& path) {
  if (path != "llama.gguf") return bad_input("not a model", "name another", SourceRef{path});
  const ModelSpec spec = fixtures::llama_3_1_8b();
  const auto mix = QuantMix::from_name("Q8_0");
  auto table = make_tensor_table(spec, *mix);
  return ModelFile{spec, *std::move(table), "its own"};
}

Result<Scenario> scenario_of(const std::string& model, const ModelFileReader& reader = read_stub) {
  Catalogue catalogue = fixtures::catalogue();
  if (reader) catalogue.read_model_files_with(reader);
  const auto document = TomlDocument::parse(kRig + model, "s.toml");
  REQUIRE(document.ok());
  return make_scenario(*document, catalogue);
}

void check_refused(const std::string& model, const std::string& expected) {
  const auto made = scenario_of(model);
  REQUIRE_FALSE(made.ok());
  INFO(made.error().text());
  CHECK(contains(made.error().text(), expected));
}

}  // namespace

TEST_CASE("A scenario of a model file has the file's spec, tensors and mix", "[scenario]") {
  const auto made = scenario_of("file = 'llama.gguf'\n");
  REQUIRE(made.ok());
  CHECK(made->model.layers == 32);
  CHECK(made->quant == "its own");
  CHECK(made->tensors.bytes() == 8'532'934'912);
}

TEST_CASE("A model file excludes what it brings itself", "[scenario]") {
  check_refused("file = 'llama.gguf'\nname = 'phi-4'\n",
                "s.toml:5:8: model.name: a model file was named, which has its own name");
  check_refused("file = 'llama.gguf'\nquant = 'Q4_0'\n", "model.quant");
  check_refused("file = 'llama.gguf'\nsize = '4 GiB'\n", "leave out model.size, or model.file");
}

TEST_CASE("What the reader of model files refuses is refused where the file is named",
          "[scenario]") {
  check_refused("file = 'other.gguf'\n", "s.toml:4:8: model.file: other.gguf: not a model");
  check_refused("file = 7\n", "model.file: expected text");
  check_refused("file = 'llama.gguf'\nexperts_used = 2\n", "has no experts");
  check_refused("file = 'llama.gguf'\nfoo = 2\n", "foo");
  const auto unread = scenario_of("file = 'llama.gguf'\n", nullptr);
  REQUIRE_FALSE(unread.ok());
  CHECK(contains(unread.error().text(), "this program reads no model files"));
}
