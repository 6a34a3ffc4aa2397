#include "engine/cuda/memory/vram.cuh"

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "engine/cuda/cuda_call.cuh"
#include "tests/catch.hpp"
#include "tests/machine_error.hpp"

namespace rigcast::engine::cuda {
namespace {

std::string text_of_failed_take(Vram& vram, std::size_t bytes, const std::string& item) {
  return test::machine_error([&] { vram.allocate(bytes, item); });
}

}  // namespace

TEST_CASE("A GPU that is not there is said to be so", "[cuda]") {
  try {
    const Vram vram(4096, std::nullopt);
    FAIL("nothing was thrown");
  } catch (const MachineError& error) {
    CHECK(std::string(error.what()).find("GPU 4096 cannot be used: ") == 0);
  }
}

TEST_CASE("What is taken from the GPU is counted by what it is for", "[cuda][gpu]") {
  Vram vram(0, 64_MiB);
  VramPiece weights = vram.allocate(1000, "weights");
  const VramPiece cache = vram.allocate(1 << 20, "KV cache");
  const VramPiece more = vram.allocate(256, "weights");
  const VramPiece nothing = vram.allocate(0, "weights");
  CHECK(weights.bytes() == 1000);
  CHECK(reinterpret_cast<std::uintptr_t>(weights.as()) % 256 == 0);
  CHECK(nothing.as() == nullptr);
  REQUIRE(vram.items().size() == 2);
  CHECK(vram.items()[0].name == "weights");
  CHECK(vram.items()[0].held == 1280_B);
  CHECK(vram.items()[1].held == 1_MiB);
  CHECK(vram.held() == 1_MiB + 1280_B);
  CHECK(vram.free() == 63_MiB - 1280_B);
  weights = VramPiece();
  CHECK(vram.items()[0].held == 256_B);
  CHECK(vram.items()[0].most == 1280_B);
  CHECK(vram.held() == 1_MiB + 256_B);
  CHECK(vram.peak_held() == 1_MiB + 1280_B);
}

TEST_CASE("Memory that is moved is given back once", "[cuda][gpu]") {
  Vram vram(0, 64_MiB);
  {
    VramPiece a = vram.allocate(4096, "activations");
    VramPiece b = std::move(a);
    CHECK(a.as() == nullptr);
    VramPiece c = vram.allocate(8192, "activations");
    c = std::move(b);
    CHECK(c.bytes() == 4096);
    CHECK(vram.held() == 4096_B);
  }
  CHECK(vram.held() == 0_B);
}

TEST_CASE("Memory outlives the pool it comes from", "[cuda][gpu]") {
  VramPiece memory;
  {
    Vram vram(0, std::nullopt);
    memory = vram.allocate(4096, "weights");
  }
  RIGCAST_CUDA_CALL(cudaMemset(memory.as(), 1, memory.bytes()));
  RIGCAST_CUDA_CALL(cudaDeviceSynchronize());
  CHECK(memory.bytes() == 4096);
}

TEST_CASE("Past the limit the error says what was asked, what is free and who has the rest",
          "[cuda][gpu]") {
  Vram vram(0, 8_MiB);
  {
    const VramPiece weights = vram.allocate(5 << 20, "weights");
    const VramPiece small = vram.allocate(1 << 20, "activations");
    CHECK(text_of_failed_take(vram, 3 << 20, "KV cache") ==
          "GPU memory: 3.00 MiB asked for the KV cache, 2.00 MiB free of a limit of 8.00 MiB; "
          "taken: weights 5.00 MiB, activations 1.00 MiB");
    CHECK(vram.items().size() == 2);
    // To the last byte.
    const VramPiece rest = vram.allocate(2 << 20, "KV cache");
    CHECK(vram.free() == 0_B);
    CHECK(text_of_failed_take(vram, 1, "samples").find("1 B asked for the samples, 0 B free") !=
          std::string::npos);
  }
  const VramPiece all = vram.allocate(8 << 20, "weights");
  CHECK(vram.held() == 8_MiB);
}

TEST_CASE("More than the card has is refused, and the GPU can be used afterwards", "[cuda][gpu]") {
  Vram vram(0, std::nullopt);
  std::size_t free = 0, card = 0;
  RIGCAST_CUDA_CALL(cudaMemGetInfo(&free, &card));
  const std::string text = text_of_failed_take(vram, card + 1, "KV cache");
  CHECK(text.find(" asked for the KV cache, ") != std::string::npos);
  CHECK(text.find("limit") == std::string::npos);
  CHECK(cudaGetLastError() == cudaSuccess);
  // A limit above the card's memory is no promise.
  Vram generous(0, Bytes{2.0 * double(card)});
  CHECK(text_of_failed_take(generous, card + 1, "KV cache").find(" of a limit of ") !=
        std::string::npos);
  CHECK(vram.allocate(1 << 20, "weights").as() != nullptr);
  CHECK(vram.held() == 0_B);
}

TEST_CASE("Several threads take and give back", "[cuda][gpu]") {
  Vram vram(0, 64_MiB);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        for (int k = 0; k < 50; ++k) vram.allocate(10'000, "weights");
      });
  }
  CHECK(vram.held() == 0_B);
  CHECK(vram.peak_held() <= Bytes{4.0 * 10'240});
  CHECK(vram.peak_held() >= Bytes{10'240.0});
}

}  // namespace rigcast::engine::cuda
