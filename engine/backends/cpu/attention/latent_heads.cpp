#include "engine/backends/cpu/attention/latent_heads.hpp"

#include "engine/kernels/cpu/elementwise.hpp"

namespace rigcast::engine {

// One product for each head. A head's rows of the input lie together, as those of an expert.
void LatentHeads::multiply_heads(Worker& worker, int heads, const HeadProducts& p) {
  const RowForm form = step_.form() == RowForm::kTiled ? RowForm::kTiled : RowForm::kApart;
  const std::int64_t group = form == RowForm::kApart ? 1 : group_rows({&p.all}),
                     apart = (step_.tokens + group - 1) / group * group;
  worker.run_once([&] { by_head_.resize(p.all.columns, heads * apart, {&p.all}, form); });
  worker.parallel_for(heads, 1, [&](std::int64_t head, std::int64_t) {
    for (std::int64_t token = 0; token < step_.tokens; ++token)
      by_head_.set_row(head * apart + token, {p.from + (token * heads + head) * p.from_width,
                                              std::size_t(p.all.columns)});
  });
  std::vector<Matrix> own;
  std::vector<Product> products;
  own.reserve(std::size_t(heads));
  for (std::int64_t head = 0; head < heads; ++head) {
    own.push_back({p.all.row(head * p.rows), p.all.format, p.all.columns, p.rows});
    products.push_back({&own.back(), InputRows(by_head_, head * apart, step_.tokens),
                        p.to + head * p.to_width, heads * p.to_width});
  }
  multiply(worker, products, step_.products(worker));
}

void LatentHeads::project(Worker& worker, const Layer& w, float* q, float* rows) {
  const int heads = w.attention.heads;
  const LatentShape& latent = w.latent;
  const bool compressed = bool(w.q_a);
  const Matrix& first = compressed ? w.q_a : w.q;
  const std::int64_t query = heads * latent.query(), width = first.rows;
  ProductScratch& scratch = step_.products(worker);
  const auto before = [&] {
    raw_.resize(std::size_t(step_.tokens * query));
    if (compressed) compressed_.resize(std::size_t(step_.tokens * width));
  };
  step_.prepare(worker, step_.input, step_.width(), {&first, &w.kv_a}, before,
                [&](std::int64_t row, std::span<float> out) {
                  step_.normed_row(row, w.attention_norm, out);
                });
  const Product products[] = {
      {&first, step_.input, compressed ? compressed_.data() : raw_.data(), width},
      {&w.kv_a, step_.input, rows, latent.row()}};
  multiply(worker, products, scratch);
  if (compressed) {
    const float eps = step_.model->hyper.norm_eps;
    step_.prepare(
        worker, latent_, width, {&w.q_b}, [] {},
        [&](std::int64_t row, std::span<float> out) {
          cpu::rms_norm({compressed_.data() + row * width, std::size_t(width)}, w.q_a_norm, eps,
                        out.data());
        });
    const Product queries{&w.q_b, latent_, raw_.data(), query};
    multiply(worker, {&queries, 1}, scratch);
  }
  multiply_heads(worker, heads, {w.k_b, latent.rank, raw_.data(), latent.query(), q, latent.row()});
}

void LatentHeads::expand(Worker& worker, const Layer& w, const float* attended) {
  const int heads = w.attention.heads;
  worker.run_once([&] { values_.resize(std::size_t(step_.tokens * heads * w.latent.value)); });
  multiply_heads(worker, heads,
                 {w.v_b, w.latent.value, attended, w.latent.row(), values_.data(), w.latent.value});
}

}  // namespace rigcast::engine
