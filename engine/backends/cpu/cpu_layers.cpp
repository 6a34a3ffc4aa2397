#include "engine/backends/cpu/cpu_layers.hpp"

#include "core/scenario/engine_sizes.hpp"
#include "engine/backends/cpu/activity_span.hpp"
#include "engine/kernels/cpu/elementwise.hpp"
#include "engine/kernels/ref/dequantize.hpp"
#include "engine/model/model_bytes.hpp"
#include "engine/synth/counter_rng.hpp"

namespace rigcast::engine {

namespace {

KvCache cache_for(const ModelSpec& spec, const CpuOptions& o) {
  return {spec, o.kv_types, o.kv_block, o.cached_layers ? *o.cached_layers : all_layers(spec),
          o.kv_memory ? o.kv_memory : o.ram.tracked("KV cache", make_large_pages)};
}

}  // namespace

std::optional<Error> check_layers_on_cpu(const Model& model) {
  return check_layers(model, pre_norm_blocks(), "the CPU");
}

CpuLayers::CpuLayers(std::shared_ptr<const Model> model, const CpuOptions& options)
    : model_(std::move(model)),
      ram_(options.ram),
      cache_(cache_for(model_->spec, options)),
      rope_(model_->hyper, model_->rope_factors),
      one_(model_->spec, options.threads),
      threads_(std::size_t(options.threads)) {
  if (const auto error = check_layers_on_cpu(*model_)) throw MachineError(error->text());
  for (int layer = 0; layer < int(model_->layers.size()); ++layer) {
    first_stages_.push_back(stages_.size());
    const auto blocks = fuse(weights(layer).ops, pre_norm_blocks());
    for (const FusedBlock block : *blocks) stages_.push_back({block, layer});
  }
  first_stages_.push_back(stages_.size());
}

// Buffers grow to the longest step so far, and never shrink.
void CpuLayers::allocate_buffers(std::int64_t tokens) {
  if (tokens <= buffered_) return;
  buffered_ = 0;
  buffers_ = RamShare();
  buffers_ =
      ram_.charge(std::size_t(cpu_buffer_bytes(model_->spec, double(tokens))), "activations");
  buffered_ = tokens;
}

void CpuLayers::begin(Worker& worker, TokenCount cached, std::int64_t tokens) {
  const std::size_t angles = rope_.pairs() * 2;
  worker.run_once([&] {
    allocate_buffers(tokens);
    cached_ = cached;
    tokens_ = tokens;
    hidden_.resize(std::size_t(tokens * model_->spec.hidden));
    block_.resize(hidden_.size());
    angles_.resize(std::size_t(tokens) * angles);
    pending_ = false;
  });
  worker.parallel_for(tokens, 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t)
      rope_.angles(cached + t, {angles_.data() + std::size_t(t) * angles, angles});
  });
}

void CpuLayers::embed(Worker& worker, std::span<const std::int32_t> ids) {
  const Matrix& table = model_->embedding;
  const std::size_t hidden = std::size_t(model_->spec.hidden);
  ActivitySpan span(worker, recorder_, ActivityKind::kEmbedding, -1, cached_, bytes_);
  worker.parallel_for(tokens_, 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::size_t row = std::size_t(t);
      ref::dequantize(table.format, table.row(ids[row]), {hidden_.data() + row * hidden, hidden});
    }
  });
}

CpuLayers::Next CpuLayers::first_of(const Stage& stage) const {
  const Layer& w = weights(stage.layer);
  switch (stage.block) {
    case FusedBlock::kAttention: return {&w.q, &w.k, &w.v};
    case FusedBlock::kFfn: return {&w.gate, &w.up};
    case FusedBlock::kExperts: return {&w.router};
  }
  return {};
}

void CpuLayers::compute(Worker& worker, const Stage& stage, const Next& next) {
  switch (stage.block) {
    case FusedBlock::kAttention: return attention(worker, stage.layer, next);
    case FusedBlock::kFfn: return ffn(worker, stage.layer, next);
    case FusedBlock::kExperts: return experts(worker, stage.layer, next);
  }
}

void CpuLayers::through(Worker& worker, int first, int end) {
  const std::size_t last = first_stages_[std::size_t(end)];
  for (std::size_t i = first_stages_[std::size_t(first)]; i < last; ++i)
    compute(worker, stages_[i], i + 1 < last ? if_one(first_of(stages_[i + 1])) : Next());
}

void CpuLayers::add_residual(Worker& worker) {
  const std::size_t hidden = std::size_t(model_->spec.hidden);
  worker.barrier();
  if (pending_)
    worker.parallel_for_nowait(tokens_, 8, [&](std::int64_t begin, std::int64_t end) {
      for (std::size_t t = std::size_t(begin); t < std::size_t(end); ++t)
        cpu::add_scaled({hidden_.data() + t * hidden, hidden}, block_.data() + t * hidden, 1.0f);
    });
  worker.run_once([&] { pending_ = false; });
}

void CpuLayers::normed_row(std::int64_t row, std::span<const float> weight, std::span<float> out) {
  const std::size_t hidden = std::size_t(model_->spec.hidden);
  const std::span<float> x(hidden_.data() + std::size_t(row) * hidden, hidden);
  if (pending_) cpu::add_scaled(x, block_.data() + std::size_t(row) * hidden, 1.0f);
  cpu::rms_norm(x, weight, model_->hyper.norm_eps, out.data());
}

void CpuLayers::size_input(Input& input, std::int64_t columns, std::int64_t rows,
                           std::initializer_list<const Matrix*> matrices) {
  bool integers = false, floats = false;
  for (const Matrix* m : matrices) (needs_integers(*m) ? integers : floats) = true;
  input.resize(columns, rows, integers, floats);
}

void CpuLayers::head(Worker& worker, Logits which) {
  const std::int64_t rows = which == Logits::kAll ? tokens_ : 1;
  const std::int64_t first = tokens_ - rows;
  ActivitySpan span(worker, recorder_, ActivityKind::kHead, -1, cached_, bytes_);
  const auto before = [&] {
    logits_.resize(std::size_t(rows * model_->head.rows));
    bytes_.weights += double(head_weight_bytes(*model_));
  };
  prepare(worker, input_, model_->spec.hidden, rows, {&model_->head}, before,
          [&](std::int64_t row, std::span<float> out) {
            normed_row(first + row, model_->final_norm, out);
          });
  const Product product{&model_->head, input_, logits_.data(), model_->head.rows};
  multiply(worker, {&product, 1}, thread(worker).products);
  worker.barrier();
}

void CpuLayers::fill(TokenCount first, TokenCount last) {
  constexpr std::uint64_t stream = stream_key(1, "cache");
  std::vector<float> k, v;
  for (TokenCount t = first; t < last; ++t)
    for (int layer = 0; layer < model_->spec.layers; ++layer) {
      if (!cache_.keeps(layer)) continue;
      const std::size_t width = std::size_t(shape(layer).kv_width());
      k.resize(width);
      v.resize(width);
      std::uint64_t at = (std::uint64_t(t) * 1024 + std::uint64_t(layer)) * width;
      for (std::size_t i = 0; i < width; ++i, ++at) {
        const std::uint64_t bits = random_word(stream, at);
        k[i] = float(std::int32_t(bits)) * 0x1p-31f;
        v[i] = float(std::int32_t(bits >> 32)) * 0x1p-31f;
      }
      cache_.store(layer, t, k.data(), v.data());
    }
}

}  // namespace rigcast::engine
