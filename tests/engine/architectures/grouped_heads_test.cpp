// Files of Qwen3-Next: what a recurrent layer's matrices give by groups of heads, in both forms.
#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "engine/architectures/bind_model.hpp"
#include "engine/backends/cpu/cpu_executor.hpp"
#include "engine/kernels/ref/forward.hpp"
#include "tests/catch.hpp"
#include "tests/engine/executor_fixture.hpp"
#include "tests/engine/logits_compare.hpp"

namespace rigcast::engine {
namespace {

using namespace fixtures;

TinyTraits traits(const std::string& mix) {
  return {.architecture = "qwen3next", .mix = mix, .layers = 5, .experts = 8, .shared_ffn = 512};
}

// The model as files since 2026 have it: instead of one matrix with a query, a key, values and
// gates of each group of heads one with all queries, keys and values, and one with all gates.
Model split(const TinyModel& tiny, std::deque<std::vector<std::byte>>& rows_of) {
  std::deque<std::string> names;
  const MixerWidths& w = tiny.model.layers[0].mixer;
  const std::int64_t values = w.inner_size / w.group_count, unit = 2 * w.state_size + 2 * values;
  std::vector<NamedTensor> tensors;
  for (const NamedTensor& t : tiny.named()) {
    if (!t.name.ends_with(".ssm_in.weight")) {
      tensors.push_back(t);
      continue;
    }
    const std::string block(t.name.substr(0, t.name.find("ssm_in")));
    const Matrix whole{t.data, t.format, t.shape[0], t.shape[1]};
    const auto add = [&](std::int64_t first, std::int64_t count, std::vector<std::byte>& to) {
      for (std::int64_t g = 0; g < w.group_count; ++g) {
        const std::byte* const from = whole.row(g * unit + first);
        to.insert(to.end(), from, from + count * whole.row_bytes());
      }
    };
    std::vector<std::byte>& mixed = rows_of.emplace_back();
    add(0, w.state_size, mixed);
    add(w.state_size, w.state_size, mixed);
    add(2 * w.state_size, values, mixed);
    std::vector<std::byte>& gates = rows_of.emplace_back();
    add(2 * w.state_size + values, values, gates);
    NamedTensor own = t;
    own.name = names.emplace_back(block + "attn_qkv.weight");
    own.shape[1] = w.convolved();
    own.data = mixed.data();
    tensors.push_back(own);
    own.name = names.emplace_back(block + "attn_gate.weight");
    own.shape[1] = w.inner_size;
    own.data = gates.data();
    tensors.push_back(own);
  }
  auto model = bind_model(tiny.model.spec, tiny.model.hyper, tensors, tiny.tensors);
  INFO((model ? std::string() : model.error().text()));
  REQUIRE(model);
  return *std::move(model);
}

std::vector<float> on_cpu(const Model& model, const std::vector<std::int32_t>& tokens) {
  CpuExecutor executor(std::make_shared<const Model>(model),
                       CpuOptions{2, {QuantFormat::kF32, QuantFormat::kF32}});
  const auto logits = executor.forward(tokens, Logits::kAll);
  return {logits.begin(), logits.end()};
}

}  // namespace

TEST_CASE("Groups of heads in one matrix or in two give the same logits", "[engine][families]") {
  const auto tokens = prompt_of(40, 500);
  for (const char* mix : {"F32", "Q4_K_M"}) {
    INFO(mix);
    const TinyModel tiny = model_of(traits(mix));
    std::deque<std::vector<std::byte>> rows;
    const Model other = split(tiny, rows);
    CHECK(tiny.model.layers[0].has_grouped_gates());
    CHECK_FALSE(other.layers[0].has_grouped_gates());
    CHECK(other.layers[0].mixer_gate.rows == tiny.model.layers[0].mixer.inner_size);
    CHECK(ref::forward(other, tokens) == ref::forward(tiny.model, tokens));
    CHECK(on_cpu(other, tokens) == on_cpu(tiny.model, tokens));
    const Agreement a = compare(on_cpu(other, tokens), reference_logits(tiny, tokens));
    CHECK(a.nmse <= (is_float(mix) ? 1e-9 : rounding_bound(traits(mix))));
  }
}

}  // namespace rigcast::engine
