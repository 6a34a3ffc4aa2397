#include "engine/kernels/cuda/attention/step_attention.cuh"

#include "engine/kernels/cuda/activations/tile_order.hpp"
#include "engine/kernels/cuda/attention/split_tiles.cuh"
#include "engine/kernels/cuda/kv/rope_and_store.cuh"
#include "tests/catch.hpp"
#include "tests/cuda/kernels/cache_data.cuh"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

struct Step {
  CacheShape cache{};  // its tokens are not used
  int group = 4;
  int window = 0;
  std::vector<int> lengths{};  // tokens of each sequence, the new one included
  float cap = 0;
  bool sinks = false;

  int heads() const { return cache.kv_heads * group; }
  std::size_t width() const { return std::size_t(heads() * cache.dim); }
};

// The caches of a step's sequences, each in its own memory, and a list of blocks for all of them.
struct Sequences {
  std::vector<CacheData> data;
  std::unique_ptr<OnDevice<std::byte*>> lists;
  cuda::Cache cache;

  explicit Sequences(const Step& step) {
    std::size_t most = 0;
    for (std::size_t i = 0; i < step.lengths.size(); ++i) {
      CacheShape shape = step.cache;
      shape.tokens = step.lengths[i];
      shape.order = unsigned(i);
      data.emplace_back(shape, unsigned(10 * i + 1));
      most = std::max(most, data.back().blocks().size());
    }
    std::vector<std::byte*> all;
    for (const CacheData& one : data) {
      all.insert(all.end(), one.blocks().begin(), one.blocks().end());
      all.resize(all.size() + most - one.blocks().size(), nullptr);
    }
    lists = std::make_unique<OnDevice<std::byte*>>(all);
    cache = data.front().on_device();
    cache.blocks = lists->get();
    cache.list_stride = int(most);
  }
};

// FP16 queries as they are multiplied with keys.
std::vector<std::uint16_t> queries_of(const Step& step) {
  std::vector<float> q = normal_values(step.lengths.size() * step.width(), 7);
  for (float& x : q) x *= cuda::query_scale(step.cache.dim);
  return floats_to_halves(q);
}

// Attention of the step's rows [first, end). All memory that is written begins as NaNs. `tiled`:
// the tokens for which the output is tiled; 0: rows follow one another.
std::vector<std::uint16_t> run(const Step& step, const Sequences& in, std::size_t first,
                               std::size_t end, const cuda::StepSplits& splits, int tiled = 0) {
  const std::size_t rows = end - first, parts = rows * std::size_t(splits.count);
  const std::vector<std::uint16_t> all = queries_of(step);
  const OnDevice<std::uint16_t> queries(
      std::vector<std::uint16_t>(all.begin() + std::ptrdiff_t(first * step.width()),
                                 all.begin() + std::ptrdiff_t(end * step.width())));
  std::vector<int> position, sequence;
  for (std::size_t i = first; i < end; ++i) {
    position.push_back(step.lengths[i] - 1);
    sequence.push_back(int(i));
  }
  const OnDevice<int> positions(position), sequences(sequence);
  const OnDevice<float> m(parts * std::size_t(step.heads())), l(parts * std::size_t(step.heads())),
      o(parts * step.width());
  const OnDevice<std::uint16_t> out(std::max(rows, std::size_t(tiled)) * step.width());
  const cuda::Partials partials{m.get(), l.get(), o.get()};
  const OnDevice<float> own_sinks(sinks_of(step.heads()));
  const cuda::Sinks sinks = step.sinks ? own_sinks.get() : nullptr;
  const cuda::HalfRows to{reinterpret_cast<__half*>(out.get()), 0, tiled};
  const Stream stream;
  cuda::attend_rows(stream,
                    {reinterpret_cast<const __half*>(queries.get()), int(rows), step.heads(),
                     step.window, cuda::SoftCap::of(step.cap), sinks},
                    in.cache, CacheData::kLayer, splits, {positions.get(), sequences.get()},
                    partials, to);
  if (splits.count > 1)
    cuda::merge_rows(stream, partials, int(rows), splits.count, step.heads(), step.cache.dim, to,
                     sinks);
  stream.wait();
  return out.read();
}

void check(const Step& step, int wanted = 3) {
  INFO("group " << step.group << " dim " << step.cache.dim << " window " << step.window << " types "
                << int(step.cache.k) << " " << int(step.cache.v));
  const Sequences in(step);
  const int longest = *std::ranges::max_element(step.lengths);
  const cuda::StepSplits splits{wanted, std::max(wanted, longest / 2048 + 2)};
  const std::size_t rows = step.lengths.size();
  const std::vector<std::uint16_t> got = run(step, in, 0, rows, splits);
  const std::vector<float> out = halves_to_floats(got),
                           queries = halves_to_floats(queries_of(step));
  const std::vector<float> sinks = sinks_of(step.heads());
  Compared c;
  for (std::size_t i = 0; i < rows; ++i)
    for (int head = 0; head < step.heads(); ++head) {
      const std::size_t at = i * step.width() + std::size_t(head * step.cache.dim);
      const int to = step.lengths[i], from = first_attended(to - 1, step.window);
      const Expected e = attention_in_double(
          queries.data() + at, in.data[i], head / step.group, step.cache.dim, from, to,
          double(step.cap), step.sinks ? double(sinks[std::size_t(head)]) : -INFINITY);
      for (std::size_t j = 0; j < e.out.size(); ++j) {
        const double rounding = std::abs(e.out[j]) * 0x1p-11 + 0x1p-25;  // to F16
        c.add(double(out[at + j]), e.out[j], e.bound[j] + rounding);
      }
    }
  CHECK(c.worst <= 1);
  CHECK(c.nmse() <= 1e-6);
  // Neither the other rows nor the number of splits change a bit.
  for (std::size_t i = 0; i < rows; ++i) {
    const auto of_row = got.begin() + std::ptrdiff_t(i * step.width());
    CHECK(run(step, in, i, i + 1, {wanted, splits.count + 3}) ==
          std::vector<std::uint16_t>(of_row, of_row + std::ptrdiff_t(step.width())));
  }
}

