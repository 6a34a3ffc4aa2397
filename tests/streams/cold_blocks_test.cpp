// Steps over a pool whose blocks are on the GPU and on the host, with kernels that mix what they
// read into one number: whatever the order in which streams run, each row has the number of its
// sequence alone, and no two accesses lack an order.
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "engine/backends/cuda/batch/step_blocks.cuh"
#include "engine/backends/cuda/batch/step_inputs.cuh"
#include "engine/backends/cuda/batch/step_rows.hpp"
#include "engine/backends/cuda/kv/cold_ring.cuh"
#include "tests/catch.hpp"
#include "tests/streams/simulated_cuda.cuh"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::cuda;
using simulated_cuda::Accesses;

namespace {

using Number = std::uint64_t;

constexpr int kBlock = 16, kHeads = 2, kRow = 16;  // tokens; heads; bytes of a head's row

Number mixed(Number a, Number b) {
  a ^= b + 0x9e3779b97f4a7c15 + (a << 6) + (a >> 2);
  a *= 0xbf58476d1ce4e5b9;
  return a ^ (a >> 31);
}
Number key_of(Number hidden, int layer, int head) {
  return mixed(hidden, Number(layer * 8 + head));
}
Number value_of(Number hidden, int layer, int head) {
  return mixed(key_of(hidden, layer, head), 77);
}

Cache layout() {
  Cache c;
  c.block_tokens = kBlock;
  c.kv_heads = kHeads;
  c.head_dim = kRow / 2;
  c.k_row = c.v_row = kRow;
  return c;
}

// The numbers of a sequence's tokens after the last layer.
std::vector<Number> numbers_of(const std::vector<std::int32_t>& tokens, int layers) {
  std::vector<Number> hidden;
  for (const std::int32_t t : tokens) hidden.push_back(mixed(1, Number(t)));
  for (int layer = 0; layer < layers; ++layer) {
    const std::vector<Number> before = hidden;
    for (std::size_t at = 0; at < hidden.size(); ++at)
      for (std::size_t seen = 0; seen <= at; ++seen)
        for (int head = 0; head < kHeads; ++head) {
          hidden[at] = mixed(hidden[at], key_of(before[seen], layer, head));
          hidden[at] = mixed(hidden[at], value_of(before[seen], layer, head));
        }
  }
  return hidden;
}

std::vector<int> first_layers(int count) {
  std::vector<int> layers;
  for (int i = 0; i < count; ++i) layers.push_back(i);
  return layers;
}

std::shared_ptr<std::byte> zeroed_memory(std::size_t bytes) {
  return {new std::byte[bytes]{}, std::default_delete<std::byte[]>()};
}

std::optional<ColdRing> ring_of(Vram& vram, const Stream& stream, int layers,
                                const PoolSize& pool) {
  if (pool.cold == 0) return std::nullopt;
  return std::optional<ColdRing>(std::in_place, vram, stream, layout(), first_layers(layers),
                                 pool.cold);
}

// A GPU that computes steps as queue_sequences() and queue_token() queue them.
class SteppedGpu {
 public:
  SteppedGpu(int layers, const PoolSize& pool)
      : layers_(layers),
        limits_{kBlock, pool.blocks(), 4, 64, 6},
        vram_(0, {}),
        memory_(vram_, stream_, std::size_t(layers) * std::size_t(layout().layer_bytes()), pool, 4,
                zeroed_memory),
        ring_(ring_of(vram_, stream_, layers, pool)),
        blocks_(memory_, ring_ ? &*ring_ : nullptr, kBlock),
        inputs_(vram_, limits_),
        hidden_(std::size_t(limits_.step_tokens + kRowPadding)) {}
  ~SteppedGpu() { cudaDeviceSynchronize(); }

  const BatchLimits& limits() const { return limits_; }
  const BlockMemory& memory() const { return memory_; }
  const Stream& stream() const { return stream_; }

