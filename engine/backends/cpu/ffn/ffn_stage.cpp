#include "engine/backends/cpu/ffn/ffn_stage.hpp"

#include <algorithm>

#include "engine/kernels/cpu/elementwise.hpp"
#include "engine/model/model_bytes.hpp"

namespace rigcast::engine {
namespace {

// What becomes of the gate, by the up matrix's products; of those alone, where there is no gate.
void activate(const Layer& w, std::span<float> inner, const float* up, std::int64_t first) {
  if (!w.up_bias.empty()) cpu::add_scaled(inner, w.up_bias.data() + first, 1.0f);
  if (w.gate) return w.has_gelu() ? cpu::gelu_multiply(inner, up) : cpu::silu_multiply(inner, up);
  const Xielu& x = w.xielu;
  if (uses(w.ops, OpKind::kXieluMlp))
    cpu::xielu(inner, x.positive, x.negative, x.beta, x.eps);
  else if (uses(w.ops, OpKind::kSquaredReluMlp))
    cpu::squared_relu(inner);
  else
    cpu::gelu(inner);
}

}  // namespace

// Computes the down matrix's input, in rows of a batch or in parts of one row. Rows have been
// normed by now, so the FFN's output may overwrite the previous block's.
void FfnStage::gate(Worker& worker, const Layer& layer, std::int64_t width) {
  // Where the token's input of the layer follows, the layer's scale is of the sum with that.
  const float scale = layer.input_gate ? 1.0f : layer.scale();
  worker.run_once([&] { step_.set_pending(layer.ffn_post_norm, scale); });
  if (step_.tokens != 1)
    return worker.parallel_for(
        step_.tokens, gated_.rows_together(), [&](std::int64_t begin, std::int64_t end) {
          step_.make_rows(worker, gated_, begin, end, [&](std::int64_t row, std::span<float> out) {
            std::copy_n(step_.gate.data() + row * width, width, out.data());
            activate(layer, out, step_.up.data() + row * width, 0);
          });
        });
  worker.parallel_for(width, 4 * Input::kPart, [&](std::int64_t begin, std::int64_t end) {
    const std::span<float> part(step_.gate.data() + begin, std::size_t(end - begin));
    activate(layer, part, step_.up.data() + begin, begin);
    gated_.set_part(begin, part);
  });
}

void FfnStage::compute(Worker& worker, int layer, const NextMatrices& next) {
  const Layer& w = step_.layer(layer);
  const std::int64_t hidden = step_.width(), width = w.up.rows;
  const bool parallel = w.has_parallel_ffn(), gated = bool(w.gate);
  const Matrix& first = gated ? w.gate : w.up;
  ProductScratch& scratch = step_.products(worker);
  const ActivitySpan span = step_.span(worker, ActivityKind::kFfn, layer);
  const auto before = [&] {
    cpu::resize_at_least(step_.gate, std::size_t(step_.tokens * width));
    if (gated) cpu::resize_at_least(step_.up, std::size_t(step_.tokens * width));
    gated_.resize(width, step_.tokens, {&w.down});
    step_.bytes.weights += double(ffn_weight_bytes(w));
  };
  step_.prepare(worker, step_.input, hidden, {&first, &w.up}, before,
                [&](std::int64_t row, std::span<float> out) {
                  parallel ? step_.shared_row(row, w, out)
                           : step_.normed_row(row, w.ffn_norm, out, w.ffn_norm_bias);
                });
  const Product wide[] = {{&first, step_.input, step_.gate.data(), width},
                          {&w.up, step_.input, step_.up.data(), width}};
  multiply(worker, std::span(wide).first(gated ? 2 : 1), scratch, step_.if_apart({&w.down}));
  gate(worker, w, width);
  const Product down{&w.down, gated_, step_.block.data(), hidden};
  multiply(worker, {&down, 1}, scratch, next);
  if (w.down_bias.empty()) return;
  worker.barrier();
  worker.parallel_for_nowait(step_.tokens, 1, [&](std::int64_t row, std::int64_t) {
    cpu::add_scaled({step_.block.data() + row * hidden, std::size_t(hidden)}, w.down_bias.data(),
                    1.0f);
  });
}

}  // namespace rigcast::engine
