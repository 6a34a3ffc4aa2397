#include "sim/load.hpp"

#include <algorithm>
#include <cmath>

#include "perfmodel/context/companions.hpp"
#include "perfmodel/context/host_copies.hpp"
#include "perfmodel/pressure/paging_time.hpp"
#include "perfmodel/runtimes/runtime_models.hpp"
#include "sim/machine/graph.hpp"

namespace rigcast::sim {
namespace {

// The largest number of chunks: a very large file has larger chunks. The pipeline's fill is one
// chunk through all stages but the slowest, which is negligible with so many.
constexpr double kMaxChunks = 400;
constexpr double kMaxSweepChunks = 64;
// Buffers between neighbouring stages of an overlapped load.
constexpr std::size_t kBuffers = 4;

struct Portion {
  DeviceIndex device;
  Bytes bytes;
  bool mapped = true;        // its pages may be the weights themselves
  bool read_before = false;  // its bytes belong to another portion and are in the page cache
  bool repacked = false;     // copied into a layout for the CPU
};

// True if host and GPU use one copy of the weights: unified memory, where the GPU computes on the
// mapped file, or where all weights are copied out of the file anyway.
bool shares_weights(const StepContext& s) {
  return s.rig.unified() && (computes_on_mapped_pages(s) || !s.runtime.memory.maps_file);
}

// The portions of the file by destination, in the order in which they are read: host weights, then
// each GPU's.
std::vector<Portion> portions(const StepContext& s, const Placement& p) {
  std::vector<double> bytes(s.rig.gpus.size() + 1, 0.0);
  const auto at = [&](DeviceIndex d) -> double& {
    return d == kHost || shares_weights(s) ? bytes.front() : bytes[std::size_t(d) + 1];
  };
  const EndMatrices ends = runtime_model(s.runtime).end_matrices(s, p);
  const bool on_host = ends.embeddings > 0 && ends.embedding_on == kHost;
  if (ends.embeddings > 0) at(ends.embedding_on) += double(s.tensors.embedding.bytes());
  // Tied embeddings are one matrix in the file, which both sides may need.
  const bool tied = s.tensors.head_is_embedding && on_host;
  const double shared = tied ? tied_matrix(s).value : 0.0;
  at(ends.head_on) += double(s.tensors.head.bytes()) - shared;
  for (std::size_t l = 0; l < p.layers.size(); ++l) {
    const LayerWeights& w = s.tensors.layers[l];
    at(p.layers[l].weights) += double(w.rest());
    at(p.layers[l].experts) += double(w.ffn_or_experts());
  }
  const RepackedWeights repacked = runtime_model(s.runtime).repacked_weights(s, p);
  bytes.front() = std::max(0.0, bytes.front() - repacked.from_file.value);
  std::vector<Portion> out;
  if (repacked.from_file.value > 0) out.push_back({kHost, repacked.from_file, true, false, true});
  if (repacked.tied.value > 0) out.push_back({kHost, repacked.tied, true, true, true});
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] > 0) out.push_back({DeviceIndex(i) - 1, Bytes{bytes[i]}});
  // For a mapped file, its pages are the host's copy of weights that a GPU has.
  const Bytes copied =
      s.runtime.memory.maps_file ? Bytes{} : host_weight_copies(s, p, ends.head_on);
  if (copied.value > 0) out.push_back({kHost, copied, true, true});
  if (shared > 0 && ends.head_on != kHost && !shares_weights(s))
    out.push_back({ends.head_on, Bytes{shared}, true, true});
  return out;
}

// Those of all files: the model's, then the draft model's and the projector's.
std::vector<Portion> all_portions(const StepContext& s, const Placement& p) {
  std::vector<Portion> out = portions(s, p);
  if (s.draft)
    for (const Portion& part : portions({s, *s.draft}, placement_of_draft(s))) out.push_back(part);
  if (s.projector) out.push_back({projector_device(s), s.projector->bytes, false});
  return out;
}

