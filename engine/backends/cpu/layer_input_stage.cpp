#include "engine/backends/cpu/layer_input_stage.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/kernels/cpu/elementwise.hpp"
#include "engine/kernels/ref/dequantize.hpp"

namespace rigcast::engine {

void LayerInputStage::begin(Worker& worker, std::span<const std::int32_t> ids) {
  const Model& model = *step_.model;
  if (!model.input_embedding) return;
  const std::int64_t hidden = step_.width(), all = model.input_embedding.columns;
  step_.prepare(
      worker, step_.input, hidden, {&model.input_projection},
      [&] {
        inputs_.resize(std::size_t(step_.tokens * all));
        step_.bytes.weights += double(model.input_projection.bytes());
      },
      [&](std::int64_t row, std::span<float> out) {
        std::copy_n(step_.hidden.data() + row * hidden, hidden, out.data());
      });
  const Product product{&model.input_projection, step_.input, inputs_.data(), all};
  multiply(worker, {&product, 1}, step_.products(worker));
  worker.barrier();
  worker.parallel_for(step_.tokens, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> own(std::size_t(all), 0.0f);
    for (std::int64_t row = begin; row < end; ++row) finish(row, ids[std::size_t(row)], own);
  });
}

// Half of an input is the token's own, half is made of its embedding.
void LayerInputStage::finish(std::int64_t row, std::int32_t id, std::span<float> own) {
  const Model& model = *step_.model;
  const std::size_t width = model.input_norm.size();
  const std::span<float> made(inputs_.data() + std::size_t(row) * own.size(), own.size());
  ref::dequantize(model.input_embedding.format, model.input_embedding.row(id), own);
  const float scale = 1 / std::sqrt(float(step_.width())), half = std::sqrt(0.5f);
  for (float& x : made) x *= scale;
  for (std::size_t i = 0; i < made.size(); i += width)
    cpu::rms_norm(made.subspan(i, width), model.input_norm, model.hyper.norm_eps, &made[i]);
  const float of_own = std::sqrt(float(width));
  for (std::size_t i = 0; i < made.size(); ++i) made[i] = half * (made[i] + of_own * own[i]);
}

void LayerInputStage::compute(Worker& worker, int layer, const NextMatrices& next) {
  const Layer& w = step_.layer(layer);
  const std::int64_t hidden = step_.width(), width = w.input_gate.rows;
  const std::int64_t all = step_.model->input_embedding.columns;
  ProductScratch& scratch = step_.products(worker);
  const ActivitySpan span = step_.span(worker, ActivityKind::kFfn, layer);
  step_.prepare(
      worker, step_.input, hidden, {&w.input_gate},
      [&] {
        cpu::resize_at_least(step_.gate, std::size_t(step_.tokens * width));
        gated_.resize(width, step_.tokens, {&w.input_projection});
        step_.bytes.weights += double(w.input_gate.bytes() + w.input_projection.bytes());
      },
      [&](std::int64_t row, std::span<float> out) { step_.normed_row(row, {}, out); });
  const Product gate{&w.input_gate, step_.input, step_.gate.data(), width};
  multiply(worker, {&gate, 1}, scratch, step_.if_apart({&w.input_projection}));
  worker.run_once([&] { step_.set_pending(w.input_norm, w.scale()); });
  worker.parallel_for(
      step_.tokens, gated_.rows_together(), [&](std::int64_t begin, std::int64_t end) {
        step_.make_rows(worker, gated_, begin, end, [&](std::int64_t row, std::span<float> out) {
          std::copy_n(step_.gate.data() + row * width, width, out.data());
          cpu::gelu_multiply(out, inputs_.data() + row * all + layer * width);
        });
      });
  const Product projection{&w.input_projection, gated_, step_.block.data(), hidden};
  multiply(worker, {&projection, 1}, scratch, next);
}

}  // namespace rigcast::engine
