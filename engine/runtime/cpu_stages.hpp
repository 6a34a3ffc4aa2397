#pragma once
// Parts that the executor's stages share.

#include <optional>

#include "engine/runtime/cpu_layers.hpp"

namespace rigcast::engine {

template <class Make>
void CpuLayers::prepare(Worker& worker, Input& input, std::int64_t columns, std::int64_t rows,
                        std::initializer_list<const Matrix*> matrices, const Make& make) {
  worker.alone([&] {
    bool integers = false, floats = false;
    for (const Matrix* m : matrices) (needs_integers(*m) ? integers : floats) = true;
    input.resize(columns, rows, integers, floats);
  });
  std::vector<float>& row = thread(worker).row;
  row.resize(std::size_t(columns));
  worker.share(rows, cpu::kGroupRows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      make(i, std::span<float>(row));
      input.set_row(i, row);
    }
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
  const MovedBytes& counted_;  // the first member alone adds to it
  double before_;
  double start_s_;
};

}  // namespace rigcast::engine
