// Keys of recurrent layers: what they make of a model, and values of hostile files.

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "engine/gguf/model/read_model.hpp"
#include "tests/catch.hpp"
#include "tests/engine/architectures/family_files.hpp"
#include "tests/engine/gguf/gguf_fixture.hpp"

namespace rigcast::engine {
namespace {

using namespace fixtures;

Result<Model> read_of(const std::string& bytes) {
  const auto parsed = file_of(bytes);
  REQUIRE(parsed.ok());
  return load_model(*parsed);
}

std::string bytes_of_tiny(const std::string& architecture) {
  TinyTraits traits = family_traits(architecture);
  if (architecture.ends_with("_moe")) traits.experts = 8;
  return fixtures::bytes_of(FamilyFile{architecture, traits});
}

// What is said of a file in which the key's value begins with these bytes, `behind` the key's type.
template <class Values>
std::string said_with(const std::string& architecture, const std::string& key, std::size_t behind,
                      const Values& values) {
  std::string bytes = bytes_of_tiny(architecture);
  const std::string name = architecture + "." + key;
  const std::size_t at = bytes.find(name);
  REQUIRE(at != std::string::npos);
  std::memcpy(bytes.data() + at + name.size() + behind, values.data(),
              values.size() * sizeof values[0]);
  return error_of(read_of(bytes));
}

constexpr std::size_t kType = 4, kArray = 4 + 4 + 8;  // bytes between a key and its values

std::string said_of(const std::string& architecture, const std::string& key, std::uint32_t value) {
  return said_with(architecture, key, kType, std::array{value});
}

}  // namespace

TEST_CASE("Files say which layers are recurrent, and how wide their mixers are", "[gguf]") {
  const auto delta = read_of(bytes_of_tiny("qwen35"));
  INFO(error_of(delta));
  REQUIRE(delta.ok());
  CHECK(delta->layers[0].mixer == MixerWidths{4, 512, 128, 4, 2});
  CHECK(delta->layers[0].is_recurrent());
  CHECK_FALSE(delta->layers[3].is_recurrent());
  CHECK(delta->layers[3].has_attention_gate());
  // What a forecast reads: states of four heads of 128 x 128, and three tokens of 1,024 values.
  CHECK(delta->spec.recurrent->state_bytes == 4 * (4 * 128 * 128 + 3 * 1024));
  const auto convolution = read_of(bytes_of_tiny("lfm2"));
  INFO(error_of(convolution));
  REQUIRE(convolution.ok());
  CHECK(convolution->spec.recurrent->attention_layers == std::vector<int>{1, 3});
  CHECK(convolution->spec.recurrent->state_bytes == 4 * 2 * 128);
  CHECK(convolution->layers[0].mixer.conv_kernel == 3);
}

TEST_CASE("Widths that no mixer has are refused", "[gguf]") {
  const std::string not_understood = "widths that are not understood";
  CHECK(contains(said_of("qwen35", "ssm.state_size", 64u), not_understood));
  CHECK(contains(said_of("qwen35", "ssm.group_count", 3u), not_understood));
  CHECK(contains(said_of("qwen35", "ssm.conv_kernel", 5u), not_understood));
  CHECK(contains(said_of("granitehybrid", "ssm.time_step_rank", 7u), not_understood));
  CHECK(contains(said_of("qwen35", "ssm.inner_size", 0u), "qwen35.ssm.inner_size"));
  CHECK(contains(said_of("qwen35", "ssm.group_count", 0u), "qwen35.ssm.group_count"));
  CHECK(contains(said_of("lfm2", "shortconv.l_cache", 1u), "lfm2.shortconv.l_cache"));
  CHECK(contains(said_of("lfm2", "shortconv.l_cache", 1u << 31), "lfm2.shortconv.l_cache"));
  CHECK(contains(said_of("qwen35", "full_attention_interval", 0u), "full_attention_interval"));
  // Of these the tensors are not there.
  CHECK_FALSE(said_of("qwen35", "full_attention_interval", 2u).empty());
  CHECK_FALSE(said_of("qwen35", "ssm.group_count", 1u).empty());
}

TEST_CASE("KV heads by layer are those of a hybrid", "[gguf]") {
  const auto heads = [](std::array<std::int32_t, 4> of) {
    return said_with("lfm2", "attention.head_count_kv", kArray, of);
  };
  CHECK(heads({0, 2, 0, 2}).empty());
  CHECK(contains(heads({0, 0, 0, 0}), "one more than 0"));
  CHECK(contains(heads({0, 2, 0, 1}), "layers of 2 and of 1 heads"));
  CHECK_FALSE(heads({0, -2, 0, 2}).empty());
  CHECK_FALSE(heads({2, 0, 2, 0}).empty());  // their tensors are elsewhere
}

TEST_CASE("Layers of one block alone are those that their widths say", "[gguf]") {
  const auto model = read_of(bytes_of_tiny("nemotron_h"));
  INFO(error_of(model));
  REQUIRE(model.ok());
  CHECK(model->spec.pattern == "M-*-");
  CHECK(model->spec.recurrent->attention_layers.empty());
  CHECK(model->layers[0].is_recurrent());
  CHECK_FALSE(model->layers[1].is_recurrent());
  const auto widths = [](std::array<std::int32_t, 4> of) {
    return said_with("nemotron_h", "feed_forward_length", kArray, of);
  };
  CHECK(widths({0, 160, 0, 160}).empty());
  for (const std::array<std::int32_t, 4> other : {std::array<std::int32_t, 4>{0, 160, 0, 128},
                                                  {0, 160, 160, 160},
                                                  {0, -1, 0, 160},
                                                  {0, 160, 0, 1 << 25}})
    CHECK(contains(widths(other), "\"nemotron_h.feed_forward_length\" is "));
  CHECK(contains(said_of("nemotron_h_moe", "expert_count", 0u),
                 "\"nemotron_h_moe.expert_count\" says that there are none"));
  // Of these the tensors are not there.
  CHECK_FALSE(widths({160, 160, 0, 160}).empty());
  CHECK_FALSE(widths({0, 0, 0, 160}).empty());
}

TEST_CASE("Attention and a mixer beside it are in every layer", "[gguf]") {
  const auto model = read_of(bytes_of_tiny("falcon-h1"));
  INFO(error_of(model));
  REQUIRE(model.ok());
  CHECK(model->spec.recurrent->parallel);
  for (const Layer& layer : model->layers) {
    CHECK(layer.is_recurrent());
    CHECK(layer.has_parallel_mixer());
    CHECK(layer.mixer == MixerWidths{4, 256, 128, 8, 2});
  }
  CHECK(contains(said_of("falcon-h1", "ssm.state_size", 64u), "widths that are not understood"));
}

TEST_CASE("Granite that rotates is refused by the key", "[gguf]") {
  CHECK(contains(said_with("granitehybrid", "rope.scaling.finetuned", kType, std::array{'\1'}),
                 "granitehybrid.rope.scaling.finetuned"));
  // Without the key it does, too.
  std::string bytes = bytes_of_tiny("granitehybrid");
  const std::string name = "granitehybrid.rope.scaling.finetuned";
  bytes[bytes.find(name) + name.size() - 1] = 'x';
  CHECK(contains(error_of(read_of(bytes)), "there is no \"" + name + "\""));
}

}  // namespace rigcast::engine
