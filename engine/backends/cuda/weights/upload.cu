#include "engine/backends/cuda/weights/upload.cuh"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "core/base/error.hpp"
#include "engine/cuda/cuda_call.cuh"
#include "engine/load/upload_reader.hpp"

namespace rigcast::engine::cuda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMaxReaders = 12;
// Slots that wait for their copy while every reader fills another.
constexpr int kSpareSlots = 4;
constexpr int kStages = 3;                 // one is being filled, one emptied, and one waits
constexpr std::uint64_t kAlignment = 256;  // bytes, of pieces on the GPU

// The number of readers. The thread that queues copies must not wait for a core, because the GPU
// would wait for it.
int reader_count(int wanted) {
  if (wanted > 0) return wanted;
  return std::clamp(int(std::thread::hardware_concurrency()) * 3 / 4, 2, kMaxReaders);
}

std::uint64_t slot_bytes(std::uint64_t piece_bytes) {
  constexpr std::uint64_t kPage = UploadReader::kAlignment;
  return (piece_bytes + UploadReader::kSlack + kPage - 1) / kPage * kPage;
}

}  // namespace

// One upload: readers claim slots and reads, and pass both to the thread that copies them.
class Uploader::Run {
 public:
  Run(Uploader& owner, const UploadReader& source, std::span<const UploadRead> reads,
      std::stop_token stop)
      : owner_(owner), source_(source), reads_(reads), on_stop_(std::move(stop), [this] {
          end(std::make_exception_ptr(MachineError("stopped before the weights were on the GPU")));
        }) {
    for (std::size_t i = 0; i < owner.slots_.size(); ++i) free_.push_back(i);
    const std::size_t readers = std::min(std::size_t(owner.readers_), reads.size());
    try {
      for (std::size_t i = 0; i < readers; ++i) readers_.emplace_back([this] { read_all(); });
    } catch (...) {
      leave();
      throw;
    }
  }
  ~Run() { leave(); }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  struct Filled {
    std::size_t slot = 0;
    std::size_t read = 0;
    UploadReader::Filled bytes;
  };
  /// Waits for the next filled slot; throws a reader's error.
  Filled next() {
    std::unique_lock lock(mutex_);
    filled_or_over_.wait(lock, [this] { return over_ || !filled_.empty(); });
    if (error_) std::rethrow_exception(error_);
    const Filled filled = filled_.front();
    filled_.pop_front();
    return filled;
  }
  /// Releases a slot whose copies are queued and followed by an event.
  void release(std::size_t slot) {
    const std::lock_guard lock(mutex_);
    free_.push_back(slot);
    free_or_over_.notify_one();
  }

 private:
  void end(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    over_ = true;
    if (!error_) error_ = std::move(error);
    filled_or_over_.notify_all();
    free_or_over_.notify_all();
  }

  // Ends the upload: waits for reads that have begun and for copies from the slots, so that nothing
  // uses them any more.
  void leave() {
    end(nullptr);
    readers_.clear();
    for (const Stream* stream : {&owner_.copying_, &owner_.working_})
      static_cast<void>(cudaStreamSynchronize(stream->get()));
  }

  struct UploadOrder {
    std::size_t slot = 0;
    std::size_t read = 0;
  };
  std::optional<UploadOrder> next_upload() {
    std::unique_lock lock(mutex_);
    free_or_over_.wait(lock, [this] { return over_ || next_ == reads_.size() || !free_.empty(); });
    if (over_ || next_ == reads_.size()) return std::nullopt;
    const UploadOrder order{free_.front(), next_++};
    free_.pop_front();
    if (next_ == reads_.size()) free_or_over_.notify_all();  // no reads are left for the others
    return order;
  }

  void read_all() try {
    RIGCAST_CUDA_CALL(cudaSetDevice(owner_.device_));
    while (const auto order = next_upload()) {
      const Slot& slot = owner_.slots_[order->slot];
      slot.copied.wait();
      const auto bytes = source_.fill(reads_[order->read], slot.memory);
      const std::lock_guard lock(mutex_);
      filled_.push_back({order->slot, order->read, bytes});
      filled_or_over_.notify_one();
    }
  } catch (...) {
    end(std::current_exception());
  }

