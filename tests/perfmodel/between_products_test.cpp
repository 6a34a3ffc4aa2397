// What a batch's small kernels take, and how many kernels multiply its matrices.

#include "perfmodel/blocks/between_products.hpp"
#include "tests/core/model_fixtures.hpp"
#include "tests/perfmodel/gpu_fixture.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

namespace {

template <class T>
Sourced<T> assumed(T value) {
  return {value, SourceKind::kAssumed, "a test"};
}

// Kernels whose thread blocks are known, and that take no time but what a test states.
Scenario of_blocks(ModelSpec model) {
  Scenario s = of_gpu("pascal");
  s.model = std::move(model);
  s.runtime.blocks.emplace();
  s.rig.gpus[0].units = 20;
  return s;
}

double seconds_between(const Scenario& s, const OpTraffic& t) {
  return between_products_time(s, s.rig.gpus[0], t).value;
}

ModelSpec with_states(std::int64_t values) {
  ModelSpec m = llama_2_7b();
  m.recurrent = RecurrentLayers{};
  m.recurrent->full_attention_every = 4;
  m.recurrent->state_bytes = 4 * values;
  m.recurrent->layer_parameters = 20 * m.hidden * m.hidden;
  return m;
}

ModelSpec with_experts(std::int64_t shared_ffn) {
  ModelSpec m = llama_2_7b();
  m.moe = MixtureOfExperts{};
  m.moe->experts = 64;
  m.moe->experts_used = 4;
  m.moe->expert_ffn = 1024;
  m.moe->shared_ffn = shared_ffn;
  return m;
}

TensorTable tensors_of(const ModelSpec& m) {
  return *make_tensor_table(m, *QuantMix::from_name("Q4_K_M"));
}

}  // namespace

TEST_CASE("A token passes a state in its time, however large the state is", "[gpu]") {
  constexpr double kStep = 1e-6;
  const auto scan = [&](std::int64_t values, TokenCount tokens) {
    Scenario s = of_blocks(with_states(values));
    s.runtime.blocks->scan_step = assumed(Seconds{kStep});
    return seconds_between(s, cache_traffic(s.model, 0, Batch(100, tokens), s.kv.types));
  };
  CHECK(scan(500'000, 30) == Approx(30 * kStep));
  CHECK(scan(1'000'000, 30) == Approx(30 * kStep));
  CHECK(scan(500'000, 90) == Approx(90 * kStep));
  CHECK(scan(500'000, 1) == 0);  // a kernel of its own
  // What is kept of a few tokens' inputs is no state: tokens are convolved side by side.
  CHECK(scan(2 * 4096, 30) == 0);
}

TEST_CASE("A router's time follows columns, experts of a token and choices", "[gpu]") {
  const Scenario plain = of_blocks(with_experts(0));
  const TensorTable tensors = tensors_of(plain.model);
  const auto routing = [&](const Scenario& s, TokenCount tokens) {
    return seconds_between(s, ffn_traffic(s.model, tensors, 0, tokens));
  };
  Scenario s = plain;
  s.runtime.blocks->router_column = assumed(Seconds{1e-9});
  CHECK(routing(s, 16) == Approx(4096e-9));
  // 4 blocks for 64 experts and each 8 tokens; 20 units have room for 4 blocks each.
  CHECK(routing(s, 160) == Approx(4096e-9));
  CHECK(routing(s, 161) == Approx(2 * 4096e-9));
  s = plain;
  s.runtime.blocks->choice_round = assumed(Seconds{1e-6});
  CHECK(routing(s, 160) == Approx(4e-6));
  s = plain;
  s.runtime.blocks->sorted_choice = assumed(Seconds{1e-9});
  CHECK(routing(s, 160) == Approx(4 * 160e-9));
  // The experts themselves choose nothing.
  CHECK(seconds_between(s, experts_traffic(s.model, tensors, 0, 160)) == 0);
}

TEST_CASE("Matrices of one input are multiplied by one kernel", "[gpu]") {
  const auto kernels = [](const ModelSpec& model, const auto& traffic) {
    return product_kernels(of_blocks(model), traffic(model, tensors_of(model)));
  };
  const auto mixer = [](const ModelSpec& m, const TensorTable& tensors) {
    return attention_traffic(m, tensors, 0, Batch(0, 16), {});
  };
  const auto ffn = [](const ModelSpec& m, const TensorTable& tensors) {
    return ffn_traffic(m, tensors, 0, 16);
  };
  const auto experts = [](const ModelSpec& m, const TensorTable& tensors) {
    return experts_traffic(m, tensors, 0, 16);
  };
  const auto head = [](const ModelSpec& m, const TensorTable& tensors) {
    return head_traffic(m, tensors, 16);
  };
  CHECK(kernels(llama_2_7b(), mixer) == 2);  // q, k and v; the output
  CHECK(kernels(llama_2_7b(), ffn) == 2);    // gate and up; down
  CHECK(kernels(llama_2_7b(), head) == 1);
  CHECK(kernels(with_states(500'000), mixer) == 2);  // into the mixer, and out of it
  CHECK(kernels(with_experts(0), experts) == 2);
  CHECK(kernels(with_experts(0), ffn) == 0);  // the router has kernels of its own
  CHECK(kernels(with_experts(512), ffn) == 2);
}
