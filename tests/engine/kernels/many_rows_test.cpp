#include "engine/kernels/cuda/matvec/many_rows.hpp"

#include "tests/catch.hpp"

using rigcast::engine::cuda::has_many_rows;

TEST_CASE("Rows are many by the GPU's multiprocessors", "[engine][matvec]") {
  // An H100 or H200 has 132 of them, an RTX 3060 has 28.
  for (const int units : {28, 82, 132}) {
    INFO(units << " multiprocessors");
    CHECK_FALSE(has_many_rows(44 * units - 1, units));
    CHECK(has_many_rows(44 * units, units));
  }
}
