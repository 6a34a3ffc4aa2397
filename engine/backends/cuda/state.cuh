#pragma once
// What one model on one GPU computes with: weights, cache, and the vectors between its kernels.

#include <array>
#include <memory>
#include <optional>
#include <span>

#include "core/base/stop_flag.hpp"
#include "engine/backends/cuda/host_offload/host_side.cuh"
#include "engine/backends/cuda/kv/cold_sharing.hpp"
#include "engine/backends/cuda/kv/device_cache.cuh"
#include "engine/backends/cuda/kv/handover.cuh"
#include "engine/backends/cuda/kv/staged_cache.cuh"
#include "engine/backends/cuda/weight_streaming/expert_stream.cuh"
#include "engine/backends/cuda/weight_streaming/layer_stream.cuh"
#include "engine/backends/cuda/weights/device_model.cuh"
#include "engine/cuda/cublas/matmul.cuh"
#include "engine/cuda/cuda_buffer.cuh"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/mailbox.cuh"
#include "engine/cuda/mark.cuh"
#include "engine/cuda/memory/vram.cuh"
#include "engine/kernels/cuda/activations/elementwise.cuh"
#include "engine/kernels/cuda/attention/decode_attention.cuh"
#include "engine/kernels/cuda/batch/experts_batch.cuh"
#include "engine/kernels/cuda/kv/place.cuh"
#include "engine/kernels/cuda/matvec/matvec.cuh"
#include "engine/kernels/cuda/sampling/sample.cuh"
#include "engine/model/model.hpp"
#include "engine/placement/break_even.hpp"
#include "engine/run/executor.hpp"
#include "report/activity.hpp"

namespace rigcast::engine::cuda {

/// Vectors of `tokens` tokens at most; all on the GPU, one row a token.
struct Vectors {
  int tokens = 0;
  std::int32_t* ids = nullptr;
  float* hidden = nullptr;     // [hidden]
  float* normed = nullptr;     // [hidden]
  Rounded rounded;             // [hidden]: `normed` as integers
  float* projected = nullptr;  // [q | k | v]
  Turn* turns = nullptr;       // [rope_dims / 2]
  __half* queries = nullptr;   // [heads][head_dim]
  VramPiece memory;
};

/// Of one token alone.
struct TokenVectors {
  float* mixed = nullptr;  // what attention gives
  Rounded mixed_rounded;
  float* middle = nullptr;  // of the FFN; of a MoE layer one for every expert that is used
  Rounded middle_rounded;
  ChosenExperts chosen;
  float* router_logits = nullptr;
  unsigned* arrivals = nullptr;
  Partials partials;
  float* logits = nullptr;
  ArgmaxState* argmax = nullptr;
  SampleState* sampling = nullptr;
  std::int32_t* position = nullptr;  // tokens in the cache
  VramPiece memory;
};

/// Of a prompt's batches. Halves.
struct BatchVectors {
  __half* x = nullptr;        // what a product takes
  __half* middle = nullptr;   // [gate | up]
  __half* weights = nullptr;  // of the products that run at once, where they lie otherwise
  VramPiece memory;
};

/// Of products with weights as they lie. A batch of more than `tokens` has them written out as
/// halves, but for its experts, which take `routed` tokens at a time.
struct ShortVectors {
  int tokens = 0, routed = 0;  // 0: the GPU or the weights do without
  float* between = nullptr;    // gate's products: [tokens][middle], or of `routed` a row a choice
  __half* middle = nullptr;    // of experts: a row a choice
  float* experts = nullptr;    // [routed * used][hidden]
  float* router_logits = nullptr;
  ExpertGroups groups;
  VramPiece memory;
};

/// Where the host has parts of the model.
struct HostShare {
  HostSide side;
  Mailbox mailbox;
  RamShare buffers;
  PinnedBuffer rows;                 // of a batch, on their way
  Mark embedded;                     // embeddings have left them
  std::optional<Handover> handover;  // of caches, where the host decodes what the GPU has read
  /// Takes each turn of the host's as soon as queue_token() has queued it; absent: who called it
  /// has the host answer all of them.
  std::function<void()> take_turn;

  HostShare(std::shared_ptr<const Model> model, const HostParts& parts, const CpuOptions& options,
            BeforeTurn before_turn);
};

/// Weights that the host keeps, on their way to the GPU.
struct Streams {
  std::unique_ptr<LayerStream> layers;    // nullptr: of no layer
  std::unique_ptr<ExpertStream> experts;  // nullptr: of no layer's experts
  std::unique_ptr<StagedCache> cache;     // nullptr: no layer is lent
  BatchesBy by = BatchesBy::kFaster;
  BatchRates rates;
};

/// What a State is made for, beside its weights.
struct StateOptions {
  CacheShape cache;
  int ubatch = 512;  // tokens of a batch at most
  HostParts host;
  ColdSharing sharing{};  // of cold blocks between host and link, where the host shares them
  int threads = 1;        // of the host
  BatchesBy batches_by = BatchesBy::kFaster;
  Ram ram{};
  MakeMemory kv_memory{};  // of the host's cache; absent: large pages, locked where they are copied
  BeforeTurn before_turn{};
  StopFlag stop{};
};

/// Keeps what is queued of a long batch a few layers ahead of the GPU: what is queued has to end
/// before a call that is to stop does, and a layer of thousands of tokens after many, or one whose
/// weights are copied, takes tens of milliseconds.
class Pace {
 public:
  void begin_layer(const Stream& stream) {
    const Mark& mark = marks_[layer_++ % marks_.size()];
    mark.wait();
    mark.set(stream);
  }

