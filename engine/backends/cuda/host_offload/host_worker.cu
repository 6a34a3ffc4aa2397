#include "engine/backends/cuda/host_offload/host_worker.cuh"

#include <algorithm>
#include <chrono>
#include <numbers>
#include <utility>

#include "core/base/error.hpp"
#include "engine/synth/counter_rng.hpp"

namespace rigcast::engine::cuda {
namespace {

CpuOptions with_caches(CpuOptions options, const HostPlacement& parts) {
  options.cached_layers = parts.cached_layers();
  options.state_layers = parts.layers_with_state();
  return options;
}

}  // namespace

HostWorker::HostWorker(std::shared_ptr<const Model> model, const HostPlacement& parts,
                       CpuOptions options, BeforeHostOp before_host_op)
    : parts_(parts),
      before_host_op_(std::move(before_host_op)),
      calls_(parts.calls()),
      team_(options.threads, ThreadTeam::kGpuSpinTime, options.stop),
      layers_(std::move(model), with_caches(options, parts)) {}

template <class Job>
void HostWorker::run(const Job& job) {
  team_.run([&](Worker& worker) {
    if (before_host_op_) before_host_op_(worker.index());
    job(worker);
  });
}

void HostWorker::token(Mailbox& mailbox, const Stream& stream, TokenCount cached, std::int32_t id) {
  forget_periods();
  team_.run([&](Worker& worker) {
    layers_.begin(worker, cached, 1);
    for (const HostOp& call : calls_)
      if (happens(call)) wait_and_run_op(worker, call, mailbox, stream, cached, id);
  });
  for (const HostOp& call : calls_)
    if (happens(call)) count_op_bytes(call);
}

void HostWorker::begin_token(TokenCount cached) {
  next_op_ = 0;
  forget_periods();
  team_.run([&](Worker& worker) { layers_.begin(worker, cached, 1); });
}

void HostWorker::run_next_op(Mailbox& mailbox, const Stream& stream, TokenCount cached,
                             std::int32_t id) {
  while (next_op_ < calls_.size() && !happens(calls_[next_op_])) ++next_op_;
  RIGCAST_ASSERT(next_op_ < calls_.size());
  const HostOp& call = calls_[next_op_++];
  team_.run([&](Worker& worker) { wait_and_run_op(worker, call, mailbox, stream, cached, id); });
  count_op_bytes(call);
}

void HostWorker::wait_and_run_op(Worker& worker, const HostOp& call, Mailbox& mailbox,
                                 const Stream& stream, TokenCount cached, std::int32_t id) {
  prefetch_kv(worker, call, cached);
  if (worker.first()) {
    message_ = mailbox.await(stream);
    count_period(call);
  }
  worker.barrier();
  answer(worker, call, mailbox, id);
  if (worker.first()) mailbox.answer();
}

void HostWorker::forget_periods() {
  cold_sent_at_.reset();
  in_periods_ = {};
  periods_ = 0;
}

void HostWorker::count_period(const HostOp& call) {
  const auto since = std::exchange(cold_sent_at_, std::nullopt);
  if (call.kind != HostOp::Kind::kCold) return;
  cold_sent_at_ = std::chrono::steady_clock::now();
  if (!since) return;
  in_periods_ += Seconds{std::chrono::duration<double>(*cold_sent_at_ - *since).count()};
  ++periods_;
}

std::optional<Seconds> HostWorker::cold_period() const {
  return periods_ > 0 ? std::optional(in_periods_ / double(periods_)) : std::nullopt;
}

// Prefetches keys and values for the next operation: otherwise memory would be idle until the GPU
// sends its message.
void HostWorker::prefetch_kv(Worker& worker, const HostOp& call, TokenCount cached) {
  using enum HostOp::Kind;
  if (call.kind == kCold)
    layers_.attention().prefetch_kv(worker, call.first, *cold_.cache, cold_.tokens);
  else if (call.kind == kCache)
    layers_.attention().prefetch_kv(worker, cached_layer(call.first), layers_.cache(), cached + 1);
}

int HostWorker::cached_layer(int layer) const {
  const int source = layers_.model().layers[std::size_t(layer)].rule.kv_layer;
  return source >= 0 ? source : layer;
}

void HostWorker::decode(TokenCount cached, std::int32_t id) {
  run([&](Worker& worker) {
    layers_.begin(worker, cached, 1);
    layers_.embed(worker, {&id, 1});
    layers_.through(worker, 0, layers_.model().spec.layers);
    layers_.head(worker, Logits::kLast);
  });
}

void HostWorker::answer(Worker& worker, const HostOp& call, Mailbox& mailbox, std::int32_t id) {
  using enum HostOp::Kind;
  if (before_host_op_) before_host_op_(worker.index());
  const ModelSpec& spec = layers_.model().spec;
  const auto put = [&](std::span<const float> values) {
    if (worker.first()) std::ranges::copy(values, mailbox.answer_buffer());
  };
  const auto take_hidden = [&] {
    worker.run_once([&] { std::copy_n(message_, spec.hidden, layers_.hidden().begin()); });
  };
  switch (call.kind) {
    case kLayers:
      if (call.first == 0)
        layers_.embed(worker, {&id, 1});
      else
        take_hidden();
      layers_.through(worker, call.first, call.end);
      layers_.add_residual(worker);
      put(layers_.hidden());
      break;
    case kCold: attend_cold(worker, call.first, mailbox); break;
    case kCache:
      layers_.attention().attend(worker, call.first, message_);
      put(layers_.attention().out());
      break;
    case kExperts: {
      const auto used = std::size_t(spec.moe->experts_used);
      const float* const weights = message_ + spec.hidden;
      const auto* const ids = reinterpret_cast<const int*>(weights + used);
      layers_.experts().run_chosen(worker, call.first, message_, {ids, used}, {weights, used},
                                   mailbox.answer_buffer());
      break;
    }
    case kHead:
      take_hidden();
      layers_.head(worker, Logits::kLast);
      break;
  }
}

// Attends to cold blocks. Scores are converted to base 2, as the GPU has them.
void HostWorker::attend_cold(Worker& worker, int layer, Mailbox& mailbox) {
  const AttentionStage::Partial& part =
      layers_.attention().attend_partially(worker, layer, message_, *cold_.cache, cold_.tokens);
  if (!worker.first()) return;
  float* to = std::ranges::copy(part.o, mailbox.answer_buffer()).out;
  for (const float m : part.m) *to++ = m * float(std::numbers::log2e);
  std::ranges::copy(part.l, to);
}

void HostWorker::count_rows(std::size_t taken, std::size_t given) {
  sent_.to_host += double(taken * sizeof(float));
  sent_.to_gpu += double(given * sizeof(float));
}

void HostWorker::count_op_bytes(const HostOp& call) {
  using enum HostOp::Kind;
  const ModelSpec& spec = layers_.model().spec;
  const auto hidden = std::size_t(spec.hidden);
  const auto shape = [&] { return layers_.model().layers[std::size_t(call.first)].attention; };
  const auto q = [&] { return std::size_t(shape().q_width()); };
  const auto kv = [&] {
    return cached_layer(call.first) == call.first ? std::size_t(shape().kv_width()) : 0;
  };
  switch (call.kind) {
    case kLayers: return count_rows(call.first > 0 ? hidden : 0, hidden);
    case kCold: return count_rows(q(), q() + 2 * std::size_t(shape().heads));
    case kCache: return count_rows(q() + 2 * kv(), q());
    case kExperts: return count_rows(hidden + 2 * std::size_t(spec.moe->experts_used), hidden);
    case kHead: return count_rows(hidden, 0);
  }
}

MovedBytes HostWorker::take_bytes() {
  MovedBytes all = layers_.take_bytes();
  all.on_host = all.total();
  all += std::exchange(sent_, {});
  return all;
}

void HostWorker::begin(Worker& worker, const RowOwners& of, std::int64_t tokens) {
  of.sequences.empty() ? layers_.begin(worker, of.cached, tokens)
                       : layers_.begin(worker, of.sequences);
}

template <class Stage>
void HostWorker::on_rows(const RowOwners& of, std::span<float> hidden, const Stage& stage) {
  const std::int64_t tokens = rows(hidden.size(), layers_.model().spec.hidden);
  run([&](Worker& worker) {
    begin(worker, of, tokens);
    const std::int64_t width = layers_.model().spec.hidden;
    copy_rows(worker, hidden, layers_.hidden(), width);
    stage(worker);
    layers_.add_residual(worker);
    copy_rows(worker, layers_.hidden(), hidden, width);
  });
  count_rows(hidden.size(), hidden.size());
}

void HostWorker::copy_rows(Worker& worker, std::span<const float> from, std::span<float> to,
                           std::int64_t width) const {
  worker.parallel_for(rows(from.size(), width), 8, [&](std::int64_t begin, std::int64_t end) {
    std::copy(from.begin() + begin * width, from.begin() + end * width, to.begin() + begin * width);
  });
}

void HostWorker::embed(const RowOwners& of, std::span<const std::int32_t> ids,
                       std::span<float> hidden) {
  team_.run([&](Worker& worker) {
    begin(worker, of, std::int64_t(ids.size()));
    layers_.embed(worker, ids);
    copy_rows(worker, layers_.hidden(), hidden, layers_.model().spec.hidden);
  });
  count_rows(0, hidden.size());
}

void HostWorker::through(int first, int end, const RowOwners& of, std::span<float> hidden) {
  on_rows(of, hidden, [&](Worker& worker) { layers_.through(worker, first, end); });
}

void HostWorker::mixture(int layer, const RowOwners& of, std::span<float> hidden) {
  on_rows(of, hidden, [&](Worker& worker) { layers_.experts().compute_chosen(worker, layer); });
}

void HostWorker::attend(int layer, const RowOwners& of, std::span<const float> projected,
                        std::span<float> attn_out) {
  const AttentionShape& shape = layers_.model().layers[std::size_t(layer)].attention;
  const std::int64_t kv_width = cached_layer(layer) == layer ? shape.kv_width() : 0,
                     width = shape.q_width() + 2 * kv_width;
  run([&](Worker& worker) {
    begin(worker, of, rows(projected.size(), width));
    layers_.attention().attend(worker, layer, projected.data());
    copy_rows(worker, layers_.attention().out(), attn_out, shape.q_width());
  });
  count_rows(projected.size(), attn_out.size());
}

void HostWorker::head(const RowOwners& of, std::int64_t tokens, std::span<const std::int64_t> rows,
                      std::span<const float> hidden) {
  const std::int64_t width = layers_.model().spec.hidden;
  run([&](Worker& worker) {
    begin(worker, of, tokens);
    worker.run_once([&] {
      auto from = hidden.begin();
      for (const std::int64_t row : rows) {
        std::copy_n(from, width, layers_.hidden().begin() + row * width);
        from += width;
      }
    });
    layers_.head(worker, rows);
  });
  count_rows(hidden.size(), 0);
}

Seconds HostWorker::time_layer(int layer, TokenCount tokens, bool experts_alone) {
  using Clock = std::chrono::steady_clock;
  constexpr std::uint64_t stream = stream_key(1, "batch");
  layers_.cache().reserve(tokens);
  std::vector<float> hidden(std::size_t(tokens * layers_.model().spec.hidden));
  const auto run = [&] {
    for (std::size_t i = 0; i < hidden.size(); ++i)
      hidden[i] = float(std::int32_t(random_word(stream, i))) * 0x1p-31f;
    const auto begin = Clock::now();
    experts_alone ? mixture(layer, 0, hidden) : through(layer, layer + 1, 0, hidden);
    return Seconds{std::chrono::duration<double>(Clock::now() - begin).count()};
  };
  run();  // warm-up: allocates memory
  const Seconds time = run();
  layers_.cache().truncate(0);
  take_bytes();
  return time;
}

void HostWorker::fill(TokenCount cached, TokenCount tokens) {
  team_.run([&](Worker& worker) {
    worker.parallel_for(tokens, 16, [&](std::int64_t begin, std::int64_t end) {
      layers_.attention().fill(cached + begin, cached + end, cached + tokens);
    });
  });
}

}  // namespace rigcast::engine::cuda
