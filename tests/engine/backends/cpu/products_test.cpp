// Matrices that a team multiplies together, and what it asks memory for in between.
#include "engine/backends/cpu/products/products.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "engine/kernels/ref/quantize.hpp"
#include "tests/catch.hpp"
#include "tests/engine/random_values.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using fixtures::normal_values;

namespace {

struct Weights {
  std::vector<std::byte> bytes;
  Matrix matrix;
};

Weights weights_of(QuantFormat format, std::int64_t rows, std::int64_t columns, unsigned seed) {
  Weights w;
  w.matrix = {nullptr, format, columns, rows};
  w.bytes.resize(std::size_t(w.matrix.bytes()));
  ref::quantize(format, normal_values(std::size_t(rows * columns), seed, 0.05f), w.bytes.data());
  w.matrix.data = w.bytes.data();
  return w;
}

}  // namespace

TEST_CASE("A team's products are those of one thread, whatever is asked for meanwhile",
          "[engine][products]") {
  constexpr std::int64_t kColumns = 512;
  // Fewer rows than there are members, more pieces than there are members, and both formats' forms.
  const Weights wide = weights_of(QuantFormat::kQ4_K, 2050, kColumns, 1);
  const Weights few = weights_of(QuantFormat::kQ6_K, 3, kColumns, 2);
  const Weights floats = weights_of(QuantFormat::kF16, 70, kColumns, 3);
  const auto x = normal_values(std::size_t(kColumns), 4);
  Input input;
  input.resize(kColumns, 1, true, true);
  for (std::int64_t first = 0; first < kColumns; first += Input::kPart)
    input.set_part(first, std::span(x).subspan(std::size_t(first), Input::kPart));
  const auto multiplied = [&](int threads, bool asks) {
    const Weights* all[] = {&wide, &few, &floats};
    std::vector<std::vector<float>> y;
    for (const Weights* w : all) y.emplace_back(std::size_t(w->matrix.rows), -1.0f);
    ThreadTeam team(threads);
    std::vector<ProductScratch> scratch(static_cast<std::size_t>(threads));
    team.run([&](Worker& worker) {
      for (int round = 0; round < 20; ++round) {
        const Product first[] = {{&wide.matrix, input, y[0].data(), wide.matrix.rows},
                                 {&few.matrix, input, y[1].data(), few.matrix.rows}};
        const Product second{&floats.matrix, input, y[2].data(), floats.matrix.rows};
        const Matrix* const next[] = {&floats.matrix};
        ProductScratch& own = scratch[std::size_t(worker.index())];
        multiply(worker, first, own, asks ? std::span(next) : std::span<const Matrix* const>());
        worker.barrier();
        multiply(worker, {&second, 1}, own);
        worker.barrier();
      }
    });
    return y;
  };
  const auto want = multiplied(1, false);
  CHECK(std::ranges::count(want[0], -1.0f) == 0);
  for (const int threads : {1, 2, 5})
    for (const bool asks : {false, true}) CHECK(multiplied(threads, asks) == want);
}