  /// The numbers of all new tokens, sequence after sequence.
  std::vector<std::vector<Number>> step(const std::vector<SequenceStep>& sequences) {
    const RowOrder order = order_of(sequences, limits_);
    const bool cold = blocks_.place(sequences);
    StepShape shape;
    shape.singles = int(order.singles.size());
    if (order.chunks.empty()) shape.singles = padded_rows(shape.singles);
    shape.table = int(order.longest_table);
    inputs_.place(sequences, order, shape, false, blocks_, nullptr, stream_);
    const int rows = shape.singles + int(order.tokens) - int(order.singles.size());
    queue(rows, shape.table, order.tokens == 1, cold);
    stream_.wait();
    return taken(sequences, order, shape.singles);
  }

 private:
  void queue(int rows, int stride, bool fused, bool cold) {
    if (ring_) ring_->begin_step(nullptr);
    simulated_cuda::launch(stream_.get(), [=, this](Accesses& a) {
      for (int row = 0; row < rows; ++row)
        a.store(&hidden_[std::size_t(row)], mixed(1, Number(a.load(inputs_.ids() + row))));
    });
    const auto store = [=, this](Accesses& a, int layer) { store_rows(a, layer, rows, stride); };
    const auto attend = [=, this](Accesses& a, int layer) { attend_rows(a, layer, rows, stride); };
    for (int layer = 0; layer < layers_; ++layer) {
      if (ring_) CHECK(ring_->await(layer) == cold);
      if (fused) {
        simulated_cuda::launch(stream_.get(), [=](Accesses& a) {
          store(a, layer);
          attend(a, layer);
        });
      } else {
        simulated_cuda::launch(stream_.get(), [=](Accesses& a) { store(a, layer); });
        simulated_cuda::launch(stream_.get(), [=](Accesses& a) { attend(a, layer); });
      }
      if (ring_) ring_->done(layer);
    }
    if (ring_) ring_->end_step();
  }

  std::byte* block_of(Accesses& a, int row, int position, int stride) const {
    const int owner = a.load(inputs_.rows().sequence + row);
    return a.load(inputs_.tables() + std::ptrdiff_t(owner) * stride + position / kBlock);
  }

  void store_rows(Accesses& a, int layer, int rows, int stride) {
    const Cache c = layout();
    for (int row = 0; row < rows; ++row) {
      const Number own = a.load(&hidden_[std::size_t(row)]);
      const int position = a.load(inputs_.rows().position + row);
      std::byte* const block = block_of(a, row, position, stride);
      const auto put = [&](std::int64_t at, Number value) {
        auto* const to = reinterpret_cast<Number*>(block + at + position % kBlock * kRow);
        a.store(to, value);
        a.store(to + 1, ~value);
      };
      for (int head = 0; head < kHeads; ++head) {
        put(c.keys_at(layer, head), key_of(own, layer, head));
        put(c.values_at(layer, head), value_of(own, layer, head));
      }
    }
  }

  void attend_rows(Accesses& a, int layer, int rows, int stride) {
    const Cache c = layout();
    for (int row = 0; row < rows; ++row) {
      Number own = a.load(&hidden_[std::size_t(row)]);
      const int position = a.load(inputs_.rows().position + row);
      for (int seen = 0; seen <= position; ++seen) {
        const std::byte* const block = block_of(a, row, seen, stride);
        const auto get = [&](std::int64_t at) {
          const auto* const from =
              reinterpret_cast<const Number*>(block + at + seen % kBlock * kRow);
          const Number low = a.load(from), high = a.load(from + 1);
          return low == ~high ? low : Number(13);
        };
        for (int head = 0; head < kHeads; ++head) {
          own = mixed(own, get(c.keys_at(layer, head)));
          own = mixed(own, get(c.values_at(layer, head)));
        }
      }
      a.store(&hidden_[std::size_t(row)], own);
    }
  }

  std::vector<std::vector<Number>> taken(const std::vector<SequenceStep>& sequences,
                                         const RowOrder& order, int row) const {
    std::vector<std::vector<Number>> all(sequences.size());
    for (std::size_t i = 0; i < order.singles.size(); ++i)
      all[std::size_t(order.singles[i])] = {hidden_[i]};
    for (const int i : order.chunks)
      for (std::size_t t = 0; t < sequences[std::size_t(i)].tokens.size(); ++t)
        all[std::size_t(i)].push_back(hidden_[std::size_t(row++)]);
    return all;
  }

