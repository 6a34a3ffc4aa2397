// One layer's dense FFN.

#include <algorithm>

#include "engine/kernels/cpu/elementwise.hpp"
#include "engine/runtime/cpu_stages.hpp"

namespace rigcast::engine {

void CpuLayers::ffn(Worker& worker, int layer) {
  const Layer& w = weights(layer);
  const std::int64_t hidden = model_->spec.hidden, width = w.gate.rows;
  const double matrices = double(w.gate.bytes() + w.up.bytes() + w.down.bytes());
  Span span(worker, recorder_, ActivityKind::kFfn, layer, cached_, bytes_);
  worker.alone([&] {
    gate_.resize(std::size_t(tokens_ * width));
    up_.resize(gate_.size());
    bytes_.weights += matrices + 4.0 * double(w.ffn_norm.size());
  });
  prepare(worker, input_, hidden, tokens_, {&w.gate, &w.up},
          [&](std::int64_t row, std::span<float> out) { normed_row(row, w.ffn_norm, out); });
  const Product wide[] = {{&w.gate, &input_, gate_.data(), width},
                          {&w.up, &input_, up_.data(), width}};
  multiply(worker, wide, thread(worker).products);
  prepare(worker, input_, width, tokens_, {&w.down}, [&](std::int64_t row, std::span<float> out) {
    std::copy_n(gate_.data() + row * width, width, out.data());
    cpu::silu_multiply(out, up_.data() + row * width);
  });
  const Product down{&w.down, &input_, block_.data(), hidden};
  multiply(worker, {&down, 1}, thread(worker).products);
}

}  // namespace rigcast::engine
