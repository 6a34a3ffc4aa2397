#include "engine/backends/cpu/ffn_stage.hpp"

#include <algorithm>

#include "engine/kernels/cpu/elementwise.hpp"
#include "engine/model/model_bytes.hpp"

namespace rigcast::engine {

// Computes the down matrix's input, in rows of a batch or in parts of one row. Rows have been
// normed by now, so the FFN's output may overwrite the previous block's.
void FfnStage::gate(Worker& worker, const Layer& layer, std::int64_t width) {
  const auto activate = layer.has_gelu() ? cpu::gelu_multiply : cpu::silu_multiply;
  worker.run_once([&] { step_.set_pending(layer.ffn_post_norm); });
  if (step_.tokens != 1)
    return worker.parallel_for(
        step_.tokens, gated_.rows_together(), [&](std::int64_t begin, std::int64_t end) {
          step_.make_rows(worker, gated_, begin, end, [&](std::int64_t row, std::span<float> out) {
            std::copy_n(step_.gate.data() + row * width, width, out.data());
            activate(out, step_.up.data() + row * width);
          });
        });
  worker.parallel_for(width, 4 * Input::kPart, [&](std::int64_t begin, std::int64_t end) {
    const std::span<float> part(step_.gate.data() + begin, std::size_t(end - begin));
    activate(part, step_.up.data() + begin);
    gated_.set_part(begin, part);
  });
}

void FfnStage::compute(Worker& worker, int layer, const NextMatrices& next) {
  const Layer& w = step_.layer(layer);
  const std::int64_t hidden = step_.width(), width = w.gate.rows;
  ProductScratch& scratch = step_.products(worker);
  const ActivitySpan span = step_.span(worker, ActivityKind::kFfn, layer);
  const auto before = [&] {
    cpu::resize_at_least(step_.gate, std::size_t(step_.tokens * width));
    cpu::resize_at_least(step_.up, std::size_t(step_.tokens * width));
    gated_.resize(width, step_.tokens, {&w.down});
    step_.bytes.weights += double(ffn_weight_bytes(w));
  };
  step_.prepare(
      worker, step_.input, hidden, {&w.gate, &w.up}, before,
      [&](std::int64_t row, std::span<float> out) { step_.normed_row(row, w.ffn_norm, out); });
  const Product wide[] = {{&w.gate, step_.input, step_.gate.data(), width},
                          {&w.up, step_.input, step_.up.data(), width}};
  multiply(worker, wide, scratch, step_.if_apart({&w.down}));
  gate(worker, w, width);
  const Product down{&w.down, gated_, step_.block.data(), hidden};
  multiply(worker, {&down, 1}, scratch, next);
}

}  // namespace rigcast::engine
