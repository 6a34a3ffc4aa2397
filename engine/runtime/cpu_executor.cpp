#include "engine/runtime/cpu_executor.hpp"

#include <algorithm>

#include "engine/kernels/cpu/elementwise.hpp"
#include "engine/kernels/ref/dequantize.hpp"
#include "engine/runtime/cpu_executor_prepare.hpp"
#include "engine/synth/counter_rng.hpp"

namespace rigcast::engine {

CpuExecutor::CpuExecutor(std::shared_ptr<const Model> model, const CpuOptions& options)
    : model_(std::move(model)),
      options_(options),
      team_(options.threads),
      cache_(model_->spec, options.kv_types, options.kv_block),
      rope_(model_->hyper, model_->rope_factors),
      one_(model_->spec, options.threads),
      threads_(std::size_t(options.threads)) {}

std::span<const float> CpuExecutor::forward(std::span<const std::int32_t> tokens, Logits which) {
  const TokenCount count = TokenCount(tokens.size());
  cache_.reserve(cached_ + count);
  std::vector<float> all;
  std::span<const float> logits;
  for (TokenCount done = 0; done < count;) {
    const TokenCount now = std::min(options_.ubatch, count - done);
    const bool last = done + now == count;
    const Logits own = which == Logits::kLast && !last ? Logits::kNone : which;
    logits = step(tokens.subspan(std::size_t(done), std::size_t(now)), own);
    if (which == Logits::kAll) all.insert(all.end(), logits.begin(), logits.end());
    done += now;
  }
  if (which != Logits::kAll) return logits;
  logits_ = std::move(all);
  return logits_;
}

std::span<const float> CpuExecutor::step(std::span<const std::int32_t> tokens, Logits which) {
  tokens_ = std::int64_t(tokens.size());
  const std::size_t n = tokens.size(), hidden = std::size_t(model_->spec.hidden);
  hidden_.resize(n * hidden);
  block_.resize(n * hidden);
  angles_.resize(n * rope_.pairs() * 2);
  pending_ = false;
  team_.run([&](Worker& worker) {
    embed(worker, tokens);
    for (int layer = 0; layer < model_->spec.layers; ++layer) {
      attention(worker, layer);
      model_->spec.is_moe_layer(layer) ? experts(worker, layer) : ffn(worker, layer);
    }
    if (which != Logits::kNone) head(worker, which);
  });
  cached_ += tokens_;
  return which == Logits::kNone ? std::span<const float>() : std::span<const float>(logits_);
}

void CpuExecutor::embed(Worker& worker, std::span<const std::int32_t> tokens) {
  const Matrix& table = model_->embedding;
  const std::size_t hidden = std::size_t(model_->spec.hidden), angles = rope_.pairs() * 2;
  Span span(worker, recorder_, ActivityKind::kEmbedding, -1, cached_, bytes_);
  worker.share(tokens_, 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::size_t row = std::size_t(t);
      ref::dequantize(table.format, table.row(tokens[row]),
                      {hidden_.data() + row * hidden, hidden});
      rope_.angles(cached_ + t, {angles_.data() + row * angles, angles});
    }
  });
}

void CpuExecutor::normed_row(std::int64_t row, std::span<const float> weight,
                             std::span<float> out) {
  const std::size_t hidden = std::size_t(model_->spec.hidden);
  const std::span<float> x(hidden_.data() + std::size_t(row) * hidden, hidden);
  if (pending_) cpu::add_scaled(x, block_.data() + std::size_t(row) * hidden, 1.0f);
  cpu::rms_norm(x, weight, model_->hyper.norm_eps, out.data());
}

void CpuExecutor::head(Worker& worker, Logits which) {
  const std::int64_t rows = which == Logits::kAll ? tokens_ : 1;
  const std::int64_t first = tokens_ - rows;
  Span span(worker, recorder_, ActivityKind::kHead, -1, cached_, bytes_);
  prepare(worker, input_, model_->spec.hidden, rows, {&model_->head},
          [&](std::int64_t row, std::span<float> out) {
            normed_row(first + row, model_->final_norm, out);
          });
  worker.alone([&] {
    logits_.resize(std::size_t(rows * model_->head.rows));
    const std::size_t vectors = model_->final_norm.size() + model_->rope_factors.size();
    bytes_.weights += double(model_->head.bytes()) + 4.0 * double(vectors);
  });
  const Product product{&model_->head, &input_, logits_.data(), model_->head.rows};
  multiply(worker, {&product, 1}, thread(worker).products);
}

void CpuExecutor::truncate(TokenCount tokens) {
  cached_ = std::min(cached_, tokens);
  cache_.truncate(cached_);
}

void CpuExecutor::fill(TokenCount tokens) {
  cache_.reserve(cached_ + tokens);
  const std::size_t width = std::size_t(model_->spec.kv_heads * model_->spec.head_dim);
  team_.run([&](Worker& worker) {
    constexpr std::uint64_t stream = stream_key(1, "cache");
    std::vector<float> k(width), v(width);
    worker.share(tokens, 16, [&](std::int64_t begin, std::int64_t end) {
      for (TokenCount t = cached_ + begin; t < cached_ + end; ++t)
        for (int layer = 0; layer < model_->spec.layers; ++layer) {
          std::uint64_t at = (std::uint64_t(t) * 1024 + std::uint64_t(layer)) * width;
          for (std::size_t i = 0; i < width; ++i, ++at) {
            const std::uint64_t bits = random_word(stream, at);
            k[i] = float(std::int32_t(bits)) * 0x1p-31f;
            v[i] = float(std::int32_t(bits >> 32)) * 0x1p-31f;
          }
          cache_.store(layer, t, k.data(), v.data());
        }
    });
  });
  cached_ += tokens;
}

MovedBytes CpuExecutor::take_bytes() { return std::exchange(bytes_, {}); }

}  // namespace rigcast::engine