class Pipeline {
 public:
  Pipeline(const StepContext& s, Start start) : s_(s), start_(start) {}

  // Before any tensor: the tokens and their pieces become tables, on one core, and the GPU's driver
  // makes a context.
  void start() {
    const std::int64_t tokens = s_.model.vocabulary + (s_.draft ? s_.draft->model.vocabulary : 0);
    Seconds time = s_.runtime.load.vocabulary.value * double(tokens);
    const auto& context = s_.runtime.backends[std::size_t(s_.settings.backend)].start;
    if (!s_.rig.gpus.empty() && context.value > Seconds{})
      time += s_.rig.gpu_start.value_or(context).value;
    if (time.value <= 0) return;
    last_ = graph_.work(Worker::kDelay, 0, time);
    use_.add(Resource::kHostWork, time.value);
  }

  void chunk(const Portion& part, Bytes bytes) {
    const bool from_disk = start_ == Start::kCold && !part.read_before;
    const bool to_gpu = part.device != kHost;
    const NodeId read = from_disk ? read_file(bytes) : kNoNode;
    const bool pinned = s_.runtime.load.staging == Staging::kPinned;
    NodeId ready = read;
    // The pages of a mapped file are the weights themselves; other weights are copied out of them.
    const bool maps = part.mapped && s_.runtime.memory.maps_file && s_.settings.mmap &&
                      !runtime_model(s_.runtime).copies_host_weights(s_);
    if (maps && !from_disk && !part.read_before) map_pages(bytes);
    // In unified memory, the copy into the GPU's buffer stays within RAM.
    const bool over_link = to_gpu && !s_.rig.unified();
    const bool copies = over_link ? pinned : to_gpu || !maps;
    if (part.repacked && s_.runtime.load.repack)
      ready = stage(bytes, read, to_gpu, s_.runtime.load.repack->value);
    else if (copies)
      ready = stage(bytes, read, to_gpu, copy_rate(to_gpu));
    if (over_link)
      upload(part.device, bytes, ready, pinned ? Route::kHostToGpu : Route::kHostToGpuPageable);
  }

  Seconds run() {
    if (graph_.size() == 0) return {0};
    graph_.run();
    double end = 0;
    for (std::size_t i = 0; i < graph_.size(); ++i)
      end = std::max(end, graph_.finish(NodeId(i)).value);
    return {end};
  }

  void events(std::vector<TraceEvent>& out) const {
    for (const auto& [node, label] : labels_) {
      TraceEvent e = label;
      e.start_s = graph_.start(node).value;
      e.finish_s = graph_.finish(node).value;
      out.push_back(std::move(e));
    }
  }

  const ResourceUse& use() const { return use_; }

 private:
  void note(NodeId node, ActivityKind kind, DeviceIndex device, Bytes bytes) {
    TraceEvent e;
    e.track = track_of(kind, device);
    e.phase = Phase::kLoad;
    e.kind = kind;
    e.bytes = bytes.value;
    labels_.emplace_back(node, std::move(e));
  }

  // Without overlap, a chunk passes all stages before the next one begins.
  void serialize(NodeId node) {
    if (!s_.runtime.load.overlap) graph_.order(last_, node);
  }

  NodeId read_file(Bytes bytes) {
    // The route has the rate of sequential requests.
    const Bytes equivalent_bytes = bytes * (s_.rig.ssd.sequential_read.value / file_read_rate(s_));
    const NodeId node = graph_.flow(Route::kSsdToRam, 0, equivalent_bytes);
    graph_.order(read_, node);
    serialize(node);
    read_ = last_ = node;
    note(node, ActivityKind::kReadFile, kHost, bytes);
    use_.add(Resource::kSsd, (equivalent_bytes / s_.rig.ssd.sequential_read.value).value,
             bytes.value);
    return node;
  }

