#pragma once
// The bytes that all operations of a decode step read: the reference for runs and forecasts.

#include "core/model/traffic.hpp"

namespace rigcast {

/// The sum over layers and head.
inline OpTraffic decode_traffic(const ModelSpec& model, const TensorTable& table, const Batch& b,
                                KvTypes types) {
  OpTraffic t = head_traffic(model, table, b.tokens());
  for (int layer = 0; layer < model.layers; ++layer) {
    t += attention_traffic(model, table, layer, b, types);
    t += ffn_traffic(model, table, layer, b.tokens());
    t += experts_traffic(model, table, layer, b.tokens());
  }
  return t;
}

}  // namespace rigcast
