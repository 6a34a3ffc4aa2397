#include "bench/engine/weights.hpp"

#include <stdexcept>

#include "core/model/tensor_table.hpp"
#include "engine/synth/synth.hpp"

namespace rigcast::bench {
namespace {

using engine::Matrix;

// Fills memory in pieces, on all threads.
void fill(const Tensor& tensor, const Matrix& matrix, std::byte* to, engine::ThreadTeam& team) {
  const std::int64_t block = info(matrix.format).block_bytes;
  team.run([&](engine::Worker& worker) {
    worker.parallel_for(matrix.bytes() / block, 4096, [&](std::int64_t begin, std::int64_t end) {
      engine::synthesize(tensor, 1, std::uint64_t(begin),
                         {to + begin * block, std::size_t((end - begin) * block)});
    });
  });
}

bool begins_group(TensorRole role) {
  return role == TensorRole::kAttentionQ || role == TensorRole::kAttentionOutput ||
         role == TensorRole::kFfnGate || role == TensorRole::kFfnDown;
}

}  // namespace

double Weights::layer_bytes() const {
  double sum = 0;
  for (const Together& group : layers)
    for (const Matrix& m : group) sum += double(m.bytes());
  return sum;
}

double Weights::layer_elements() const {
  double sum = 0;
  for (const Together& group : layers)
    for (const Matrix& m : group) sum += double(m.rows * m.columns);
  return sum;
}

Weights make_weights(const ModelSpec& model, const std::string& mix, engine::ThreadTeam& team) {
  const auto quant = QuantMix::from_name(mix);
  if (!quant) throw std::runtime_error(mix);
  const auto table = make_tensor_table(model, *quant);
  if (!table) throw std::runtime_error(table.error().text());
  Weights w;
  w.buffer = engine::LargePages(table->bytes());
  std::byte* at = w.buffer.data();
  for (const Tensor& t : table->tensors) {
    if (t.dimensions != 2) continue;
    const Matrix matrix{at, t.format, std::int64_t(t.shape[0]), std::int64_t(t.shape[1])};
    fill(t, matrix, at, team);
    at += matrix.bytes();
    if (t.layer < 0) {
      w.head = {matrix};
      continue;
    }
    if (begins_group(t.role)) w.layers.emplace_back();
    w.layers.back().push_back(matrix);
  }
  return w;
}

}  // namespace rigcast::bench