 private:
  std::array<Mark, 4> marks_;
  std::size_t layer_ = 0;
};

struct State {
  State(std::shared_ptr<const Model> model_, DeviceModel weights_, Vram vram_,
        const StateOptions& options);

  std::shared_ptr<const Model> model;
  HostParts parts;
  Ram ram;
  RamShare host_weights;  // set by who brought them
  Vram vram;
  DeviceModel weights;
  Stream stream;
  DeviceCache cache;
  Matmul matmul;
  int multiprocessors = 0;
  int ubatch = 0;
  PinnedBuffer next_id;  // what argmax or sample chose
  Vectors vectors;
  TokenVectors token;
  BatchVectors batch;
  ShortVectors shorts;

  std::unique_ptr<HostShare> host;  // nullptr: the host computes nothing
  Streams streams;
  StopFlag stop;  // asked before every layer of a batch
  Pace pace;      // of a long batch's layers

  ColdSharing sharing;
  TokenCount host_blocks = 0;  // of the cold ones, the oldest: the host's in tokens from here on
  /// The first tokens of the context that the host attends to while decoding.
  TokenCount cold_of_host() const { return host_blocks * cache.block_tokens(); }
  const HostParts& on_host() const { return parts; }
  bool streams_tokens() const { return streams.layers && !streams.layers->of_tokens().empty(); }
  const ModelSpec& spec() const { return model->spec; }
  std::int32_t* position() const { return token.position; }
  int q_width() const { return spec().heads * int(spec().head_dim); }
  int kv_width() const { return spec().kv_heads * int(spec().head_dim); }
};

/// Told when a stage of a step begins; the last one ends with the step.
class Stages : public CopyMarks {
 public:
  virtual void begin(ActivityKind kind, int layer) = 0;
};

/// Of the ids that may follow: the likeliest, or what token.sampling->draw says.
enum class Choice { kLikeliest, kDrawn };

/// Queues one token: the id at vectors.ids, at *position(), which grows by one. Its logits go to
/// token.logits, the id that is chosen to vectors.ids and next_id, unless the head is on the host.
/// Nothing is waited for but the host where it takes its turns meanwhile; where it has a part, it
/// is to answer the mailbox.
void queue_token(State& s, int splits, Choice choice, Stages* stages);

/// Queues vectors.ids [0, tokens), which are `ids`, at *position() = `cached`; it grows by as many.
/// Their hidden states, before the last norm, stay in vectors.hidden. Nothing is waited for, unless
/// the host has a part.
void queue_batch(State& s, TokenCount cached, std::span<const std::int32_t> ids, Stages* stages);

/// Of a batch, those of the host's parts that the GPU takes with copied weights.
struct BatchWay {
  bool layers = false;   // all that are lent
  bool experts = false;  // of layers that the GPU computes
};
BatchWay way_of_batch(const State& s, TokenCount cached, TokenCount tokens);

/// Takes memory for weights that are copied, in place of what was taken before, and measures who is
/// faster where that decides. Throws ShortOfMemory; then BatchesBy::kHost may still fit.
void make_streams(State& s, BatchesBy by);

/// Leaves all batches to the host from here on, for the GPU's memory that lending takes; false:
/// nothing is lent, or that is insisted on. Graphs of tokens that were recorded before are void.
bool stop_lending(State& s);

// In a batch, whose lent layers' keys and values go to the host's cache:
/// Copies for the first layers begin.
void begin_streams(State& s, const BatchWay& way, TokenCount cached, TokenCount tokens);
/// Whether the layer is one whose weights are copied in the batch.
bool is_brought(const State& s, const BatchWay& way, int layer);
/// The same of a layer's experts.
bool brings_experts(const State& s, const BatchWay& way, int layer);
/// What is queued from here on finds the layer's weights and cache.
void bring_layer(State& s, TokenCount cached, int layer);
void end_streams(State& s, const BatchWay& way);

/// Halves of weights that queue_batch needs at batch.weights; 0 where all lie as products take
/// them.
std::int64_t halves_for_batch(const DeviceModel& model);
/// Whether they are in formats that go in groups.
bool takes_groups(const Layer& layer);
/// Whether queue_batch does the layer's experts in groups.
bool groups_experts(const State& s, const DeviceLayer& layer);

/// Queues the mixture of experts for row `row` of vectors.hidden, which is added to it.
void queue_experts(State& s, const DeviceLayer& layer, int row);

// The host's turns in a batch of `tokens`, which wait for all that is queued before them. Hidden
// states go there and back.
void host_embedding(State& s, TokenCount cached, std::span<const std::int32_t> ids);
void host_layers(State& s, TokenCount cached, int first, int end, int tokens);
void host_experts(State& s, TokenCount cached, int layer, int tokens);
/// batch.x = the mix that belongs to vectors.projected.
void host_attention(State& s, TokenCount cached, int layer, int tokens);
/// Logits of tokens [first, tokens), in host->side.logits().
void host_head(State& s, TokenCount cached, int first, int tokens);

/// How a layer's new tokens are placed: `projected` holds [q | k | v] rows without gaps.
Placement placement_of(const State& s, int layer);
/// Tokens that a layer sees, as kernels take it: 0 is all.
int window_of(const ModelSpec& spec, int layer);

/// Queues the logits of row `row` of vectors.hidden, to token.logits.
void queue_head(State& s, int row);

/// What runs a model with it. `graphs`: a token is launched as one graph, else kernel by kernel.
std::unique_ptr<Executor> executor_of(std::unique_ptr<State> state, bool graphs);

}  // namespace rigcast::engine::cuda
