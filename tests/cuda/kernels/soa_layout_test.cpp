#include "engine/kernels/cuda/weights/soa_layout.cuh"

#include "tests/catch.hpp"
#include "tests/cuda/kernels/weights.cuh"

using namespace rigcast;
using engine::Stream;
namespace cuda = engine::cuda;
namespace ref = engine::ref;

TEST_CASE("The SoA layout has the file's bytes, except for padding", "[cuda]") {
  for (const QuantFormat f : fixtures::kAllFormats) {
    INFO(info(f).name);
    const std::size_t bytes = cuda::soa_bytes(f, 4096, 1024);
    const std::size_t in_file = tensor_bytes(f, 4096, 1024);
    CHECK(bytes >= in_file);
    CHECK(bytes < in_file + 4 * 256);
    CHECK(bytes % 256 == 0);
  }
}

TEST_CASE("A matrix that comes in pieces lies as one that comes whole", "[cuda][gpu][formats]") {
  constexpr std::int64_t kColumns = 768, kRows = 37;
  const Stream stream;
  for (const QuantFormat f : fixtures::kAllFormats) {
    INFO(info(f).name);
    const std::size_t row_bytes = tensor_bytes(f, kColumns, 1);
    const std::vector<std::byte> blocks = fixtures::random_bytes(row_bytes * kRows, 5);
    const fixtures::OnDevice<std::byte> whole(cuda::soa_bytes(f, kColumns, kRows));
    const fixtures::OnDevice<std::byte> pieces(whole.size());
    const fixtures::OnDevice<std::byte> on_device(blocks);
    cuda::repack(f, kColumns, kRows, {0, kRows}, on_device.get(), whole.get(), stream);
    for (std::int64_t first = 0; first < kRows; first += 5) {
      const cuda::RowRange range{first, std::min<std::int64_t>(5, kRows - first)};
      cuda::repack(f, kColumns, kRows, range, on_device.get() + row_bytes * std::size_t(first),
                   pieces.get(), stream);
    }
    stream.wait();
    CHECK((whole.read() == pieces.read()));
  }
}
