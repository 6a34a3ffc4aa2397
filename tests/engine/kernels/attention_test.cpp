// Attention by partitions against softmax in double over all tokens at once.
#include "engine/kernels/cpu/attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "engine/kernels/ref/dequantize.hpp"
#include "engine/kv/kv_cache.hpp"
#include "tests/catch.hpp"
#include "tests/engine/random_values.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using fixtures::normal_values;

namespace {

ModelSpec spec_of(int heads, int kv_heads, int head_dim) {
  ModelSpec m;
  m.layers = 2;
  m.heads = heads;
  m.kv_heads = kv_heads;
  m.head_dim = head_dim;
  return m;
}

KvCache filled(const ModelSpec& spec, KvTypes types, TokenCount block, TokenCount tokens) {
  KvCache cache(spec, types, block);
  cache.reserve(tokens);
  const std::size_t width = std::size_t(spec.kv_heads * spec.head_dim);
  for (TokenCount t = 0; t < tokens; ++t)
    cache.store(1, t, normal_values(width, unsigned(t)).data(),
                normal_values(width, unsigned(t + 100000)).data());
  return cache;
}

using Memory = std::vector<std::vector<std::byte>>;

// The same rows in memory of their own.
cpu::KvRun moved(const cpu::KvRun& run, KvTypes types, int dim, Memory& memory) {
  const auto copy = [&](const std::byte* rows, QuantFormat type) {
    const auto bytes = tensor_bytes(type, std::uint64_t(dim), std::uint64_t(run.tokens));
    return std::as_const(memory.emplace_back(rows, rows + bytes)).data();
  };
  return {copy(run.k, types.k), copy(run.v, types.v), run.tokens};
}

// All partitions of [from, to), merged; with `memory`, of rows that were moved there.
std::vector<float> attend(const KvCache& cache, int kv_head, int dim, TokenCount from,
                          TokenCount to, const std::vector<float>& q, Memory* memory = nullptr) {
  const int rows = int(q.size()) / dim;
  const TokenCount first = from / cpu::kPartition, last = (to - 1) / cpu::kPartition;
  const int count = int(last - first + 1);
  std::vector<float> o(std::size_t(count * rows * dim)), m(std::size_t(count * rows)), l(m.size());
  const std::vector<TokenCount> froms(std::size_t(rows), from), tos(std::size_t(rows), to);
  std::vector<cpu::KvRun> runs;
  cpu::AttentionScratch scratch;
  for (int p = 0; p < count; ++p) {
    const TokenCount begin = (first + p) * cpu::kPartition;
    cache.runs(1, kv_head, begin, std::min(begin + cpu::kPartition, to), runs);
    if (memory)
      for (cpu::KvRun& run : runs) run = moved(run, cache.types(), dim, *memory);
    cpu::attend(runs, begin, cache.types(), dim, {q.data(), rows, froms.data(), tos.data()},
                {1.0f / std::sqrt(float(dim))},
                {o.data() + p * rows * dim, m.data() + p * rows, l.data() + p * rows}, scratch);
  }
  std::vector<float> out(q.size());
  for (int r = 0; r < rows; ++r)
    cpu::merge_to_output({o.data() + r * dim, m.data() + r, l.data() + r}, count, rows, dim,
                         out.data() + r * dim);
  return out;
}

std::vector<double> decoded(const std::byte* row, QuantFormat type, int dim) {
  std::vector<float> v(static_cast<std::size_t>(dim));
  ref::dequantize(type, row, v);
  return {v.begin(), v.end()};
}

std::vector<double> expected(const KvCache& cache, int kv_head, int dim, TokenCount from,
                             TokenCount to, const float* q) {
  std::vector<cpu::KvRun> runs;
  std::vector<double> scores;
  std::vector<std::vector<double>> values;
  for (TokenCount t = from; t < to; ++t) {
    cache.runs(1, kv_head, t, t + 1, runs);
    const auto k = decoded(runs[0].k, cache.types().k, dim);
    double s = 0;
    for (int i = 0; i < dim; ++i) s += double(q[i]) * k[std::size_t(i)];
    scores.push_back(s / std::sqrt(double(dim)));
    values.push_back(decoded(runs[0].v, cache.types().v, dim));
  }
  const double most = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  std::vector<double> out(static_cast<std::size_t>(dim));
  for (std::size_t t = 0; t < scores.size(); ++t) {
    const double p = std::exp(scores[t] - most);
    sum += p;
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += p * values[t][i];
  }
  for (double& v : out) v /= sum;
  return out;
}

double normalised_error(const std::vector<float>& got, const std::vector<double>& want,
                        std::size_t offset) {
  double error = 0, power = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    error += std::pow(double(got[offset + i]) - want[i], 2);
    power += want[i] * want[i];
  }
  return error / power;
}

}  // namespace

