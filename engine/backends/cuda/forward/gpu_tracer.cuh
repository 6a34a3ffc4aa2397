#pragma once
// Times at which the stages of a traced step began and ended, by the GPU's own clock.

#include <vector>

#include "engine/backends/cuda/forward/stages.cuh"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/run/recorder.hpp"

namespace rigcast::engine::cuda {

/// Records an event where each stage begins, and reports times to the recorder when the step is
/// done.
class GpuTracer : public StageListener {
 public:
  GpuTracer(const Stream& stream, Recorder& recorder) : stream_(stream), recorder_(recorder) {
    begin_.record(stream);
    begin_.wait();
    begin_s_ = recorder.now();
  }

  void begin(ActivityKind kind, int layer) override {
    marks_.push_back({kind, layer, {}});
    marks_.back().event.record(stream_);
  }

  void begin_copy(ActivityKind kind, int layer, const Stream& stream) override {
    copies_.push_back({kind, layer});
    copies_.back().begin.record(stream);
  }
  void end_copy(const Stream& stream, double bytes) override {
    copies_.back().bytes = bytes;
    copies_.back().end.record(stream);
  }

  // Ends the trace. bytes(kind, layer): the bytes that a stage moved.
  template <class BytesOf>
  void finish(TokenCount token, const BytesOf& bytes) {
    const Event end;
    end.record(stream_);
    end.wait();
    for (std::size_t i = 0; i < marks_.size(); ++i) {
      const StageStart& m = marks_[i];
      const Event& next = i + 1 < marks_.size() ? marks_[i + 1].event : end;
      recorder_.add_on(0, m.kind, m.layer, token,
                       begin_s_ + Event::seconds_between(begin_, m.event),
                       begin_s_ + Event::seconds_between(begin_, next), bytes(m.kind, m.layer));
    }
    for (const Copy& c : copies_) {
      c.end.wait();
      recorder_.add_on(0, c.kind, c.layer, token,
                       begin_s_ + Event::seconds_between(begin_, c.begin),
                       begin_s_ + Event::seconds_between(begin_, c.end), c.bytes);
    }
  }

 private:
  struct StageStart {
    ActivityKind kind;
    int layer;
    Event event;
  };
  struct Copy {
    ActivityKind kind;
    int layer;
    double bytes = 0;
    Event begin{}, end{};
  };
  const Stream& stream_;
  Recorder& recorder_;
  Event begin_;
  double begin_s_ = 0;
  std::vector<StageStart> marks_;
  std::vector<Copy> copies_;
};

}  // namespace rigcast::engine::cuda
