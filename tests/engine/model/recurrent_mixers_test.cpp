// Widths of recurrent mixers follow from the counts of the catalogue's models.

#include "engine/model/recurrent_mixers.hpp"

#include <string>

#include "core/model/model_spec.hpp"
#include "core/model/tensor_table.hpp"
#include "engine/model/file_tensors.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"

namespace rigcast::engine {
namespace {

ModelSpec catalogue_model(const std::string& id) {
  auto spec = load_model_spec(std::string(test::source_dir()) + "/models/" + id + ".toml");
  REQUIRE(spec);
  return *spec;
}

struct Published {
  std::string id;
  MixerWidths widths;
};

}  // namespace

TEST_CASE("Mixers have the widths of the publishers' config.json", "[synth]") {
  // mamba_d_conv, mamba_d_ssm or expand * hidden_size, mamba_d_state, mamba_n_heads,
  // mamba_n_groups; of Qwen3 Next linear_conv_kernel_dim, values' heads times 128, 128, their
  // number, keys' heads.
  const Published models[] = {{"falcon-h1-0.5b", {4, 1536, 128, 24, 1}},
                              {"granite-4.0-h-micro", {4, 4096, 128, 64, 1}},
                              {"granite-4.0-h-tiny", {4, 3072, 128, 48, 1}},
                              {"granite-4.0-h-small", {4, 8192, 128, 128, 1}},
                              {"nemotron-nano-9b-v2", {4, 10240, 128, 128, 8}},
                              {"qwen3-next-80b-a3b", {4, 4096, 128, 32, 16}}};
  for (const Published& p : models) {
    INFO(p.id);
    const auto w = mixer_widths(catalogue_model(p.id));
    REQUIRE(w);
    CHECK(w->conv_kernel == p.widths.conv_kernel);
    CHECK(w->inner_size == p.widths.inner_size);
    CHECK(w->state_size == p.widths.state_size);
    CHECK(w->time_step_rank == p.widths.time_step_rank);
    CHECK(w->group_count == p.widths.group_count);
  }
  CHECK(mixer_widths(catalogue_model("lfm2-1.2b"))->conv_kernel == 3);
}

TEST_CASE("Counts that no mixer has give no widths", "[synth]") {
  ModelSpec spec = catalogue_model("granite-4.0-h-tiny");
  spec.recurrent->layer_parameters += 1;
  CHECK_FALSE(mixer_widths(spec));
  spec = catalogue_model("granite-4.0-h-tiny");
  spec.recurrent->state_bytes /= 2;
  CHECK_FALSE(mixer_widths(spec));
  spec = catalogue_model("lfm2-1.2b");
  spec.recurrent->state_bytes /= 2;
  CHECK_FALSE(mixer_widths(spec));
  for (const std::int64_t kernel : {64, 65}) {
    const RecurrentLayers counts = recurrent_layers(spec, MixerWidths{.conv_kernel = kernel});
    spec.recurrent->state_bytes = counts.state_bytes;
    spec.recurrent->layer_parameters = counts.layer_parameters;
    spec.recurrent->layer_f32_parameters = counts.layer_f32_parameters;
    CHECK(mixer_widths(spec).has_value() == (kernel == 64));
  }
}

TEST_CASE("Stand-ins of mixers are replaced by as many weights", "[synth]") {
  for (const char* id : {"falcon-h1-0.5b", "granite-4.0-h-tiny", "lfm2-1.2b", "nemotron-nano-9b-v2",
                         "qwen3-next-80b-a3b"}) {
    INFO(id);
    const ModelSpec spec = catalogue_model(id);
    const auto table = make_tensor_table(spec, *QuantMix::from_name("Q4_K_M"));
    REQUIRE(table);
    const TensorTable stored = file_tensors(spec, *table);
    CHECK(stored.elements() == table->elements());
    CHECK(stored.tensors.size() > table->tensors.size());
  }
}

TEST_CASE("Widths that heads and groups do not share evenly are none", "[synth]") {
  const auto found = [](const char* id, const MixerWidths& w) {
    ModelSpec spec = catalogue_model(id);
    const RecurrentLayers counts = recurrent_layers(spec, w);
    spec.recurrent->state_bytes = counts.state_bytes;
    spec.recurrent->layer_parameters = counts.layer_parameters;
    spec.recurrent->layer_f32_parameters = counts.layer_f32_parameters;
    return mixer_widths(spec) == w;
  };
  CHECK(found("granite-4.0-h-tiny", {4, 3072, 128, 48, 1}));
  CHECK(found("granite-4.0-h-tiny", {4, 3072, 128, 48, 8}));
  CHECK_FALSE(found("granite-4.0-h-tiny", {4, 3076, 128, 48, 1}));  // 4 values of no head
  CHECK_FALSE(found("granite-4.0-h-tiny", {4, 3072, 128, 48, 5}));
  CHECK(found("qwen3-next-80b-a3b", {4, 4096, 128, 32, 16}));
  CHECK_FALSE(found("qwen3-next-80b-a3b", {4, 4100, 128, 32, 16}));
  CHECK_FALSE(found("qwen3-next-80b-a3b", {4, 4096, 128, 32, 12}));
}

}  // namespace rigcast::engine
