#include "engine/backends/cpu/recurrent/short_convolution_stage.hpp"

#include <algorithm>

#include "engine/model/model_bytes.hpp"

namespace rigcast::engine {
namespace {

constexpr std::int64_t kAtOnce = 512;  // columns

void multiply_by(std::span<float> values, const float* by) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= by[i];
}

// use(row, first column, columns) for all pieces of rows. Ends with a barrier.
template <class Use>
void for_pieces(Worker& worker, std::int64_t rows, std::int64_t width, const Use& use) {
  const std::int64_t pieces = (width + kAtOnce - 1) / kAtOnce;
  worker.parallel_for(rows * pieces, 1, [&](std::int64_t piece, std::int64_t) {
    const std::int64_t first = piece % pieces * kAtOnce;
    use(piece / pieces, first, std::min(kAtOnce, width - first));
  });
}

}  // namespace

ConvolvedRows ShortConvolutionStage::rows_of(int layer, const StepSequence& sequence) {
  return {gated_.data() + sequence.first * step_.width(), states_.at(sequence.state, layer).data(),
          step_.width(), step_.layer(layer).mixer.conv_kernel, step_.width()};
}

void ShortConvolutionStage::project(Worker& worker, int layer) {
  const Layer& w = step_.layer(layer);
  const auto floats = std::size_t(step_.tokens * step_.width());
  const auto before = [&] {
    cpu::resize_at_least(mixed_, 3 * floats);
    cpu::resize_at_least(gated_, floats);
    cpu::resize_at_least(out_, floats);
    states_.begin(step_.sequences, layer);
    const double state = double(step_.sequences.size()) * double(states_.at(0, layer).size_bytes());
    step_.bytes += {double(attention_weight_bytes(w)), state, state};
  };
  step_.prepare(worker, step_.input, step_.width(), {&w.mixer_in}, before,
                [&](std::int64_t row, std::span<float> out) {
                  step_.normed_row(row, w.attention_norm, out);
                });
  const Product product{&w.mixer_in, step_.input, mixed_.data(), 3 * step_.width()};
  multiply(worker, {&product, 1}, step_.products(worker), step_.if_apart({&w.mixer_out}));
  worker.barrier();
}

void ShortConvolutionStage::compute(Worker& worker, int layer, const NextMatrices& next) {
  const Layer& w = step_.layer(layer);
  const std::int64_t width = step_.width();
  const ActivitySpan span = step_.span(worker, ActivityKind::kAttention, layer);
  project(worker, layer);
  const auto piece_of = [&](cpu::AlignedVector<float>& of, std::int64_t at, std::int64_t columns) {
    return std::span(of.data() + at, std::size_t(columns));
  };
  for_pieces(worker, step_.tokens, width, [&](std::int64_t row, std::int64_t at, std::int64_t n) {
    const float* const mixed = mixed_.data() + row * 3 * width + at;
    const std::span<float> to = piece_of(gated_, row * width + at, n);
    std::copy_n(mixed, n, to.data());
    multiply_by(to, mixed + 2 * width);
  });
  for_pieces(worker, step_.tokens, width, [&](std::int64_t row, std::int64_t at, std::int64_t n) {
    const StepSequence& sequence = step_.sequence_of(row);
    const std::span<float> to = piece_of(out_, row * width + at, n);
    rows_of(layer, sequence).convolve(row - sequence.first, at, w.mixer_taps.data(), to);
    multiply_by(to, mixed_.data() + row * 3 * width + width + at);
  });
  const auto before = [&] {
    for (const StepSequence& s : step_.sequences) rows_of(layer, s).keep(s.tokens, 0, width);
    step_.set_pending(w.attention_post_norm);
  };
  step_.prepare(worker, step_.input, width, {&w.mixer_out}, before,
                [&](std::int64_t row, std::span<float> out) {
                  std::copy_n(out_.data() + row * width, width, out.data());
                });
  const Product output{&w.mixer_out, step_.input, step_.block.data(), width};
  multiply(worker, {&output, 1}, step_.products(worker), next);
}

}  // namespace rigcast::engine
