#include "tests/streams/simulated_cuda.cuh"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <unordered_map>

#include "engine/cuda/device_facts.cuh"

// Runtime handles are pointers to incomplete types, which are completed here.
struct CUstream_st {
  int id = 0;
};
struct CUevent_st {
  int id = 0;
};

namespace rigcast::simulated_cuda {
namespace {

// How much of each stream's work comes before.
using Clock = std::map<int, std::uint64_t>;

void merge(Clock& into, const Clock& other) {
  for (const auto& [stream, time] : other) into[stream] = std::max(into[stream], time);
}

struct Work {
  std::string name;
  int stream = 0;
  std::uint64_t time = 0;  // its place in the stream
  Clock before{};          // with itself
  std::function<void(Accesses&)> run{};
  std::shared_ptr<bool> waits_for{};  // nullptr: it does not
  std::shared_ptr<bool> sets{};
};
using WorkPtr = std::shared_ptr<const Work>;

bool is_before(const Work& first, const Work& second) {
  const auto at = second.before.find(first.stream);
  return at != second.before.end() && at->second >= first.time;
}

struct Queue {
  std::deque<WorkPtr> work{};
  Clock clock{};
};

// An event's last record.
struct Record {
  std::shared_ptr<bool> reached{};
  Clock clock{};
};

struct Unit {
  WorkPtr writer{};
  std::map<int, WorkPtr> readers{};  // the last one of each stream
};

class Machine : public Accesses {
 public:
  explicit Machine(std::uint64_t seed) : random_(seed) {}

  int add_stream() { return next_++; }
  int add_event() { return next_++; }
  void queue(int stream, std::string name, std::function<void(Accesses&)> run) {
    push(stream, std::move(name)).run = std::move(run);
  }
  void record(int event, int stream) {
    Work& work = push(stream, "record");
    work.sets = std::make_shared<bool>(false);
    records_[event] = {work.sets, work.before};
  }
  void hold(int stream, int event) {
    const auto at = records_.find(event);
    if (at == records_.end()) return;  // was never recorded
    merge(queues_[stream].clock, at->second.clock);
    push(stream, "wait").waits_for = at->second.reached;
  }
  void wait_for_stream(int stream) {
    Queue& queue = queues_[stream];
    while (!queue.work.empty()) run_one();
    merge(host_, queue.clock);
  }
  void wait_for_event(int event) {
    const auto at = records_.find(event);
    if (at == records_.end()) return;
    while (!*at->second.reached) run_one();
    merge(host_, at->second.clock);
  }
  void wait_for_all() {
    for (auto& [stream, queue] : queues_) wait_for_stream(stream);
  }
  const std::vector<std::string>& races() const { return races_; }

  void read(const void* from, std::size_t bytes) override {
    for_units(from, bytes, [&](Unit& unit) {
      check(unit.writer);
      unit.readers[running_->stream] = running_;
    });
  }
  void write(const void* to, std::size_t bytes) override {
    for_units(to, bytes, [&](Unit& unit) {
      check(unit.writer);
      for (const auto& [stream, reader] : unit.readers) check(reader);
      unit.readers.clear();
      unit.writer = running_;
    });
  }

 private:
  Work& push(int stream, std::string name) {
    Queue& queue = queues_[stream];
    merge(queue.clock, host_);
    auto work = std::make_shared<Work>();
    work->stream = stream;
    work->time = ++queue.clock[stream];
    work->before = queue.clock;
    work->name = fmt::format("{} {} of stream {}", name, work->time, stream);
    queue.work.push_back(work);
    return *work;
  }
  // Runs the first work of any stream that is not held.
  void run_one() {
    std::vector<Queue*> ready;
    for (auto& [stream, queue] : queues_)
      if (!queue.work.empty() && (!queue.work.front()->waits_for || *queue.work.front()->waits_for))
        ready.push_back(&queue);
    if (ready.empty()) std::abort();  // streams wait for each other
    Queue& queue = *ready[std::uniform_int_distribution<std::size_t>(0, ready.size() - 1)(random_)];
    running_ = queue.work.front();
    queue.work.pop_front();
    if (running_->run) running_->run(*this);
    if (running_->sets) *running_->sets = true;
  }
  template <class Do>
  void for_units(const void* from, std::size_t bytes, const Do& apply) {
    constexpr std::uintptr_t kUnit = 4;
    const auto begin = reinterpret_cast<std::uintptr_t>(from);
    for (std::uintptr_t at = begin / kUnit; at * kUnit < begin + bytes; ++at) apply(units_[at]);
  }
  void check(const WorkPtr& other) {
    if (!other || other == running_ || is_before(*other, *running_)) return;
    if (races_.size() < 10) races_.push_back(fmt::format("{} and {}", other->name, running_->name));
  }

