#include "core/model/tensor.hpp"

#include <algorithm>

namespace rigcast {
namespace {

WeightGroup::Product product_of(TensorRole role) {
  using enum TensorRole;
  switch (role) {
    case kAttentionQ:
    case kAttentionK:
    case kAttentionV:
    case kAttentionQKV:
    case kFfnGate:
    case kFfnUp:
    case kSharedGate:
    case kSharedUp: return WeightGroup::kIn;
    case kAttentionOutput:
    case kFfnDown:
    case kSharedDown: return WeightGroup::kOut;
    default: return WeightGroup::kOther;
  }
}

}  // namespace

void WeightGroup::add(const Tensor& t) {
  bytes_by_format[std::size_t(t.format)] += t.bytes;
  elements_by_format[std::size_t(t.format)] += t.elements();
  if (t.dimensions < 2 || t.role == TensorRole::kBias) return;
  ++matrices;
  ProductShape& product = products[product_of(t.role)];
  if (product.rows == 0) product.format = t.format;
  product.several_formats |= product.format != t.format;
  product.rows += t.elements() / std::max<std::uint64_t>(1, t.shape[0]);
  product.elements += t.elements();
}

std::uint64_t WeightGroup::bytes() const {
  std::uint64_t sum = 0;
  for (const std::uint64_t b : bytes_by_format) sum += b;
  return sum;
}

std::uint64_t WeightGroup::elements() const {
  std::uint64_t sum = 0;
  for (const std::uint64_t n : elements_by_format) sum += n;
  return sum;
}

std::uint64_t TensorTable::bytes() const {
  std::uint64_t sum = 0;
  for (const Tensor& t : tensors) sum += t.bytes;
  return sum;
}

std::uint64_t TensorTable::elements() const {
  std::uint64_t sum = 0;
  for (const Tensor& t : tensors) sum += t.elements();
  return sum;
}

const Tensor* TensorTable::uncomputed() const {
  const auto found =
      std::ranges::find_if(tensors, [](const Tensor& t) { return !is_computed(t.format); });
  return found == tensors.end() ? nullptr : &*found;
}

double TensorTable::active_bytes(const ModelSpec& model) const {
  const double expert_share =
      model.moe ? double(model.moe->experts_used) / double(model.moe->experts) : 0.0;
  double sum = double(head.bytes());
  for (const LayerWeights& l : layers)
    sum += double(l.attention.bytes() + l.ffn.bytes()) + expert_share * double(l.experts.bytes());
  return sum;
}

}  // namespace rigcast
