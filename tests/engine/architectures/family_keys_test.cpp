// Keys of RoPE scaling, of scales and of sections: what they make of a model, and values of hostile
// files, which are refused with the key.

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "engine/gguf/model/read_model.hpp"
#include "engine/model/rope.hpp"
#include "tests/catch.hpp"
#include "tests/engine/architectures/family_files.hpp"
#include "tests/engine/gguf/gguf_fixture.hpp"

namespace rigcast::engine {
namespace {

using namespace fixtures;

Result<Model> read_with(const std::string& architecture,
                        std::vector<std::pair<std::string, KeyValue>> keys,
                        const std::function<void(FamilyFile&)>& change = {}) {
  FamilyFile file{architecture, family_traits(architecture), std::move(keys)};
  file.traits.layers = 1;
  if (change) change(file);
  const std::string bytes = fixtures::bytes_of(file);
  const auto parsed = file_of(bytes);
  REQUIRE(parsed.ok());
  return load_model(*parsed);
}

const std::string kYarn = "yarn";

// The key must be named, whatever is wrong with it.
void check_refused(const std::string& architecture,
                   std::vector<std::pair<std::string, KeyValue>> keys) {
  const std::string named = architecture + "." + keys.back().first;
  const std::string said = error_of(read_with(architecture, std::move(keys)));
  CAPTURE(named, said);
  CHECK(contains(said, named));
}

}  // namespace

TEST_CASE("YaRN's keys are read, with llama.cpp's values for those that are absent", "[gguf]") {
  const auto model = read_with("llama", {{"rope.scaling.type", kYarn},
                                         {"rope.scaling.factor", 4.0f},
                                         {"rope.scaling.attn_factor", 0.5f}});
  INFO(error_of(model));
  REQUIRE(model.ok());
  const Hyperparameters& h = model->hyper;
  REQUIRE(h.yarn);
  CHECK(h.yarn->context == 512);  // the model's
  CHECK(h.yarn->fast == 32);
  CHECK(h.yarn->slow == 1);
  CHECK(h.rope_scale == 0.25f);
  CHECK(double(h.rope_magnitude) == Approx(0.5 * (1 + 0.1 * std::log(4.0))));
  const auto part = read_with("qwen3", {{"rope.scaling.type", kYarn},
                                        {"rope.scaling.factor", 4.0f},
                                        {"rope.scaling.original_context_length", 128u},
                                        {"rope.scaling.yarn_beta_fast", 16.0f},
                                        {"rope.scaling.yarn_beta_slow", 2.0f},
                                        {"rope.scaling.yarn_log_multiplier", 0.5f}});
  REQUIRE(part.ok());
  CHECK(part->hyper.yarn->context == 128);
  CHECK(part->hyper.yarn->fast == 16);
  CHECK(part->hyper.yarn->slow == 2);
  CHECK(double(part->hyper.rope_magnitude) ==
        Approx((1 + 0.1 * std::log(4.0)) / (1 + 0.05 * std::log(4.0))));
}

TEST_CASE("Values of RoPE scaling that make no sense are refused with their key", "[gguf]") {
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  for (const float odd : {0.0f, -1.0f, NAN, kInfinite, 1e30f}) {
    check_refused("llama", {{"rope.scaling.attn_factor", odd}});
    check_refused("llama", {{"rope.scaling.type", kYarn}, {"rope.scaling.yarn_beta_fast", odd}});
    check_refused("llama", {{"rope.scaling.type", kYarn}, {"rope.scaling.yarn_beta_slow", odd}});
  }
  for (const float odd : {-1.0f, NAN, kInfinite, 1e30f}) {
    check_refused("llama", {{"rope.scaling.factor", odd}});
    check_refused("llama", {{"rope.scaling.type", kYarn}, {"rope.scaling.factor", odd}});
    check_refused("llama",
                  {{"rope.scaling.type", kYarn}, {"rope.scaling.yarn_log_multiplier", odd}});
    check_refused("mistral3", {{"attention.temperature_scale", odd}});
    check_refused("mistral3", {{"attention.scale", odd}});
    check_refused("gemma3", {{"final_logit_softcapping", odd}});
  }
  check_refused("llama", {{"rope.scaling.type", kYarn}, {"rope.scaling.yarn_ext_factor", 0.5f}});
  check_refused("llama",
                {{"rope.scaling.type", kYarn}, {"rope.scaling.original_context_length", 0u}});
  check_refused("llama",
                {{"rope.scaling.type", std::string("longrope")}, {"rope.scaling.factor", 32.0f}});
}

TEST_CASE("Groups, functions and scales of routers are read, and refused where they make no sense",
          "[gguf]") {
  const auto with = [](std::vector<std::pair<std::string, KeyValue>> keys) {
    return read_with("minimax-m2", std::move(keys), [](FamilyFile& f) { f.traits.experts = 8; });
  };
  const auto sound = with({{"expert_group_count", 4u},
                           {"expert_group_used_count", 2u},
                           {"expert_weights_scale", 2.5f}});
  INFO(error_of(sound));
  REQUIRE(sound.ok());
  CHECK(sound->hyper.routing.sigmoid);
  CHECK(sound->hyper.routing.groups == 4);
  CHECK(sound->hyper.routing.groups_used == 2);
  CHECK(sound->hyper.routing.scale == 2.5f);
  for (const auto& [groups, used] :
       {std::pair{3u, 2u}, {8u, 4u}, {5u, 1u}})  // no equal groups, of one, no equal ones
    CHECK(contains(
        error_of(with({{"expert_group_count", groups}, {"expert_group_used_count", used}})),
        "groups of which"));
  CHECK(contains(error_of(with({{"expert_group_count", 4u}, {"expert_group_used_count", 5u}})),
                 "expert_group_used_count"));
  CHECK(contains(error_of(with({{"expert_group_count", 9u}})), "expert_group_count"));
  for (const float odd : {-1.0f, NAN, 1e30f})
    CHECK(contains(error_of(with({{"expert_weights_scale", odd}})), "expert_weights_scale"));
}

TEST_CASE("Keys and values of latent attention in one matrix are refused by name", "[gguf]") {
  TinyTraits traits = family_traits("deepseek2");
  traits.latent = true;
  const ModelSpec spec = tiny_spec(traits);
  const NamedTensor old{"blk.0.attn_kv_b.weight", QuantFormat::kF32, {64, 384}, nullptr};
  const auto bound = bind_model(spec, default_hyperparameters(spec), {&old, 1}, nullptr);
  CHECK(contains(error_of(bound), "\"attn_kv_b.weight\""));
}

TEST_CASE("Llama 4 has chunks of 8,192 tokens, and scales queries where nothing turns", "[gguf]") {
  const auto model = read_with("llama4", {}, [](FamilyFile& f) {
    f.traits.layers = 4;
    f.traits.experts = 4;
    f.traits.experts_used = 1;
    f.traits.shared_ffn = f.traits.ffn;
  });
  INFO(error_of(model));
  REQUIRE(model.ok());
  const auto& layers = model->layers;
  CHECK(layers[0].attention.chunked);
  CHECK(layers[0].attention.first_attended(8191) == 0);
  CHECK(layers[0].attention.first_attended(8192) == 8192);
  CHECK(layers[0].attention.first_attended(16383) == 8192);
  CHECK(layers[3].attention.window == 0);
  CHECK(layers[3].attention.first_attended(16383) == 0);
  for (int i = 0; i < 4; ++i) {
    const auto& ops = layers[std::size_t(i)].ops;
    CHECK(uses(ops, OpKind::kScaleByPosition) == (i == 3));
    CHECK(uses(ops, OpKind::kRope) == (i < 3));
  }
  // The token at position 8191 is the 8192nd.
  CHECK(temperature_at(model->hyper, 8190) == 1);
  CHECK(double(temperature_at(model->hyper, 8191)) == Approx(1 + 0.1 * std::log(2.0)));
}

TEST_CASE("Sections of RoPE are all pairs that turn, none by a fourth position", "[gguf]") {
  for (const std::string architecture : {"qwen2vl", "qwen3vl"}) {
    const std::string key = architecture + ".rope.dimension_sections";
    const auto with = [&](const std::vector<std::int32_t>& sections) {
      FamilyFile file{architecture, family_traits(architecture)};
      file.traits.layers = 1;
      std::string bytes = fixtures::bytes_of(file);
      // Behind the key: the types of an array and of its elements, and their count.
      const std::size_t at = bytes.find(key) + key.size() + 4 + 4 + 8;
      std::memcpy(bytes.data() + at, sections.data(), sections.size() * sizeof(std::int32_t));
      const auto parsed = file_of(bytes);
      REQUIRE(parsed.ok());
      return error_of(load_model(*parsed));
    };
    CHECK(with({6, 5, 5, 0}).empty());
    CHECK(with({16, 0, 0, 0}).empty());
    for (const std::vector<std::int32_t>& odd :
         std::vector<std::vector<std::int32_t>>{{6, 5, 4, 1},
                                                {6, 5, 4, 0},
                                                {6, 5, 6, 0},
                                                {-6, 12, 10, 0},
                                                {2'000'000'000, 2'000'000'000, 5, 0},
                                                {0, 0, 0, 0}})
      CHECK(contains(with(odd), "\"" + key + "\""));
  }
  // An architecture without pictures has none.
  check_refused("qwen2", {{"rope.dimension_sections", std::vector<std::int32_t>{16, 0, 0, 0}}});
}

TEST_CASE("Factors of longrope are as many as pairs that turn, and more than 0", "[gguf]") {
  const auto with = [](std::int64_t factors, std::vector<float> values) {
    return error_of(read_with("phi3", {}, [&](FamilyFile& f) {
      f.traits.rope_factors = factors;
      if (!values.empty()) f.vectors = {{"rope_factors_long.weight", values}};
    }));
  };
  CHECK(with(12, {}).empty());
  for (const float odd : {0.0f, -1.0f, NAN, std::numeric_limits<float>::infinity()}) {
    std::vector<float> values(12, 1.0f);
    values[7] = odd;
    CHECK(contains(with(12, values), "element 7 of \"rope_factors_long.weight\""));
  }
}

TEST_CASE("The long factors are for contexts beyond the trained one", "[model]") {
  const auto active = [](TokenCount tokens) {
    auto model = read_with("phi3", {}, [&](FamilyFile& f) {
      f.traits.rope_factors = 12;
      f.traits.context = 8192;
      f.vectors = {{"rope_factors_long.weight", std::vector<float>(12, 4.0f)}};
    });
    REQUIRE(model.ok());
    choose_rope_factors(*model, tokens);
    return model->rope_factors.front();
  };
  CHECK(active(0) == 4);  // 8192 tokens
  CHECK(active(4096) == 1);
  CHECK(active(4097) == 4);
}

TEST_CASE("A file that does not say its window has the usual one, or is refused", "[gguf]") {
  for (const char* needs : {"cohere2", "gpt-oss", "exaone-moe", "gemma4"}) {
    const auto experts = [&](FamilyFile& f) {
      f.traits.experts =
          std::string(needs) == "gpt-oss" || std::string(needs) == "exaone-moe" ? 8 : 0;
    };
    const std::string said = error_of(read_with(needs, {}, experts));
    CAPTURE(needs, said);
    CHECK(contains(said, std::string(needs) + ".attention.sliding_window"));
  }
  const auto usual = read_with("gemma2", {});
  INFO(error_of(usual));
  REQUIRE(usual.ok());
  REQUIRE(usual->spec.window);
  CHECK(usual->spec.window->tokens == 4096);
  CHECK(usual->spec.window->full_every == 2);
  const auto none = read_with("gemma3", {});
  REQUIRE(none.ok());
  CHECK_FALSE(none->spec.window);
}

TEST_CASE("Windows must be stated for all layers", "[gguf]") {
  const auto said_of = [](std::vector<std::int32_t> pattern) {
    return error_of(read_with("gemma3",
                              {{"attention.sliding_window", 48u},
                               {"attention.sliding_window_pattern", std::move(pattern)}},
                              [](FamilyFile& f) { f.traits.layers = 4; }));
  };
  CHECK(said_of({1, 1, 0, 1}).empty());
  CHECK(said_of({1, 1, 0, 1, 1, 0}).empty());  // those that draft tokens are counted, too
  for (const std::vector<std::int32_t>& odd :
       {std::vector<std::int32_t>{1, 1, 0}, {1, 1}, {}, {0, 1, 1, 1}, {1, 0, 0, 1}})
    CHECK(contains(said_of(odd), "gemma3.attention.sliding_window_pattern"));
}

TEST_CASE("Layers of other widths, and widths of nothing, are refused by their keys", "[gguf]") {
  // A key that synth writes, with a value of another type: both under another name at first.
  const auto said_of = [](const std::string& architecture, const std::string& key,
                          const KeyValue& value) {
    const std::string whole = architecture + "." + key, other = whole.substr(0, whole.size() - 1);
    FamilyFile file{architecture, family_traits(architecture)};
    file.traits.experts = architecture == "qwen3moe" ? 8 : 0;
    file.keys = {{other.substr(architecture.size() + 1) + "~", value}};
    std::string bytes = fixtures::bytes_of(file);
    bytes.replace(bytes.find(whole), whole.size(), other + "^");
    bytes.replace(bytes.find(other + "~"), whole.size(), whole);
    const auto parsed = file_of(bytes);
    REQUIRE(parsed.ok());
    return error_of(load_model(*parsed));
  };
  using Widths = std::vector<std::int32_t>;
  const auto check = [&](const std::string& architecture, const std::string& key,
                         const KeyValue& value) {
    const std::string said = said_of(architecture, key, value);
    CAPTURE(architecture, key, said);
    CHECK(contains(said, architecture + "." + key));
  };
  check("llama", "feed_forward_length", Widths{160, 320, 160, 160});
  check("qwen3moe", "expert_feed_forward_length", Widths{160, 320, 160, 160});
  check("llama", "attention.head_count", Widths{4, 8, 4, 4});
  for (const char* architecture : {"llama", "phi3", "falcon", "command-r"})
    for (const char* key :
         {"attention.head_count", "attention.head_count_kv", "attention.key_length",
          "feed_forward_length", "embedding_length", "block_count", "context_length"})
      check(architecture, key, 0u);
}

}  // namespace rigcast::engine
