// Shapes from config.json: those of published models are those of the catalogue.

#include "core/model/hugging_face_config.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>

#include "core/model/kv_bytes.hpp"
#include "core/model/tensor_table.hpp"
#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"
#include "tests/folder.hpp"
#include "tests/paths.hpp"

using namespace rigcast;
using fixtures::catalogue;
using fixtures::contains;
using nlohmann::json;

namespace {

// Keys that determine shapes, with the values of the published files.
const std::filesystem::path kConfigs =
    std::filesystem::path(test::source_dir()) / "tests/data/hugging_face";

json config(const char* id) {
  std::ifstream in(kConfigs / (std::string(id) + ".json"));
  return json::parse(in);
}

std::string error_of(const json& config) {
  const auto spec = parse_hugging_face_config(config.dump(), "config.json");
  return spec ? "" : spec.error().text();
}

std::uint64_t bytes_of(const ModelSpec& spec, const char* mix) {
  const auto table = make_tensor_table(spec, *QuantMix::from_name(mix));
  REQUIRE(table);
  return table->bytes();
}

}  // namespace

TEST_CASE("A config.json gives the tensors and the cache of the catalogue's model", "[hf]") {
  int models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kConfigs)) {
    const std::string id = entry.path().stem().string();
    INFO(id);
    const auto spec = read_hugging_face_config(entry.path());
    if (!spec) FAIL(spec.error().text());
    const auto own = catalogue().model(id);
    REQUIRE(own);
    CHECK(spec->architecture == own->architecture);
    CHECK(spec->context == own->context);
    for (const char* mix : {"BF16", "Q8_0", "Q4_K_M"})
      CHECK(bytes_of(*spec, mix) == bytes_of(*own, mix));
    for (const TokenCount tokens : {1, 1000, 5000, 100'000})
      CHECK(kv_bytes(*spec, tokens, {}) == kv_bytes(*own, tokens, {}));
    const auto active = [&](const ModelSpec& m) {
      return make_tensor_table(m, *QuantMix::from_name("Q4_K_M"))->active_bytes(m);
    };
    CHECK(active(*spec) == active(*own));
    ++models;
  }
  CHECK(models >= 35);
}

TEST_CASE("A config.json is named by its folder, and in the hub's cache by its repository",
          "[hf]") {
  const test::Folder folder;
  const auto write = [&](const std::string& path) {
    const std::filesystem::path file = folder / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << config("qwen3-8b");
    return read_hugging_face_config(file);
  };
  CHECK(write("My-Model/config.json")->id == "my-model");
  CHECK(write("models--Qwen--Qwen3-8B/snapshots/0123abcd/config.json")->id == "qwen3-8b");
  CHECK(write("other.json")->name == "other");
}

TEST_CASE("An unknown architecture is refused with those that are known", "[hf]") {
  json unknown = config("qwen3-8b");
  unknown["architectures"] = {"MambaForCausalLM"};
  CHECK(contains(error_of(unknown), "config.json: the architecture \"MambaForCausalLM\""));
  CHECK(contains(error_of(unknown), "Qwen3ForCausalLM"));
  for (const json& none : {json(), json("x"), json::array(), json(3)}) {
    unknown["architectures"] = none;
    CHECK(contains(error_of(unknown), "architectures"));
  }
}

TEST_CASE("What a spec cannot express is refused", "[hf]") {
  const auto refused = [](const char* id, const char* key, const json& value, const char* why) {
    json changed = config(id);
    changed[changed.contains("text_config") ? "text_config" : key] =
        changed.contains("text_config") ? [&] {
          json text = changed["text_config"];
          text[key] = value;
          return text;
        }()
                                        : value;
    INFO(id << " " << key << ": " << error_of(changed));
    CHECK(contains(error_of(changed), why));
  };
  refused("qwen3-30b-a3b", "mlp_only_layers", {0, 1}, "mlp_only_layers");
  refused("gemma-4-e4b", "use_double_wide_mlp", true, "two widths");
  refused("falcon-7b", "bias", true, "Falcon");
  refused("qwen3-8b", "attention_bias", true, "attention_bias");
  json odd = config("gpt-oss-20b");
  odd["layer_types"][1] = "sliding_attention";
  CHECK(contains(error_of(odd), "no period"));
}

TEST_CASE("Figures that are missing, of another type or out of range are refused by name", "[hf]") {
  const json good = config("qwen3-8b");
  for (const char* key : {"num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size",
                          "max_position_embeddings", "intermediate_size"}) {
    json without = good;
    without.erase(key);
    CHECK(contains(error_of(without), fmt::format("\"{}\" is missing", key)));
    for (const json& bad : {json(-1), json(1e300), json("8"), json(2.5), json::array(),
                            json(18446744073709551615u), json(true)}) {
      json changed = good;
      changed[key] = bad;
      INFO(key << " = " << bad);
      CHECK(contains(error_of(changed), key));
    }
  }
  json shared = config("deepseek-v3");
  shared["n_shared_experts"] = 1024;
  shared["moe_intermediate_size"] = 1 << 20;
  CHECK(contains(error_of(shared), "shared experts"));
  json heads = good;
  heads["num_key_value_heads"] = 5;
  CHECK(contains(error_of(heads), "multiple"));
}

TEST_CASE("Text that is no config.json is refused", "[hf]") {
  for (const char* text : {"", "{", "[]", "null", "\"x\"", "{} {}", "\xff"}) {
    const auto spec = parse_hugging_face_config(text, "config.json");
    INFO(text);
    CHECK_FALSE(spec);
  }
  CHECK_FALSE(parse_hugging_face_config(std::string(200'000, '['), "config.json"));
  const test::Folder folder;
  CHECK_FALSE(read_hugging_face_config(folder / "none.json"));
  const std::string large = folder.write("config.json", std::string((4u << 20) + 2, ' '));
  CHECK(contains(read_hugging_face_config(large).error().message, "larger than 4 MiB"));
}

TEST_CASE("A config.json with any bytes changed is read or refused, never worse", "[hf]") {
  std::mt19937 random(1);
  const auto below = [&](std::size_t n) { return std::size_t(random()) % n; };
  constexpr char kBytes[] = "0123456789.-e[]{}\":,nulltrue \xff";
  int read = 0;
  for (const char* id : {"qwen3-next-80b-a3b", "gemma-4-26b-a4b", "deepseek-v3", "falcon2-11b"}) {
    const std::string good = config(id).dump();
    for (int round = 0; round < 1000; ++round) {
      std::string text = good;
      for (std::size_t changes = 1 + below(3); changes > 0; --changes)
        text[below(text.size())] = kBytes[below(sizeof kBytes - 1)];
      if (round % 10 == 0) text.resize(below(text.size()));
      const auto spec = parse_hugging_face_config(text, "config.json");
      if (!spec) {
        CHECK_FALSE(spec.error().message.empty());
        continue;
      }
      ++read;
      CHECK(spec->layers >= 1);
      CHECK(spec->heads % spec->kv_heads == 0);
      CHECK(kv_bytes(*spec, 1000, {}) >= 0);
    }
  }
  CHECK(read > 100);
}
