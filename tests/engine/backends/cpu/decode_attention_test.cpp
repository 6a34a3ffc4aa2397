// One token's attention by several threads.
#include "engine/backends/cpu/attention/decode_attention.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/model/model_spec.hpp"
#include "tests/catch.hpp"

using namespace rigcast;
using namespace rigcast::engine;

namespace {

constexpr int kHeads = 6, kKvHeads = 2, kDim = 32, kWidth = kHeads * kDim;
constexpr TokenCount kTokens = 5000;

ModelSpec spec_of_one_layer() {
  ModelSpec spec;
  spec.layers = 1;
  spec.heads = kHeads;
  spec.kv_heads = kKvHeads;
  spec.head_dim = kDim;
  return spec;
}

std::vector<float> waves(int count, double step) {
  std::vector<float> v;
  for (int i = 0; i < count; ++i) v.push_back(float(std::sin(step * (i + 1))));
  return v;
}

KvCache filled_cache(const ModelSpec& spec) {
  KvCache cache(spec, {QuantFormat::kF16, QuantFormat::kF16}, 64);
  cache.reserve(kTokens);
  for (TokenCount t = 0; t < kTokens; ++t) {
    const auto k = waves(kKvHeads * kDim, 0.37 * double(t + 1)),
               v = waves(kKvHeads * kDim, 0.11 * double(t + 1));
    cache.store(0, t, k.data(), v.data());
  }
  return cache;
}

}  // namespace

TEST_CASE("What is fetched ahead changes nothing but the time", "[engine][attention]") {
  const ModelSpec spec = spec_of_one_layer();
  const KvCache cache = filled_cache(spec);
  const auto q = waves(kWidth, 1.3);
  const auto mix = [&](int threads, TokenCount from, TokenCount to, auto ahead) {
    ThreadTeam team(threads);
    DecodeAttention attention(spec, threads);
    std::vector<float> out(kWidth);
    team.run([&](Worker& worker) {
      ahead(worker, attention);
      attention.run(worker, cache, 0, from, to, q.data(), out.data());
    });
    return out;
  };
  const auto nothing = [](Worker&, DecodeAttention&) {};
  for (const auto& [from, to] :
       {std::pair<TokenCount, TokenCount>{0, kTokens}, {130, 4999}, {4000, 4001}, {0, 1}})
    for (const int threads : {1, 2, 5}) {
      INFO(from << " to " << to << " by " << threads);
      const auto want = mix(1, from, to, nothing);
      CHECK(mix(threads, from, to, nothing) == want);
      CHECK(mix(threads, from, to, [&, from = from, to = to](Worker& w, DecodeAttention& a) {
              a.prefetch_kv(w, cache, 0, from, to);
            }) == want);
      // Of another token, which was never asked for.
      CHECK(mix(threads, from, to, [&](Worker& w, DecodeAttention& a) {
              a.prefetch_kv(w, cache, 0, 0, 700);
            }) == want);
    }
}

TEST_CASE("Finished heads are reported as they are merged, each once", "[engine][attention]") {
  const ModelSpec spec = spec_of_one_layer();
  const KvCache cache = filled_cache(spec);
  const auto q = waves(kWidth, 1.3);
  for (const int threads : {1, 2, 5})
    for (const std::int64_t heads : {1, 4, 8}) {
      ThreadTeam team(threads);
      DecodeAttention attention(spec, threads);
      std::vector<float> out(kWidth), told(kWidth);
      int before = 0;
      AroundHeads around{.before = [&] { ++before; }, .heads = heads};
      around.heads_done = [&](std::int64_t begin, std::int64_t end) {
        std::copy(out.begin() + begin * kDim, out.begin() + end * kDim,
                  told.begin() + begin * kDim);
      };
      team.run([&](Worker& worker) {
        attention.run(worker, cache, 0, 0, kTokens, q.data(), out.data(), around);
      });
      CHECK(before == 1);
      CHECK(told == out);
    }
}

TEST_CASE("Parts of a context that were attended to apart give the whole's mix",
          "[engine][attention]") {
  const ModelSpec spec = spec_of_one_layer();
  const KvCache cache = filled_cache(spec);
  const auto q = waves(kWidth, 1.3);
  constexpr TokenCount kCut = 1900;
  struct Part {
    std::vector<float> o = std::vector<float>(kWidth), m = std::vector<float>(kHeads), l = m;
  } first, second;
  std::vector<float> want(kWidth);
  ThreadTeam team(3);
  DecodeAttention attention(spec, 3);
  team.run([&](Worker& worker) {
    const auto part = [&](TokenCount from, TokenCount to, Part& out) {
      attention.run_part(worker, cache, 0, from, to, q.data(),
                         {out.o.data(), out.m.data(), out.l.data()});
    };
    part(0, kCut, first);
    part(kCut, kTokens, second);
    attention.run(worker, cache, 0, 0, kTokens, q.data(), want.data());
  });
  for (std::size_t i = 0; i < kWidth; ++i) {
    const std::size_t h = i / kDim;
    const double most = std::max(first.m[h], second.m[h]);
    const double a = std::exp(first.m[h] - most), b = std::exp(second.m[h] - most);
    const double mixed = (a * double(first.o[i]) + b * double(second.o[i])) /
                         (a * double(first.l[h]) + b * double(second.l[h]));
    // Values below 1, and sums of 5,000 in another order.
    CHECK(std::abs(mixed - double(want[i])) <= 5000 * 0x1p-24);
  }
}