  std::mt19937_64 random_;
  int next_ = 1;
  std::map<int, Queue> queues_;
  std::map<int, Record> records_;
  Clock host_;
  WorkPtr running_;
  std::unordered_map<std::uintptr_t, Unit> units_;
  std::vector<std::string> races_;
};

std::unique_ptr<Machine>& machine() {
  static auto the = std::make_unique<Machine>(1);
  return the;
}

}  // namespace

namespace {
bool kernels_read_host = true;
}

void restart(std::uint64_t seed) {
  machine() = std::make_unique<Machine>(seed);
  kernels_read_host = seed % 2 == 0;
}
void launch(cudaStream_t stream, std::function<void(Accesses&)> kernel) {
  machine()->queue(stream->id, "kernel", std::move(kernel));
}
const std::vector<std::string>& races() { return machine()->races(); }

}  // namespace rigcast::simulated_cuda

// Streams ask for them, and nothing here needs them.
const rigcast::engine::DeviceFacts& rigcast::engine::device_facts() {
  static const DeviceFacts none;
  return none;
}

namespace {

using rigcast::simulated_cuda::Accesses;
using rigcast::simulated_cuda::machine;

struct Rows {
  std::byte* to;
  std::size_t to_pitch;
  const std::byte* from;
  std::size_t from_pitch, width, rows;
};

cudaError_t queue_copy(const Rows& r, cudaStream_t stream) {
  if (r.rows > 1 && (r.to_pitch < r.width || r.from_pitch < r.width))
    return cudaErrorInvalidPitchValue;
  machine()->queue(stream->id, "copy", [r](Accesses& told) {
    for (std::size_t i = 0; i < r.rows; ++i) {
      told.read(r.from + i * r.from_pitch, r.width);
      told.write(r.to + i * r.to_pitch, r.width);
      std::memcpy(r.to + i * r.to_pitch, r.from + i * r.from_pitch, r.width);
    }
  });
  return cudaSuccess;
}

cudaError_t allocate(void** to, std::size_t bytes) {
  *to = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *to ? cudaSuccess : cudaErrorMemoryAllocation;
}

}  // namespace

extern "C" {

cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "refused by the simulated runtime"; }
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* all) {
  *free = *all = std::size_t(1) << 30;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** to, std::size_t bytes) { return allocate(to, bytes); }
cudaError_t cudaFree(void* place) {
  std::free(place);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** to, std::size_t bytes, unsigned) { return allocate(to, bytes); }
cudaError_t cudaFreeHost(void* place) { return cudaFree(place); }
cudaError_t cudaHostGetDevicePointer(void** to, void* place, unsigned) {
  *to = place;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
  *value = which == cudaDevAttrCanUseHostPointerForRegisteredMem &&
                   rigcast::simulated_cuda::kernels_read_host
               ? 1
               : 0;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st{machine()->add_stream()};
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  machine()->wait_for_stream(stream->id);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  machine()->wait_for_all();
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st{machine()->add_event()};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  machine()->record(event->id, stream->id);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  machine()->wait_for_event(event->id);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  machine()->hold(stream->id, event->id);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return queue_copy(
      {static_cast<std::byte*>(to), bytes, static_cast<const std::byte*>(from), bytes, bytes, 1},
      stream);
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width, std::size_t rows,
                              cudaMemcpyKind, cudaStream_t stream) {
  return queue_copy({static_cast<std::byte*>(to), to_pitch, static_cast<const std::byte*>(from),
                     from_pitch, width, rows},
                    stream);
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  machine()->queue(stream->id, "memset", [=](Accesses& told) {
    told.write(to, bytes);
    std::memset(to, value, bytes);
  });
  return cudaSuccess;
}

}  // extern "C"
