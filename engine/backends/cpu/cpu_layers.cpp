#include "engine/backends/cpu/cpu_layers.hpp"

#include <algorithm>
#include <utility>

#include "core/scenario/engine_sizes.hpp"
#include "engine/kernels/cpu/elementwise.hpp"
#include "engine/kernels/ref/dequantize.hpp"
#include "engine/model/model_bytes.hpp"

namespace rigcast::engine {

std::optional<Error> check_layers_on_cpu(const Model& model) {
  return check_layers(model, decoder_blocks(), "the CPU");
}

CpuLayers::CpuLayers(std::shared_ptr<const Model> model, const CpuOptions& options)
    : ram_(options.ram),
      step_(std::move(model), options.threads),
      attention_(step_, options),
      ffn_(step_),
      inputs_(step_),
      experts_(step_),
      states_(*step_.model, options.states, options.ram, options.state_layers,
              options.state_memory),
      delta_net_(step_, states_),
      short_convolution_(step_, states_),
      mamba_(step_, states_) {
  if (const auto error = check_layers_on_cpu(*step_.model)) throw MachineError(error->text());
  for (int layer = 0; layer < int(step_.model->layers.size()); ++layer) {
    first_stages_.push_back(stages_.size());
    const auto blocks = fuse(step_.layer(layer).ops, decoder_blocks());
    for (const FusedBlock block : *blocks) stages_.push_back({block, layer});
  }
  first_stages_.push_back(stages_.size());
}

// Buffers grow to the longest step so far, and never shrink.
void CpuLayers::allocate_buffers(std::int64_t tokens) {
  if (tokens <= buffered_) return;
  buffered_ = 0;
  buffers_ = RamCharge();
  buffers_ =
      ram_.charge(std::size_t(cpu_buffer_bytes(step_.model->spec, double(tokens))), "activations");
  buffered_ = tokens;
}

void CpuLayers::begin_step(Worker& worker, std::span<const StepSequence> sequences,
                           bool isolates_rows) {
  worker.run_once([&] {
    allocate_buffers(sequences.back().first + sequences.back().tokens);
    step_.begin(sequences);
    step_.isolates_rows = isolates_rows;
    attention_.begin();
  });
  attention_.compute_angles(worker);
}

void CpuLayers::begin(Worker& worker, TokenCount cached, std::int64_t tokens) {
  const StepSequence all{cached, 0, tokens};
  begin_step(worker, {&all, 1}, false);
}

void CpuLayers::begin(Worker& worker, std::span<const StepSequence> sequences) {
  begin_step(worker, sequences, true);
}

void CpuLayers::embed(Worker& worker, std::span<const std::int32_t> ids) {
  const Matrix& table = step_.model->embedding;
  const std::size_t hidden = std::size_t(step_.width());
  const float scale = step_.model->hyper.embedding_scale;
  const ActivitySpan span = step_.span(worker, ActivityKind::kEmbedding, -1);
  worker.parallel_for(step_.tokens, 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::size_t row = std::size_t(t);
      const std::span<float> to(step_.hidden.data() + row * hidden, hidden);
      ref::dequantize(table.format, table.row(ids[row]), to);
      if (scale != 1)
        for (float& x : to) x *= scale;
    }
  });
  inputs_.begin(worker, ids);
}

NextMatrices CpuLayers::first_of(const Stage& stage) const {
  const Layer& w = step_.layer(stage.layer);
  switch (stage.block) {
    case FusedBlock::kAttention: {
      if (w.latent) return {w.q_a ? &w.q_a : &w.q, &w.kv_a};
      NextMatrices matrices = {&w.q};
      if (w.k) matrices.push_back(&w.k);
      if (w.v) matrices.push_back(&w.v);
      return matrices;
    }
    case FusedBlock::kFfn:
      if (!w.gate) return {&w.up};
      return {&w.gate, &w.up};
    case FusedBlock::kLayerInput: return {&w.input_gate};
    case FusedBlock::kExperts: return {&w.router};
    case FusedBlock::kDeltaNet:
      if (!w.mixer_gate) return {&w.mixer_in};
      return {&w.mixer_in, &w.mixer_gate};
    case FusedBlock::kMamba:
    case FusedBlock::kShortConvolution: return {&w.mixer_in};
  }
  return {};
}