  // Pages that are in the page cache already enter the process's page table. Those that are read
  // enter it as they arrive.
  void map_pages(Bytes bytes) {
    if (!s_.runtime.load.map) return;
    const auto& measured = s_.rig.ssd.cached_map;
    const Seconds time = bytes / (measured ? *measured : *s_.runtime.load.map).value;
    const NodeId node = graph_.work(Worker::kDelay, 0, time);
    serialize(node);
    last_ = node;
    use_.add(Resource::kHostWork, time.value);
  }

  NodeId stage(Bytes bytes, NodeId after, bool to_gpu, BytesPerSecond rate) {
    const Seconds alone = bytes / rate;
    const NodeId copy = graph_.work(Worker::kDelay, 0, alone);
    const NodeId traffic = graph_.flow(Route::kRam, 0, bytes * 2.0);  // read and written
    const NodeId done = graph_.join();
    for (const NodeId node : {copy, traffic}) {
      graph_.order(after, node);
      graph_.order(staged_, node);
      if (after == kNoNode) serialize(node);
      if (to_gpu && uploads_.size() >= kBuffers)
        graph_.order(uploads_[uploads_.size() - kBuffers], node);
      graph_.order(node, done);
    }
    staged_ = last_ = done;
    note(copy, ActivityKind::kStage, kHost, bytes);
    use_.add(Resource::kHostWork, alone.value);
    use_.add(Resource::kRam, memory_time(s_, bytes * 2.0, kHost).value, bytes.value * 2);
    return done;
  }

  // The rate of several readers: each is as fast as a single one, up to what they reach together.
  BytesPerSecond copy_rate(bool to_gpu) const {
    const auto& one = s_.rig.ssd.cached_read;
    const BytesPerSecond all = s_.runtime.load.host_copy.value;
    const int readers = to_gpu ? s_.runtime.load.readers : 1;
    if (!one) return all;
    return readers > 1 ? std::min(one->value * double(readers), all) : one->value;
  }

  void upload(DeviceIndex device, Bytes bytes, NodeId after, Route route) {
    const NodeId node = graph_.flow(route, device, bytes);
    graph_.order(after, node);
    if (after == kNoNode) serialize(node);
    if (!uploads_.empty()) graph_.order(uploads_.back(), node);
    uploads_.push_back(node);
    last_ = node;
    note(node, ActivityKind::kUpload, device, bytes);
    const bool pageable = route == Route::kHostToGpuPageable;
    use_.add(Resource::kH2d, (bytes / h2d_rate(s_, device, pageable)).value, bytes.value);
  }

  const StepContext s_;
  const Start start_;
  Graph graph_;
  NodeId read_ = kNoNode, staged_ = kNoNode, last_ = kNoNode;
  std::vector<NodeId> uploads_;
  std::vector<std::pair<NodeId, TraceEvent>> labels_;
  ResourceUse use_;
};

}  // namespace

LoadForecast forecast_load(const StepContext& s, const Placement& p, Start start, Fidelity fidelity,
                           std::vector<TraceEvent>* trace) {
  if (start == Start::kResident) return {};
  const auto parts = all_portions(s, p);
  Bytes all{0};
  for (const Portion& part : parts) all += part.bytes;
  Pipeline pipeline(s, start);
  pipeline.start();
  const double most = fidelity == Fidelity::kSweep ? kMaxSweepChunks : kMaxChunks;
  const Bytes chunk = std::max(s.runtime.load.chunk, all / most);
  // Without overlap one chunk takes as long as many.
  const bool whole = !s.runtime.load.overlap && !trace;
  for (const Portion& part : parts) {
    const double count = whole ? 1 : std::ceil(part.bytes / chunk);
    for (double i = 0; i < count; ++i) pipeline.chunk(part, part.bytes / count);
  }
  LoadForecast out;
  out.total = pipeline.run();
  out.use = pipeline.use();
  if (trace) pipeline.events(*trace);
  return out;
}

}  // namespace rigcast::sim
