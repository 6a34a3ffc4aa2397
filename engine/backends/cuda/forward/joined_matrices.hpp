#pragma once
// The matrices of a layer that one product of a batch multiplies together. For a large batch they
// are written out as FP16, one after another.

#include <initializer_list>

namespace rigcast::engine::cuda {

/// visit({&layer.q, &layer.k, &layer.v}) and so on, for every product of attention, a recurrent
/// mixer, a dense FFN and a shared expert. The layer may be a Layer or a DeviceLayer; matrices that
/// it does not have are visited as well, but for that of values: keys are values then, and have
/// their rows twice in a product.
template <class AnyLayer, class Visit>
void for_each_product(const AnyLayer& layer, const Visit& visit) {
  using Matrices = std::initializer_list<const decltype(AnyLayer::q)*>;
  visit(Matrices{&layer.q, &layer.k, layer.v.rows > 0 ? &layer.v : &layer.k});
  visit(Matrices{&layer.q, &layer.q_a, &layer.kv_a});
  visit(Matrices{&layer.q_b});
  visit(Matrices{&layer.k_b});
  visit(Matrices{&layer.v_b});
  visit(Matrices{&layer.output});
  if (layer.mixer_alpha.rows > 0)
    visit(Matrices{&layer.mixer_in, &layer.mixer_gate, &layer.mixer_alpha, &layer.mixer_beta});
  else if (layer.mixer_gate.rows > 0)
    visit(Matrices{&layer.mixer_in, &layer.mixer_gate, &layer.mixer_beta});
  else if (layer.mixer_beta.rows > 0)
    visit(Matrices{&layer.mixer_in, &layer.mixer_beta});
  else
    visit(Matrices{&layer.mixer_in});
  visit(Matrices{&layer.mixer_out});
  visit(Matrices{&layer.gate, &layer.up});
  visit(Matrices{&layer.down});
  visit(Matrices{&layer.input_gate});
  visit(Matrices{&layer.input_projection});
  // Without a gate, up is there twice.
  visit(Matrices{layer.shared_gate.rows > 0 ? &layer.shared_gate : &layer.shared_up,
                 &layer.shared_up});
  visit(Matrices{&layer.shared_down});
}

}  // namespace rigcast::engine::cuda