void CpuLayers::compute(Worker& worker, const Stage& stage, const NextMatrices& next) {
  switch (stage.block) {
    case FusedBlock::kAttention: return attention_.compute(worker, stage.layer, next);
    case FusedBlock::kFfn: return ffn_.compute(worker, stage.layer, next);
    case FusedBlock::kLayerInput: return inputs_.compute(worker, stage.layer, next);
    case FusedBlock::kExperts: return experts_.compute(worker, stage.layer, next);
    case FusedBlock::kDeltaNet: return delta_net_.compute(worker, stage.layer, next);
    case FusedBlock::kMamba: return mamba_.compute(worker, stage.layer, next);
    case FusedBlock::kShortConvolution:
      return short_convolution_.compute(worker, stage.layer, next);
  }
}

void CpuLayers::through(Worker& worker, int first, int end) {
  const std::size_t last = first_stages_[std::size_t(end)];
  for (std::size_t i = first_stages_[std::size_t(first)]; i < last; ++i)
    compute(worker, stages_[i],
            i + 1 < last ? step_.if_apart(first_of(stages_[i + 1])) : NextMatrices());
}

void CpuLayers::head(Worker& worker, Logits which) {
  const std::int64_t rows = which == Logits::kAll ? step_.tokens : 1;
  head_of(worker, rows, [&](std::int64_t row) { return step_.tokens - rows + row; });
}

void CpuLayers::head(Worker& worker, std::span<const std::int64_t> rows) {
  head_of(worker, std::int64_t(rows.size()), [&](std::int64_t i) { return rows[std::size_t(i)]; });
}

// Where rows are isolated, their form does not depend on how many have their logits asked for.
template <class RowOf>
void CpuLayers::head_of(Worker& worker, std::int64_t rows, const RowOf& row_of) {
  const Model& model = *step_.model;
  const RowForm form = step_.isolates_rows ? step_.form() : form_of(rows);
  const ActivitySpan span = step_.span(worker, ActivityKind::kHead, -1);
  const auto before = [&] {
    logits_.resize(std::size_t(rows * model.head.rows));
    step_.bytes.weights += double(head_weight_bytes(model));
  };
  step_.prepare(worker, step_.input, step_.width(), rows, form, {&model.head}, before,
                [&](std::int64_t row, std::span<float> out) {
                  step_.normed_row(row_of(row), model.final_norm, out, model.final_norm_bias);
                });
  const Product product{&model.head, step_.input, logits_.data(), model.head.rows};
  multiply(worker, {&product, 1}, step_.products(worker));
  worker.barrier();
  finish_logits(worker, rows);
}

void CpuLayers::finish_logits(Worker& worker, std::int64_t rows) {
  const float scale = step_.model->hyper.logit_scale, cap = step_.model->hyper.logit_softcap;
  const std::vector<float>& bias = step_.model->head_bias;
  if (scale == 1 && cap == 0 && bias.empty()) return;
  // Pieces begin where a row does: no bit of a row's logits depends on its place among others.
  constexpr std::int64_t kAtOnce = 4096;
  const std::int64_t width = step_.model->head.rows, pieces = (width + kAtOnce - 1) / kAtOnce;
  worker.parallel_for(rows * pieces, 1, [&](std::int64_t piece, std::int64_t) {
    const std::int64_t first = piece % pieces * kAtOnce, count = std::min(kAtOnce, width - first);
    const std::int64_t at = piece / pieces * width + first;
    if (!bias.empty())
      cpu::add_scaled({logits_.data() + at, std::size_t(count)}, bias.data() + first, 1.0f);
    cpu::scale_and_cap({logits_.data() + at, std::size_t(count)}, scale, cap);
  });
}

}  // namespace rigcast::engine