// Tiled outputs are the same bits in another place.
void check_tiled(const Step& step) {
  const Sequences in(step);
  const cuda::StepSplits splits{2, 4};
  const std::size_t rows = step.lengths.size();
  const int room = cuda::tiled_tokens(int(rows));
  const std::vector<std::uint16_t> expected = run(step, in, 0, rows, splits),
                                   got = run(step, in, 0, rows, splits, room);
  std::size_t differ = 0;
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t i = 0; i < step.width(); ++i)
      differ += got[std::size_t(cuda::tiled_index(std::int64_t(i), int(row), room))] !=
                expected[row * step.width() + i];
  CHECK(differ == 0);
}

// Rows of one split are written at once: the bits that a merge would write.
void check_direct(const Step& step) {
  const Sequences in(step);
  const std::size_t rows = step.lengths.size();
  const int room = cuda::tiled_tokens(int(rows));
  CHECK(run(step, in, 0, rows, {1, 1}) == run(step, in, 0, rows, {1, 3}));
  const auto direct = run(step, in, 0, rows, {1, 1}, room),
             merged = run(step, in, 0, rows, {1, 3}, room);
  CHECK(direct == merged);
}

const std::vector<int> kLengths = {1, 17, 128, 129, 700, 16, 4096, 4097};

}  // namespace

TEST_CASE("A step's contexts have no more splits than its attention visits", "[cuda][gpu]") {
  for (const int rows : {1, 3, 8, 30, 64, 256})
    for (const int context : {1, 16, 100, 128, 129, 1000, 2048, 4097, 100000}) {
      const cuda::StepSplits s = cuda::step_splits(rows, 8, context);
      for (int length = 1; length <= context; length += 1 + context / 300) {
        const int tiles = (length + 15) / 16 + 1;
        const int of_split = cuda::split_tiles(tiles, s.wanted);
        INFO(rows << " rows, " << length << " of " << context << " tokens");
        REQUIRE((tiles + of_split - 1) / of_split <= s.count);
      }
    }
}

TEST_CASE("Every row of a step attends to its own sequence", "[cuda][gpu]") {
  check({.lengths = kLengths});
  check({.window = 100, .lengths = kLengths});
  check({.cache = {.kv_heads = 1, .dim = 64}, .group = 20, .lengths = kLengths});
  check({.cache = {.dim = 96, .block_tokens = 16}, .lengths = kLengths});
  check({.cache = {.dim = 256}, .group = 1, .lengths = kLengths});
  check({.cache = {.kv_heads = 1, .dim = 512}, .group = 8, .lengths = kLengths});
  check({.cache = {.kv_heads = 1, .dim = 320}, .group = 20, .lengths = kLengths});
  check({.lengths = kLengths}, 1);
  check({.lengths = kLengths}, 40);
  check_tiled({.lengths = kLengths});
  const std::vector<int> short_ones = {1, 15, 16, 17, 128, 900, 2048};
  check_direct({.lengths = short_ones});
  check_direct({.window = 100, .lengths = short_ones});
  check_direct({.cache = {.kv_heads = 1, .dim = 512}, .lengths = short_ones});
  check_direct({.cache = {.dim = 96, .block_tokens = 16}, .lengths = short_ones});
}

TEST_CASE("Rows of a step see the pieces of their contexts in which they are",
          "[cuda][gpu][traits]") {
  for (const int piece : {16, 48, 100, 8192}) {
    check({.window = -piece, .lengths = kLengths});
    check({.cache = {.k = QuantFormat::kQ8_0, .v = QuantFormat::kQ8_0},
           .window = -piece,
           .lengths = kLengths});
  }
}

TEST_CASE("Rows of a step have scores with a soft bound", "[cuda][gpu][traits]") {
  using enum QuantFormat;
  for (const QuantFormat type : {kF16, kQ8_0}) {
    check({.cache = {.k = type, .v = type}, .lengths = kLengths, .cap = 1.5f});
    check({.cache = {.dim = 256, .k = type, .v = type},
           .window = 90,
           .lengths = kLengths,
           .cap = 50});
  }
}

TEST_CASE("Rows of a step count each head's sink once", "[cuda][gpu][traits]") {
  using enum QuantFormat;
  for (const QuantFormat type : {kF16, kQ8_0})
    for (const int window : {0, 128})
      check({.cache = {.dim = 64, .k = type, .v = type},
             .group = 8,
             .window = window,
             .lengths = kLengths,
             .sinks = true});
  check({.lengths = kLengths, .sinks = true}, 1);
  check_direct({.cache = {.dim = 64}, .group = 8, .lengths = {1, 17, 128, 900}, .sinks = true});
}

TEST_CASE("Rows of a step attend to quantized caches", "[cuda][gpu]") {
  using enum QuantFormat;
  for (const auto& [k, v] : {std::pair{kQ8_0, kQ8_0}, {kQ4_0, kQ8_0}, {kF16, kQ4_0}})
    for (const int dim : {128, 512})
      check({.cache = {.dim = dim, .k = k, .v = v}, .lengths = kLengths});
}
