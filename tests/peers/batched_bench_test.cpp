// Called llama-batched-bench, the program does as llama.cpp's program of that name.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/peers/bench_program.hpp"
#include "tests/peers/llama_bench/batched_settings.hpp"

using namespace llama_bench;
using namespace rigcast::bench_test;
using json = nlohmann::json;

namespace {

Outcome run_batched(const Folder& folder, const std::string& flags,
                    const std::string& before = "") {
  const std::string program = folder / "llama-batched-bench";
  if (!std::filesystem::is_symlink(program))
    std::filesystem::create_symlink(LLAMA_BENCH_PROGRAM, program);
  return run(folder, flags, before, program);
}

std::vector<json> measure(const Folder& folder, const std::string& flags) {
  const Outcome outcome = run_batched(folder, flags + " -t 1 --output-format jsonl");
  INFO(outcome.error);
  REQUIRE(outcome.exit == 0);
  return lines(outcome.out);
}

double kv_bytes(const json& result) {
  double bytes = 0;
  for (const json& b : result.at("library").at("buffers"))
    if (b.at("kind") == "KV") bytes += b.at("bytes").get<double>();
  return bytes;
}

}  // namespace

TEST_CASE("Flags of llama-batched-bench are read", "[llama-bench]") {
  const BatchedCommand c = parse_batched_command({"-m",    "x.gguf",
                                                  "-c",    "4096",
                                                  "-b",    "512",
                                                  "-ub",   "128",
                                                  "-ngl",  "7",
                                                  "-fa",   "on",
                                                  "-t",    "3",
                                                  "-ctk",  "q8_0",
                                                  "-ctv",  "f16",
                                                  "-npp",  "8,16",
                                                  "-ntg",  "4",
                                                  "-npl",  "1,2",
                                                  "-pps",  "--output-format",
                                                  "jsonl", "-nkvo"});
  CHECK(c.model.file == "x.gguf");
  CHECK(c.model.gpu_layers == 7);
  CHECK(c.cache_tokens == 4096);
  CHECK(c.context.n_batch == 512);
  CHECK(c.context.n_ubatch == 128);
  CHECK(c.context.flash_attn == 1);
  CHECK(std::string(c.context.type_k.name) == "q8_0");
  CHECK(std::string(c.context.type_v.name) == "f16");
  CHECK(c.context.no_kv_offload);
  CHECK(c.threads == 3);
  CHECK(c.threads_batch == 3);
  CHECK(c.n_pp == std::vector{8, 16});
  CHECK(c.n_tg == std::vector{4});
  CHECK(c.n_pl == std::vector{1, 2});
  CHECK(c.prompt_shared);
  CHECK_FALSE(c.cache_unified);
  CHECK(c.jsonl);
}

TEST_CASE("What a flag of llama-batched-bench cannot mean is refused", "[llama-bench]") {
  using Words = std::vector<std::string>;
  for (const Words& words :
       {Words{"-p", "8"}, Words{"-npl", "0"}, Words{"-npp", "8,"}, Words{"-npp"}, Words{"-c", "-1"},
        Words{"--output-format", "csv"}, Words{"-fa", "maybe"}, Words{"-ctk", "q9"}}) {
    INFO(words[0]);
    CHECK_THROWS_WITH(parse_batched_command(words), Catch::Contains(words[0]));
  }
  CHECK_THROWS_WITH(parse_batched_command({"-npp", "8", "-npl", "2"}), Catch::Contains("-ntg"));
}

TEST_CASE("By its name the program is llama-batched-bench", "[llama-bench]") {
  const Folder folder;
  const Outcome help = run_batched(folder, "--help");
  CHECK(help.exit == 0);
  for (const char* flag : {"-npp <", "-ntg <", "-npl <", "-pps", "--output-format"})
    CHECK_THAT(help.out, Catch::Contains(flag));
  const Outcome wrong = run_batched(folder, "--no-such");
  CHECK(wrong.exit == 1);
  CHECK(wrong.out.empty());
  CHECK_THAT(wrong.error, Catch::StartsWith("llama-batched-bench: "));
}

