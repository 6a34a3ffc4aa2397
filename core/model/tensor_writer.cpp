#include "core/model/tensor_writer.hpp"

#include <algorithm>
#include <utility>

namespace rigcast {
namespace {

constexpr double kMaxBytes = double(1ull << 60);

}  // namespace

void TensorWriter::enter(int layer, WeightGroup& group) {
  layer_ = layer;
  group_ = &group;
}

void TensorWriter::matrix(TensorRole role, std::string_view name, std::int64_t in, std::int64_t out,
                          std::int64_t count) {
  add(role, name, ".weight", {in, out, count}, count > 1 ? 3 : 2);
}

void TensorWriter::vector(TensorRole role, std::string_view name, std::int64_t width) {
  add(role, name, ".weight", {width, 1, 1}, 1);
}

void TensorWriter::bias(std::string_view name, std::int64_t width, std::int64_t count) {
  add(TensorRole::kBias, name, ".bias", {width, count, 1}, count > 1 ? 2 : 1);
}

void TensorWriter::plain_bias(std::string_view name, std::int64_t width) {
  add(TensorRole::kBias, name, "", {width, 1, 1}, 1);
}

void TensorWriter::norm(std::string_view name, std::int64_t width) {
  vector(TensorRole::kNorm, name, width);
  if (model_.norm_bias) bias(name, width);
}

void TensorWriter::add(TensorRole role, std::string_view name, std::string_view suffix, Shape shape,
                       int dimensions) {
  if (error_) return;
  Tensor t;
  if (layer_ >= 0) t.name = "blk." + std::to_string(layer_) + ".";
  t.name.append(name).append(suffix);
  t.role = role;
  t.layer = layer_;
  t.dimensions = dimensions;
  error_ = refusal(t.name, shape);
  if (error_) return;
  std::ranges::transform(shape, t.shape.begin(), [](std::int64_t n) { return std::uint64_t(n); });
  t.format = dimensions == 1 ? QuantFormat::kF32 : mix_.format_of(model_, role, layer_, t.shape[0]);
  t.bytes = tensor_bytes(t.format, t.shape[0], t.shape[1] * t.shape[2]);
  group_->add(t);
  table_.tensors.push_back(std::move(t));
}

// Kept in doubles: a nonsensical spec must not wrap a 64-bit count.
std::optional<Error> TensorWriter::refusal(const std::string& name, Shape shape) {
  if (std::ranges::any_of(shape, [](std::int64_t n) { return n <= 0; }))
    return bad_input("model " + model_.id + ": " + name + " has a width of 0",
                     "give the model's width of that part");
  max_bytes_ += 4.0 * double(shape[0]) * double(shape[1]) * double(shape[2]);
  if (max_bytes_ > kMaxBytes)
    return bad_input("model " + model_.id + " has more than 2^60 bytes of weights");
  return std::nullopt;
}

}  // namespace rigcast
