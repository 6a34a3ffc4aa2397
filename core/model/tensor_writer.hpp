#pragma once
// Adds tensors to a table, which tensor_table.cpp lists in the order of the file. Names, formats
// and bytes are computed here, and implausible shapes are refused.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/model/tensor.hpp"

namespace rigcast {

class TensorWriter {
 public:
  TensorWriter(const ModelSpec& model, const QuantMix& mix, TensorTable& table)
      : model_(model), mix_(mix), table_(table) {}

  /// Following tensors belong to this layer (-1: to none) and are counted in this group of the
  /// table.
  void enter(int layer, WeightGroup& group);

  /// Widths are in weights; `in` is the row. `count` of more than 1 is a stack, as of experts.
  void matrix(TensorRole role, std::string_view name, std::int64_t in, std::int64_t out,
              std::int64_t count = 1);
  void vector(TensorRole role, std::string_view name, std::int64_t width);
  void bias(std::string_view name, std::int64_t width, std::int64_t count = 1);
  /// A bias whose name has no suffix.
  void plain_bias(std::string_view name, std::int64_t width);
  /// Adds a norm, and its bias if the model's norms have one.
  void norm(std::string_view name, std::int64_t width);

  /// The first thing wrong; nothing is added after it.
  const std::optional<Error>& error() const { return error_; }

 private:
  using Shape = std::array<std::int64_t, 3>;
  void add(TensorRole role, std::string_view name, std::string_view suffix, Shape shape,
           int dimensions);
  std::optional<Error> refusal(const std::string& name, Shape shape);

  const ModelSpec& model_;
  const QuantMix& mix_;
  TensorTable& table_;
  int layer_ = -1;
  WeightGroup* group_ = nullptr;
  double max_bytes_ = 0.0;
  std::optional<Error> error_;
};

}  // namespace rigcast