  int layers_;
  BatchLimits limits_;
  Vram vram_;
  Stream stream_;
  BlockMemory memory_;
  std::optional<ColdRing> ring_;
  StepBlocks blocks_;
  StepInputs inputs_;
  std::vector<Number> hidden_;
};

struct Sequence {
  std::vector<std::int32_t> tokens;
  std::vector<Number> numbers;
  std::vector<int> blocks;
  std::size_t cached = 0;
};

// Sequences that come, share beginnings, grow, move between blocks and end, as chance says.
class RandomServer {
 public:
  RandomServer(std::uint64_t seed, int layers, const PoolSize& pool)
      : random_(seed), layers_(layers), gpu_(layers, pool), users_(std::size_t(pool.blocks())) {}

  void run(int turns) {
    for (int turn = 0; turn < turns; ++turn) {
      if (sequences_.size() < 5 && chance(60)) add();
      if (chance(20)) move_block();
      if (chance(10)) copy_block();
      step();
      std::erase_if(sequences_, [&](const Sequence& s) {
        const bool ends = s.cached == s.tokens.size() || chance(3);
        if (ends)
          for (const int block : s.blocks) --users_[std::size_t(block)];
        return ends;
      });
    }
  }

 private:
  int upto(int most) { return std::uniform_int_distribution<int>(0, most)(random_); }
  bool chance(int percent) { return upto(99) < percent; }

  std::optional<int> take() {
    std::vector<int> free;
    for (int i = 0; i < int(users_.size()); ++i)
      if (users_[std::size_t(i)] == 0) free.push_back(i);
    if (free.empty()) return std::nullopt;
    const int block = free[std::size_t(upto(int(free.size()) - 1))];
    ++users_[std::size_t(block)];
    return block;
  }

  void add() {
    Sequence s;
    if (!sequences_.empty() && chance(50)) {
      const Sequence& other = sequences_[std::size_t(upto(int(sequences_.size()) - 1))];
      const std::size_t shared = other.cached / kBlock;
      s.tokens.assign(other.tokens.begin(), other.tokens.begin() + std::ptrdiff_t(shared * kBlock));
      s.blocks.assign(other.blocks.begin(), other.blocks.begin() + std::ptrdiff_t(shared));
      for (const int block : s.blocks) ++users_[std::size_t(block)];
      s.cached = shared * kBlock;
    }
    const int more = 1 + upto(50);
    for (int i = 0; i < more; ++i) s.tokens.push_back(upto(499));
    s.numbers = numbers_of(s.tokens, layers_);
    sequences_.push_back(std::move(s));
  }

  // A full block that one sequence alone has, and a free one to which it goes; nullptr: none.
  struct Move {
    int* block = nullptr;
    int to = 0;
  };
  Move movable() {
    for (Sequence& s : sequences_)
      for (std::size_t i = 0; i < s.cached / kBlock; ++i) {
        if (users_[std::size_t(s.blocks[i])] != 1 || chance(50)) continue;
        if (const auto to = take()) return {&s.blocks[i], *to};
      }
    return {};
  }
  void moved(const Move& move) {
    --users_[std::size_t(*move.block)];
    *move.block = move.to;
  }
  void move_block() {
    const Move move = movable();
    if (!move.block) return;
    const BlockCopy out{*move.block, upto(3)}, in{out.to, move.to};
    gpu_.memory().move_out({&out, 1}, gpu_.stream());
    gpu_.memory().move_in({&in, 1}, gpu_.stream());
    moved(move);
  }
  void copy_block() {
    const Move move = movable();
    if (!move.block) return;
    gpu_.memory().read(*move.block, disk_.data(), gpu_.stream());
    gpu_.memory().write(move.to, disk_.data(), restores_);
    moved(move);
  }

  bool grow(Sequence& s, std::size_t tokens) {
    while (s.blocks.size() * kBlock < tokens) {
      const auto block = take();
      if (!block) return false;
      s.blocks.push_back(*block);
    }
    return true;
  }

