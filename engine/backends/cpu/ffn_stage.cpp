// One layer's dense FFN.

#include <algorithm>

#include "engine/backends/cpu/activity_span.hpp"
#include "engine/backends/cpu/cpu_layers.hpp"
#include "engine/kernels/cpu/elementwise.hpp"
#include "engine/model/model_bytes.hpp"

namespace rigcast::engine {

// Computes the down matrix's input, in rows of a batch or in parts of one row. Rows have been
// normed by now, so the FFN's output may overwrite the previous block's.
void CpuLayers::gate(Worker& worker, std::int64_t width) {
  worker.run_once([&] { pending_ = true; });
  if (tokens_ != 1)
    return worker.parallel_for(
        tokens_, gated_.rows_together(), [&](std::int64_t begin, std::int64_t end) {
          make_rows(worker, gated_, begin, end, [&](std::int64_t row, std::span<float> out) {
            std::copy_n(gate_.data() + row * width, width, out.data());
            cpu::silu_multiply(out, up_.data() + row * width);
          });
        });
  worker.parallel_for(width, 4 * Input::kPart, [&](std::int64_t begin, std::int64_t end) {
    const std::span<float> part(gate_.data() + begin, std::size_t(end - begin));
    cpu::silu_multiply(part, up_.data() + begin);
    gated_.set_part(begin, part);
  });
}

void CpuLayers::ffn(Worker& worker, int layer, const Next& next) {
  const Layer& w = weights(layer);
  const std::int64_t hidden = model_->spec.hidden, width = w.gate.rows;
  ProductScratch& scratch = thread(worker).products;
  ActivitySpan span(worker, recorder_, ActivityKind::kFfn, layer, cached_, bytes_);
  const auto before = [&] {
    cpu::resize_at_least(gate_, std::size_t(tokens_ * width));
    cpu::resize_at_least(up_, std::size_t(tokens_ * width));
    size_input(gated_, width, tokens_, {&w.down});
    bytes_.weights += double(ffn_weight_bytes(w));
  };
  prepare(worker, input_, hidden, tokens_, {&w.gate, &w.up}, before,
          [&](std::int64_t row, std::span<float> out) { normed_row(row, w.ffn_norm, out); });
  const Product wide[] = {{&w.gate, input_, gate_.data(), width},
                          {&w.up, input_, up_.data(), width}};
  multiply(worker, wide, scratch, if_one({&w.down}));
  gate(worker, width);
  const Product down{&w.down, gated_, block_.data(), hidden};
  multiply(worker, {&down, 1}, scratch, next);
}

}  // namespace rigcast::engine
