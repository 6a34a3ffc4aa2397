#include "engine/backends/cuda/host_offload/host_offload.cuh"

#include <numeric>
#include <utility>
#include <vector>

#include "core/scenario/engine_sizes.hpp"
#include "engine/cuda/cuda_call.cuh"

namespace rigcast::engine::cuda {
namespace {

std::size_t rows_bytes(const ModelSpec& m, TokenCount tokens) {
  return std::size_t(tokens) * message_floats(m) * sizeof(float);
}

}  // namespace

HostOffload::HostOffload(const Stream& stream, std::shared_ptr<const Model> model,
                         const HostPlacement& parts, const CpuOptions& options,
                         BeforeHostOp before_host_op)
    : side(model, parts, options, std::move(before_host_op)),
      mailbox(message_floats(model->spec)),
      stream_(stream),
      buffers_(options.ram.charge(rows_bytes(model->spec, options.ubatch), "activations")),
      rows_(rows_bytes(model->spec, options.ubatch), "rows of a batch") {}

void HostOffload::send(std::initializer_list<MessagePart> parts) {
  cuda::send(stream_, {parts.begin(), parts.size()}, mailbox.view());
}

void HostOffload::receive(std::initializer_list<AnswerPart> answer) {
  cuda::receive(stream_, mailbox.view(), {answer.begin(), answer.size()});
  let_host_answer();
}

void HostOffload::send_last(std::initializer_list<MessagePart> parts) {
  send(parts);
  let_host_answer();
}

// Runs the host's next operation, if it runs while a token is queued: a message and, except for a
// token's last message, its answer are queued by now.
void HostOffload::let_host_answer() {
  if (run_host_op) run_host_op();
}

// Copies rows from the GPU to the host, after all queued work, and waits for them.
std::span<float> HostOffload::fetch_rows(const float* rows, std::int64_t count) {
  float* const to = rows_.as<float>();
  RIGCAST_CUDA_CALL(cudaMemcpyAsync(to, rows, std::size_t(count) * sizeof(float),
                                    cudaMemcpyDeviceToHost, stream_.get()));
  stream_.wait();
  return {to, std::size_t(count)};
}

void HostOffload::return_rows(std::span<const float> rows, float* to) {
  RIGCAST_CUDA_CALL(
      cudaMemcpyAsync(to, rows.data(), rows.size_bytes(), cudaMemcpyHostToDevice, stream_.get()));
  stream_.wait();  // rows_ is about to be reused
}

template <class Compute>
void HostOffload::on_hidden(const BatchRows& hidden, const Compute& compute) {
  const auto rows = fetch_rows(hidden.first, hidden.tokens * spec().hidden);
  compute(rows);
  return_rows(rows, hidden.first);
}

void HostOffload::embed(const RowOwners& of, std::span<const std::int32_t> ids, float* hidden) {
  const std::span<float> rows(rows_.as<float>(), ids.size() * std::size_t(spec().hidden));
  embedded_.wait();
  side.embed(of, ids, rows);
  RIGCAST_CUDA_CALL(cudaMemcpyAsync(hidden, rows.data(), rows.size_bytes(), cudaMemcpyHostToDevice,
                                    stream_.get()));
  embedded_.set(stream_);
}

void HostOffload::compute_layers(int first, int end, const BatchRows& hidden) {
  on_hidden(hidden, [&](std::span<float> rows) { side.through(first, end, hidden.of, rows); });
}

void HostOffload::compute_experts(int layer, const BatchRows& hidden) {
  on_hidden(hidden, [&](std::span<float> rows) { side.mixture(layer, hidden.of, rows); });
}

void HostOffload::attend(int layer, const BatchRows& projected) {
  const Layer& own = side.layers().model().layers[std::size_t(layer)];
  const std::int64_t q = own.attention.q_width(),
                     kv = own.rule.kv_layer >= 0 ? 0 : own.attention.kv_width();
  const auto rows = fetch_rows(projected.first, projected.tokens * (q + 2 * kv));
  // The attention output overwrites the projections, which have been copied by then.
  const auto attn_out = rows.first(std::size_t(projected.tokens) * std::size_t(q));
  side.attend(layer, projected.of, rows, attn_out);
  return_rows(attn_out, projected.first);
}

void HostOffload::compute_logits(const BatchRows& hidden) {
  std::vector<std::int64_t> all(std::size_t(hidden.tokens));
  std::iota(all.begin(), all.end(), 0);
  compute_logits(hidden, all);
}

void HostOffload::compute_logits(const BatchRows& hidden, std::span<const std::int64_t> rows) {
  const std::int64_t width = spec().hidden;
  float* to = rows_.as<float>();
  for (std::size_t i = 0; i < rows.size();) {
    const std::size_t first = i++;
    while (i < rows.size() && rows[i] == rows[i - 1] + 1) ++i;  // neighbours in one copy
    const std::size_t count = (i - first) * std::size_t(width);
    RIGCAST_CUDA_CALL(cudaMemcpyAsync(to, hidden.first + rows[first] * width, count * sizeof(float),
                                      cudaMemcpyDeviceToHost, stream_.get()));
    to += count;
  }
  stream_.wait();
  side.head(hidden.of, hidden.tokens, rows, {rows_.as<float>(), to});
}

}  // namespace rigcast::engine::cuda
