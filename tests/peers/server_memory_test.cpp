// Called llama-server-memory, the program tells what memory llama-server's flags take.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/catch.hpp"
#include "tests/peers/bench_program.hpp"
#include "tests/peers/llama_bench/server_memory.hpp"

using namespace llama_bench;
using namespace rigcast::bench_test;

namespace {

Outcome run_memory(const Folder& folder, const std::string& flags) {
  const std::string program = folder / "llama-server-memory";
  if (!std::filesystem::is_symlink(program))
    std::filesystem::create_symlink(LLAMA_BENCH_PROGRAM, program);
  return run(folder, flags, "", program);
}

double bytes_of(const Outcome& outcome, const std::string& kind) {
  INFO(outcome.error);
  REQUIRE(outcome.exit == 0);
  double bytes = 0;
  const nlohmann::json result = nlohmann::json::parse(outcome.out);
  for (const auto& buffer : result.at("buffers"))
    if (buffer.at("kind") == kind) bytes += buffer.at("bytes").get<double>();
  return bytes;
}

}  // namespace

TEST_CASE("Flags of llama-server are read", "[llama-bench]") {
  const ServerCommand c = parse_server_command({"-m",
                                                "x.gguf",
                                                "-ngl",
                                                "7",
                                                "--n-cpu-moe",
                                                "2",
                                                "--n-cpu-ffn",
                                                "1",
                                                "-ctk",
                                                "q8_0",
                                                "-c",
                                                "4096",
                                                "-np",
                                                "1",
                                                "-fa",
                                                "on",
                                                "--no-kv-offload",
                                                "-cram",
                                                "100",
                                                "--numa",
                                                "distribute"});
  CHECK(c.model.file == "x.gguf");
  CHECK(c.model.gpu_layers == 7);
  CHECK(c.model.cpu_moe_layers == 2);
  REQUIRE(c.model.overrides.size() == 1);
  CHECK(c.model.overrides[0].pattern == "blk\\.0\\.ffn_(gate|up|down)\\.weight");
  CHECK(c.model.overrides[0].buffer_type == "CPU");
  CHECK(c.cache_tokens == 4096);
  CHECK(c.slots == 1);
  CHECK(c.context.no_kv_offload);
  CHECK(parse_server_command({}).slots == 4);
  CHECK_THROWS_AS(parse_server_command({"--mmproj", "x"}), Failure);
}

TEST_CASE("The cache has the context's cells, and weights those of the file",
          "[llama-bench][llama.cpp]") {
  RIGCAST_NEEDS_LLAMA_CPP();
  const Folder folder;
  const std::string file = make_model(folder, "smollm2-135m --layers 2 --zeros");
  const Outcome small = run_memory(folder, "-m " + file + " -c 1024 -np 1 -fa on");
  const Outcome large = run_memory(folder, "-m " + file + " -c 4096 -np 1 -fa on");
  // 2 layers of 3 heads with 64 elements each, keys and values, 2 bytes.
  const double half_of_printed = 0.005 * (1 << 20) + 1;  // of a size printed as 5.62 MiB
  const double of_cell = 2.0 * 3 * 64 * 2 * 2;
  CHECK(bytes_of(small, "KV") == Approx(1024 * of_cell).margin(half_of_printed));
  CHECK(bytes_of(large, "KV") == Approx(4096 * of_cell).margin(half_of_printed));
  CHECK(bytes_of(large, "model") > 20e6);
}
