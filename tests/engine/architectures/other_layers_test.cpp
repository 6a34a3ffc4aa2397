// Layers that no architecture of engine/architectures has, as in the first step of adding one. The
// reference computes any list of operations; the CPU computes lists that consist of blocks that it
// fuses, and names the first operation that belongs to none.

#include <cmath>
#include <memory>
#include <vector>

#include "engine/backends/cpu/cpu_executor.hpp"
#include "engine/kernels/ref/ops.hpp"
#include "engine/placement/check_shapes.hpp"
#include "tests/catch.hpp"
#include "tests/engine/executor_fixture.hpp"
#include "tests/engine/logits_compare.hpp"

namespace rigcast::engine {
namespace {

using namespace fixtures;
using enum OpKind;
using enum Activation;
using enum LayerWeight;

// Post-norm: the outputs of attention and FFN are normed instead of their inputs, as in OLMo 2.
std::vector<LayerOp> post_norm_layer() {
  return {{kLinear, kHidden, kQuery, {kQ}},
          {kLinear, kHidden, kKey, {kK}},
          {kLinear, kHidden, kValue, {kV}},
          {kRope, kQuery, kQuery},
          {kRope, kKey, kKey},
          {kAttention, kQuery, kAttended},
          {kLinear, kAttended, kBranch, {kOutput}},
          {kRmsNorm, kBranch, kBranch, {kAttentionNorm}},
          {kAddResidual, kBranch, kHidden},
          {kGatedFfn, kHidden, kBranch, {kGate, kUp, kDown}},
          {kRmsNorm, kBranch, kBranch, {kFfnNorm}},
          {kAddResidual, kBranch, kHidden}};
}

// The FFN of a layer first, then its attention.
std::vector<LayerOp> ffn_first(const std::vector<LayerOp>& ops) {
  const auto ffn = std::ranges::find(ops, std::vector{kFfnNorm}, &LayerOp::weights);
  std::vector<LayerOp> out(ffn, ops.end());
  out.insert(out.end(), ops.begin(), ffn);
  return out;
}

CpuOptions options_of(int threads) {
  return {threads, {QuantFormat::kF32, QuantFormat::kF32}, 16, 32};
}

// A prompt as batches, then tokens one by one: weights in F32 round nothing.
void check_on_cpu(const TinyModel& tiny) {
  const auto tokens = prompt_of(40, tiny.model.spec.vocabulary);
  const auto want = reference_logits(tiny, tokens);
  for (const int threads : {1, 2}) {
    CpuExecutor executor(std::make_shared<const Model>(tiny.model), options_of(threads));
    std::vector<float> got;
    const auto step = [&](std::size_t first, std::size_t count) {
      const auto logits = executor.forward(std::span(tokens).subspan(first, count), Logits::kAll);
      got.insert(got.end(), logits.begin(), logits.end());
    };
    step(0, 36);
    for (std::size_t i = 36; i < tokens.size(); ++i) step(i, 1);
    const Agreement a = compare(got, want);
    CAPTURE(threads, a.nmse);
    CHECK(a.nmse <= 1e-9);
  }
}

}  // namespace

TEST_CASE("The reference computes a layer of another order", "[engine][architectures]") {
  TinyModel tiny = make_tiny_model({.layers = 1});
  tiny.model.layers[0].ops = post_norm_layer();
  // A single token attends only to itself: attention returns its value.
  const Model& m = tiny.model;
  const Layer& l = m.layers[0];
  using Vector = std::vector<float>;
  const auto times = [](const Matrix& w, const Vector& x) {
    Vector y(std::size_t(w.rows));
    ref::matvec(w, x, y);
    return y;
  };
  const auto add_normed = [&](Vector& x, const Vector& branch, const Vector& weight) {
    double squares = 0;
    for (const float b : branch) squares += double(b) * double(b);
    const double rms = std::sqrt(squares / double(branch.size()) + double(m.hyper.norm_eps));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += float(branch[i] / rms * weight[i]);
  };
  Vector x(std::size_t(m.spec.hidden));
  ref::dequantize(m.embedding.format, m.embedding.row(7), x);
  const Vector value = times(l.v, x);
  Vector attended;
  for (int head = 0; head < m.spec.heads; ++head) {
    const auto kv = value.begin() + head / 2 * 64;  // two heads share a KV head of 64
    attended.insert(attended.end(), kv, kv + 64);
  }
  add_normed(x, times(l.output, attended), l.attention_norm);
  Vector inner = times(l.gate, x);
  const Vector up = times(l.up, x);
  for (std::size_t i = 0; i < inner.size(); ++i)
    inner[i] = float(inner[i] / (1 + std::exp(-double(inner[i]))) * up[i]);
  add_normed(x, times(l.down, inner), l.ffn_norm);

  const auto state = ref::hidden_states(m, std::vector<std::int32_t>{7}).front();
  // Each of some ten operations rounds a value near 1 to F32.
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(double(state[i]) == Approx(x[i]).margin(1e-5));
}

TEST_CASE("Backends name the operation that they do not compute", "[engine][architectures]") {
  TinyModel tiny = make_tiny_model({.layers = 2});
  CHECK_FALSE(check_layers_on_cpu(tiny.model));
  CHECK_FALSE(check_shapes_on_gpu(tiny.model));
  // The host answers a GPU in the usual order.
  tiny.model.layers[1].ops = ffn_first(tiny.model.layers[0].ops);
  CHECK_FALSE(check_layers_on_cpu(tiny.model));
  CHECK(check_shapes_on_gpu(tiny.model)->message ==
        "tiny, layer 1, is not executed on a GPU: a layer is attention, then an FFN or experts "
        "there");
  tiny.model.layers[1].ops = post_norm_layer();
  const auto error = check_layers_on_cpu(tiny.model);
  REQUIRE(error);
  const std::string what =
      "tiny, layer 1: \"branch = rms_norm(branch, attn_norm.weight)\" after \"branch = "
      "linear(attended, attn_output.weight)\" is not executed on ";
  CHECK(error->message == what + "the CPU");
  CHECK(check_shapes_on_gpu(tiny.model)->message == what + "a GPU");
  // A norm that the list omits would still be computed, because its weight exists.
  TinyModel normed = make_tiny_model({.architecture = "qwen3", .layers = 1});
  std::erase_if(normed.model.layers[0].ops,
                [](const LayerOp& op) { return op.weights == std::vector{kKNorm}; });
  CHECK(check_layers_on_cpu(normed.model)->message ==
        "tiny, layer 0: no operation uses \"attn_k_norm.weight\"");
  CHECK_THROWS_AS(CpuExecutor(std::make_shared<const Model>(tiny.model), options_of(1)),
                  MachineError);
}

TEST_CASE("The CPU computes its stages in the order of the list", "[engine][architectures]") {
  for (const int experts : {0, 4}) {
    TinyModel tiny = model_of({.mix = "F32", .layers = 3, .experts = experts});
    Layer& second = tiny.model.layers[1];
    second.ops = ffn_first(second.ops);
    check_on_cpu(tiny);
    Layer& first = tiny.model.layers[0];
    first.ops = ffn_first(first.ops);
    check_on_cpu(tiny);
    // And a layer of an FFN alone.
    second.ops.resize(3);
    second.attention_norm.clear();
    check_on_cpu(tiny);
  }
}

TEST_CASE("Layers have heads of their own", "[engine][architectures]") {
  const TinyModel tiny = model_of({.mix = "F32",
                                   .kv_heads = 4,
                                   .head_dim = 32,
                                   .layers = 4,
                                   .window = 20,
                                   .window_full_every = 2,
                                   .full_head_dim = 64,
                                   .full_kv_heads = 1});
  const auto& layers = tiny.model.layers;
  CHECK(layers[0].attention == AttentionShape{4, 4, 32, 20});
  CHECK(layers[1].attention == AttentionShape{4, 1, 64, 0});
  CHECK(layers[1].k.rows == 64);
  check_on_cpu(tiny);
  // The cache takes what each layer needs, keys and values of 4 bytes.
  CpuExecutor executor(std::make_shared<const Model>(tiny.model), options_of(1));
  executor.forward(prompt_of(16, 500), Logits::kNone);
  CHECK(executor.cache().bytes() == 16 * 2 * 4 * (2 * 4 * 32 + 2 * 1 * 64));
  CHECK_FALSE(check_shapes_on_gpu(tiny.model));
}

}  // namespace rigcast::engine