  void step() {
    std::vector<SequenceStep> steps;
    std::vector<Sequence*> taking;
    TokenCount left = gpu_.limits().step_tokens;
    for (Sequence& s : sequences_) {
      if (chance(20)) continue;
      auto count = std::min<std::size_t>(chance(60) ? 1 : std::size_t(1 + upto(19)),
                                         s.tokens.size() - s.cached);
      if (TokenCount(count) > left || !grow(s, s.cached + count)) continue;
      left -= TokenCount(count);
      steps.push_back(
          {std::span(s.tokens).subspan(s.cached, count), TokenCount(s.cached), s.blocks, nullptr});
      taking.push_back(&s);
    }
    if (steps.empty()) return;
    const auto numbers = gpu_.step(steps);
    for (std::size_t i = 0; i < taking.size(); ++i) {
      Sequence& s = *taking[i];
      const auto first = s.numbers.begin() + std::ptrdiff_t(s.cached);
      s.cached += numbers[i].size();
      CHECK(numbers[i] == std::vector<Number>(first, s.numbers.begin() + std::ptrdiff_t(s.cached)));
    }
  }

  std::mt19937_64 random_;
  int layers_;
  SteppedGpu gpu_;
  Stream restores_;
  std::vector<int> users_;
  std::vector<Sequence> sequences_;
  std::vector<std::byte> disk_ = std::vector<std::byte>(1 << 16);
};

}  // namespace

TEST_CASE("Steps over cold blocks are right in every order in which streams may run",
          "[streams][batch]") {
  const PoolSize pools[] = {{0, 24}, {5, 19}, {23, 1}, {24, 0}};
  for (const PoolSize& pool : pools)
    for (const int layers : {1, 2, 3, 5})
      for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        INFO("on GPU " << pool.on_gpu << " layers " << layers << " seed " << seed);
        simulated_cuda::restart(seed);
        RandomServer(seed, layers, pool).run(30);
        CHECK(simulated_cuda::races() == std::vector<std::string>());
      }
}

TEST_CASE("Neighbouring cold blocks with tokens are copied together, and new rows alone back",
          "[streams][batch]") {
  simulated_cuda::restart(1);
  constexpr int kLayers = 3;
  const std::vector<std::int32_t> tokens(40, 7);
  const Cache c = layout();
  const Stream stream;
  Vram vram(0, {});
  const BlockMemory memory(vram, stream, std::size_t(kLayers) * std::size_t(c.layer_bytes()),
                           {2, 20}, 0, zeroed_memory);
  ColdRing ring(vram, stream, c, first_layers(kLayers), 20);
  StepBlocks blocks(memory, &ring, kBlock);
  const std::vector<int> first{4, 1, 5}, second{4, 6, 9};
  const SequenceStep steps[] = {{std::span(tokens).subspan(36, 2), 36, first, nullptr},
                                {std::span(tokens).subspan(16, 1), 16, second, nullptr}};
  REQUIRE(blocks.place(steps));
  CHECK(blocks.address(1) == memory.block(1));
  CHECK(blocks.address(4) == ring.place(0));
  CHECK(blocks.address(5) == ring.place(1));
  CHECK(blocks.address(6) == ring.place(2));
  CHECK(blocks.address(9) == memory.unused_block());  // of the sequence, not yet of a step
  ring.begin_step(nullptr);
  for (int layer = 0; layer < kLayers; ++layer) {
    CHECK(ring.await(layer));
    ring.done(layer);
  }
  ring.end_step();
  stream.wait();
  const MovedBytes moved = ring.take_bytes();
  // Block 6 begins with the step's token.
  CHECK(moved.to_gpu == double(2 * kLayers * c.layer_bytes()));
  CHECK(moved.to_host == double(3 * kLayers * 2 * kHeads * kRow));
  CHECK(simulated_cuda::races().empty());
  const SequenceStep resident{std::span(tokens).first(1), 0, std::span(first).subspan(1, 1),
                              nullptr};
  CHECK_FALSE(blocks.place({&resident, 1}));
  CHECK_FALSE(ring.await(0));
}