TEST_CASE("Attention equals softmax over all tokens at once", "[engine][attention]") {
  for (const int dim : {64, 96, 128})
    for (const QuantFormat type :
         {QuantFormat::kF32, QuantFormat::kF16, QuantFormat::kQ8_0, QuantFormat::kQ4_0})
      for (const auto& [from, to] : std::vector<std::pair<TokenCount, TokenCount>>{
               {0, 1}, {0, 128}, {0, 129}, {0, 517}, {130, 517}, {100, 101}}) {
        INFO(dim << " " << info(type).name << " " << from << " " << to);
        const ModelSpec spec = spec_of(6, 2, dim);
        const KvCache cache = filled(spec, {type, type}, 128, 520);
        const auto q = normal_values(std::size_t(3 * dim), 77, 2.0f);
        const auto got = attend(cache, 1, dim, from, to, q);
        for (int r = 0; r < 3; ++r) {
          const auto want = expected(cache, 1, dim, from, to, q.data() + r * dim);
          // F32 sums of dim products and of up to 128 weights: a few 1e-6 each, squared.
          CHECK(normalised_error(got, want, std::size_t(r * dim)) < 1e-10);
        }
      }
}

TEST_CASE("Blocks of any size and anywhere in memory give the same bits", "[engine][attention]") {
  const ModelSpec spec = spec_of(8, 2, 64);
  for (const QuantFormat type : {QuantFormat::kF16, QuantFormat::kQ8_0, QuantFormat::kQ4_0}) {
    const auto q = normal_values(std::size_t(4 * 64), 5);
    const auto want = attend(filled(spec, {type, type}, 128, 700), 0, 64, 0, 700, q);
    for (const TokenCount block : {1, 16, 48, 100, 256, 1024}) {
      INFO(info(type).name << " " << block);
      CHECK(attend(filled(spec, {type, type}, block, 700), 0, 64, 0, 700, q) == want);
    }
    Memory memory;
    CHECK(attend(filled(spec, {type, type}, 48, 700), 0, 64, 0, 700, q, &memory) == want);
    CHECK(memory.size() > 2 * 6);  // keys and values of more pieces than partitions
  }
}

TEST_CASE("A query that sees nothing of a partition leaves it out", "[engine][attention]") {
  const ModelSpec spec = spec_of(1, 1, 64);
  const KvCache cache = filled(spec, {}, 128, 128);
  const auto q = normal_values(64, 5);
  std::vector<cpu::KvRun> runs;
  cache.runs(1, 0, 0, 128, runs);
  const TokenCount from = 200, to = 300;
  std::vector<float> o(2 * 64, 1.0f), m(2), l(2), out(64);
  cpu::AttentionScratch scratch;
  cpu::attend(runs, 0, cache.types(), 64, {q.data(), 1, &from, &to}, {0.125f},
              {o.data(), m.data(), l.data()}, scratch);
  CHECK(std::isinf(m[0]));
  CHECK(l[0] == 0);
  m[1] = 3, l[1] = 2;  // merged with another: that one alone counts
  std::fill(o.begin() + 64, o.end(), 5.0f);
  cpu::merge_to_output({o.data(), m.data(), l.data()}, 2, 1, 64, out.data());
  for (const float v : out) CHECK(v == 2.5f);
}