  Uploader& owner_;
  const UploadReader& source_;
  std::span<const UploadRead> reads_;

  std::mutex mutex_;
  std::condition_variable free_or_over_, filled_or_over_;
  std::deque<std::size_t> free_;
  std::deque<Filled> filled_;
  std::size_t next_ = 0;
  bool over_ = false;
  std::exception_ptr error_;
  std::vector<std::jthread> readers_;
  std::stop_callback<std::function<void()>> on_stop_;  // last: it uses all of the above
};

std::size_t Uploader::pinned_bytes(const UploadOptions& options) {
  return std::size_t(reader_count(options.readers) + kSpareSlots) * slot_bytes(options.piece_bytes);
}

Uploader::Uploader(Vram& vram, const UploadOptions& options)
    : device_(vram.device()),
      readers_(reader_count(options.readers)),
      piece_bytes_(options.piece_bytes),
      past_page_cache_(options.past_page_cache),
      pinned_(pinned_bytes(options), "upload buffers") {
  for (int i = 0; i < readers_ + kSpareSlots; ++i)
    slots_.push_back({pinned_.data() + std::size_t(i) * slot_bytes(piece_bytes_), SyncEvent()});
  for (int i = 0; i < kStages; ++i)
    stages_.push_back(
        {vram.allocate(std::size_t(piece_bytes_), "upload buffers"), SyncEvent(), SyncEvent()});
}

// Copies as many pieces as fit into a stage before the first of them is used. All copies are queued
// on one stream, so that the GPU runs them without a pause.
void Uploader::send(const UploadRead& read, const std::byte* bytes,
                    const std::function<void(const ArrivedPiece&)>& use) {
  const auto end = read.pieces.end();
  for (auto piece = read.pieces.begin(); piece != end;) {
    const Stage& stage = stages_[next_stage_++ % stages_.size()];
    std::byte* const begin = stage.memory.as();
    const auto next_place = [](std::uint64_t at, const UploadPiece& p) {
      return at + (p.bytes + kAlignment - 1) / kAlignment * kAlignment;
    };
    stage.emptied.make_wait(copying_);
    auto last = piece;
    for (std::uint64_t at = 0; last != end && at + last->bytes <= piece_bytes_; ++last) {
      RIGCAST_CUDA_CALL(cudaMemcpyAsync(begin + at, bytes + last->at, last->bytes,
                                        cudaMemcpyHostToDevice, copying_.get()));
      at = next_place(at, *last);
    }
    stage.filled.set(copying_);
    stage.filled.make_wait(working_);
    for (std::uint64_t at = 0; piece != last; at = next_place(at, *piece++))
      use({piece->tensor, piece->first_byte, piece->bytes, begin + at, working_});
    stage.emptied.set(working_);
  }
}

UploadReport Uploader::upload(std::span<const HostTensor> tensors, const GgufFile* file,
                              const std::function<void(const ArrivedPiece&)>& use,
                              std::stop_token stop) {
  const auto plan = plan_upload(tensors, file, piece_bytes_);
  if (!plan) throw MachineError(plan.error().text());
  const UploadReader source(tensors, file, *plan, past_page_cache_);
  UploadReport report;
  const auto begin = Clock::now();
  Run run(*this, source, *plan, std::move(stop));
  for (std::size_t done = 0; done < plan->size(); ++done) {
    const Run::Filled filled = run.next();
    const UploadRead& read = (*plan)[filled.read];
    send(read, filled.bytes.first, use);
    slots_[filled.slot].copied.set(copying_);
    run.release(filled.slot);
    for (const UploadPiece& piece : read.pieces) {
      report.bytes += piece.bytes;
      if (filled.bytes.direct) report.direct_bytes += piece.bytes;
    }
  }
  working_.wait();
  report.time = Seconds{std::chrono::duration<double>(Clock::now() - begin).count()};
  return report;
}

}  // namespace rigcast::engine::cuda
