#include "engine/kernels/cuda/weights/synthesize.cuh"

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "engine/synth/synth.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/device_data.cuh"

namespace rigcast::engine::cuda {
namespace {

using fixtures::OnDevice;

Tensor tensor_of(QuantFormat format, TensorRole role, std::uint64_t columns, std::uint64_t rows) {
  Tensor t;
  t.name = "blk.3.ffn_down.weight";
  t.role = role;
  t.layer = 3;
  t.shape = {columns, rows, 1};
  t.dimensions = rows > 1 ? 2 : 1;
  t.format = format;
  t.bytes = tensor_bytes(format, columns, rows);
  return t;
}

struct Blocks {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

std::vector<std::byte> by_cpu(const Tensor& t, std::uint64_t seed, const Blocks& blocks) {
  std::vector<std::byte> bytes(blocks.count * info(t.format).block_bytes);
  engine::synthesize(t, seed, blocks.first, bytes);
  return bytes;
}

// One byte more than is asked for: the last one shows a kernel that writes too far.
std::vector<std::byte> by_gpu(const Tensor& t, std::uint64_t seed, const Blocks& blocks) {
  const Stream stream;
  const std::uint64_t bytes = blocks.count * info(t.format).block_bytes;
  const OnDevice<std::byte> out(bytes + 1);
  synthesize(stream, synthetic_tensor(t, seed), blocks.first, out.get(), bytes);
  std::vector<std::byte> read = out.read();
  CHECK(read.back() == std::byte(0xFF));
  read.pop_back();
  return read;
}

}  // namespace

TEST_CASE("The GPU makes the bytes that the CPU makes, in every format", "[cuda][gpu][formats]") {
  for (int i = 0; i < kComputedFormatCount; ++i) {
    const auto format = QuantFormat(i);
    INFO(info(format).name);
    const Tensor t = tensor_of(format, TensorRole::kFfnDown, 4096, 65);
    const std::uint64_t all = t.bytes / info(format).block_bytes;
    CHECK(by_gpu(t, 7, {0, all}) == by_cpu(t, 7, {0, all}));
  }
}

TEST_CASE("Any range of blocks is the same on the GPU", "[cuda][gpu][formats]") {
  std::mt19937_64 random(3);
  for (int i = 0; i < kComputedFormatCount; ++i) {
    const auto format = QuantFormat(i);
    const Tensor t = tensor_of(format, TensorRole::kFfnDown, 14336, 4096);
    const std::uint64_t all = t.bytes / info(format).block_bytes;
    for (const std::uint64_t count : {1u, 2u, 15u, 17u, 1023u, 5001u}) {
      const Blocks blocks{random() % (all - count), count};
      INFO(info(format).name << ' ' << blocks.count << " blocks from " << blocks.first);
      CHECK(by_gpu(t, 11, blocks) == by_cpu(t, 11, blocks));
    }
  }
}

TEST_CASE("Blocks past 4 GiB of a tensor are the same on the GPU", "[cuda][gpu]") {
  Tensor t = tensor_of(QuantFormat::kQ6_K, TensorRole::kExpertDown, 4096, 1 << 20);
  const Blocks blocks{(std::uint64_t(5) << 30) / 210, 333};
  CHECK(by_gpu(t, 1, blocks) == by_cpu(t, 1, blocks));
}

TEST_CASE("Norms, biases and rope factors are the same on the GPU", "[cuda][gpu]") {
  for (const TensorRole role : {TensorRole::kNorm, TensorRole::kBias, TensorRole::kRope})
    for (const QuantFormat format : {QuantFormat::kF32, QuantFormat::kF16, QuantFormat::kBF16}) {
      const Tensor t = tensor_of(format, role, 4097, 1);
      INFO(info(format).name << " of role " << int(role));
      CHECK(by_gpu(t, 5, {0, 4097}) == by_cpu(t, 5, {0, 4097}));
    }
}

TEST_CASE("No blocks are no work for the GPU", "[cuda][gpu]") {
  const Tensor t = tensor_of(QuantFormat::kQ8_0, TensorRole::kFfnDown, 64, 2);
  CHECK(by_gpu(t, 1, {2, 0}).empty());
}

}  // namespace rigcast::engine::cuda
