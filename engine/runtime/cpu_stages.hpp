#pragma once
// Parts that the executor's stages share.

#include <algorithm>
#include <optional>

#include "engine/runtime/cpu_layers.hpp"

namespace rigcast::engine {

template <class Make>
void CpuLayers::make_rows(Worker& worker, Input& input, std::int64_t begin, std::int64_t end,
                          const Make& make) {
  std::vector<float>& values = thread(worker).rows;
  const auto columns = std::size_t(input.columns());
  for (std::int64_t first = begin; first < end; first += input.rows_at_once()) {
    const auto count = std::size_t(std::min(input.rows_at_once(), end - first));
    values.resize(count * columns);
    for (std::size_t i = 0; i < count; ++i)
      make(first + std::int64_t(i), std::span(values).subspan(i * columns, columns));
    input.set_rows(first, values);
  }
}

template <class Before, class Make>
void CpuLayers::prepare(Worker& worker, Input& input, std::int64_t columns, std::int64_t rows,
                        std::initializer_list<const Matrix*> matrices, const Before& before,
                        const Make& make) {
  worker.alone([&] {
    before();
    size_input(input, columns, rows, matrices);
    if (rows == 1) make_rows(worker, input, 0, 1, make);
  });
  if (rows == 1) return;
  worker.share(rows, input.rows_together(), [&](std::int64_t begin, std::int64_t end) {
    make_rows(worker, input, begin, end, make);
  });
}

/// Records an activity from here to the end of the scope, with the bytes that are counted
/// meanwhile: the first member does, when someone asks for it.
class Span {
 public:
  Span(const Worker& worker, Recorder* recorder, ActivityKind kind, int layer, TokenCount token,
       const MovedBytes& counted)
      : recorder_(worker.first() ? recorder : nullptr),
        kind_(kind),
        layer_(layer),
        token_(token),
        counted_(counted),
        before_(counted.total()),
        start_s_(recorder_ ? recorder_->now() : 0) {}
  ~Span() {
    if (recorder_) recorder_->add(kind_, layer_, token_, start_s_, counted_.total() - before_);
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  Recorder* recorder_;
  ActivityKind kind_;
  int layer_;
  TokenCount token_;
  const MovedBytes& counted_;  // added to while all members are at a barrier
  double before_;
  double start_s_;
};

}  // namespace rigcast::engine