TEST_CASE("Sequences are decoded together, in every combination that the cache holds",
          "[llama-bench][llama.cpp]") {
  RIGCAST_NEEDS_LLAMA_CPP();
  const Folder folder;
  // 3 sequences of 32 + 8 tokens need 120 cells of 256 each; 300 tokens of one do not fit.
  const std::string flags = "-m " + make_model(folder) + " -c 768 -npp 32,900 -ntg 8 -npl 1,3";
  const std::vector<json> results = measure(folder, flags + " -ctk q8_0 -ctv q8_0 -fa on -b 40");
  REQUIRE(results.size() == 2);
  for (const json& r : results) {
    INFO(r.dump());
    const int pl = r.at("pl");
    CHECK(r.at("n_kv_max") == 768);
    CHECK(r.at("n_kv") == pl * (32 + 8));
    CHECK(r.at("pp") == 32);
    CHECK(r.at("tg") == 8);
    CHECK(r.at("n_batch") == 40);
    CHECK(r.at("is_pp_shared") == 0);
    CHECK(r.at("n_threads") == 1);
    const double prompt_s = r.at("t_pp"), output_s = r.at("t_tg");
    CHECK(prompt_s > 0);
    CHECK(output_s > 0);
    CHECK(r.at("speed_pp").get<double>() == Approx(pl * 32 / prompt_s));
    CHECK(r.at("speed_tg").get<double>() == Approx(pl * 8 / output_s));
    CHECK(r.at("t").get<double>() == Approx(prompt_s + output_s));
    CHECK(r.at("speed").get<double>() == Approx(pl * 40 / (prompt_s + output_s)));
  }
  CHECK(results[0].at("pl") == 1);
  CHECK(results[1].at("pl") == 3);
  // 2 layers of 3 heads of 64, keys and values of 34 bytes for 32; the cache of all sequences.
  CHECK(kv_bytes(results[0]) ==
        Approx(768.0 * 2 * 3 * 64 * 2 * 34 / 32).margin(0.005 * (1 << 20) + 1));
}

TEST_CASE("A shared prompt is computed once, and kept once where the cache is one",
          "[llama-bench][llama.cpp]") {
  RIGCAST_NEEDS_LLAMA_CPP();
  const Folder folder;
  const std::string flags = "-m " + make_model(folder) + " -c 1024 -npp 64 -ntg 4 -npl 4 -pps";
  const json apart = measure(folder, flags).at(0), unified = measure(folder, flags + " -kvu").at(0);
  CHECK(apart.at("is_pp_shared") == 1);
  CHECK(apart.at("n_kv") == 4 * (64 + 4));
  CHECK(unified.at("n_kv") == 64 + 4 * 4);
  for (const json& r : {apart, unified})
    CHECK(r.at("speed_pp").get<double>() == Approx(64 / r.at("t_pp").get<double>()));
}

TEST_CASE("More tokens of one sequence than its part of the cache holds are an error",
          "[llama-bench][llama.cpp]") {
  RIGCAST_NEEDS_LLAMA_CPP();
  const Folder folder;
  const std::string file = make_model(folder);
  // 4 parts of 256; the cells of all are enough for one sequence of 500.
  const Outcome outcome = run_batched(
      folder, "-m " + file + " -c 1024 -npp 500 -ntg 4 -npl 1,4 -t 1 --output-format jsonl");
  INFO(outcome.error);
  CHECK(outcome.exit == 1);
  CHECK(outcome.out.empty());
  CHECK_THAT(outcome.error, Catch::Contains("cannot decode a batch"));
  const Outcome none = run_batched(folder, "-m " + (folder / "none") + " -npp 1 -ntg 1 -npl 1");
  CHECK_THAT(none.error, Catch::Contains("no file"));
}
