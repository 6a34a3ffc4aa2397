// The program that measures with llama.cpp's own libraries does as llama-bench does.

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/folder.hpp"
#include "tests/peers/bench_program.hpp"
#include "tests/peers/llama_bench/buffer_sizes.hpp"
#include "tests/peers/llama_bench/command.hpp"
#include "tests/peers/llama_cpp.hpp"

using namespace llama_bench;
using json = nlohmann::json;
using namespace rigcast::bench_test;

TEST_CASE("Flags multiply tests, with llama-bench's defaults", "[llama-bench]") {
  CHECK(parse_command({}).tests.size() == 2);
  const Command c =
      parse_command({"-p",   "16,32", "-n",   "8",    "-n",  "0",   "-pg", "4,2", "-d",
                     "0,64", "-t",    "1,2",  "-ngl", "7",   "-ts", "3/1", "-ot", "a=CPU;b=CUDA0",
                     "-mmp", "0",     "-ctk", "q8_0", "-fa", "1",   "-r",  "2"});
  CHECK(c.tests.size() == 2u * 2 * (2 + 1 + 1));
  CHECK(c.repetitions == 2);
  const Test& last = c.tests.back();
  CHECK(last.n_prompt == 4);
  CHECK(last.n_gen == 2);
  CHECK(last.n_depth == 64);
  CHECK(last.threads == 2);
  CHECK(last.model.gpu_layers == 7);
  CHECK(last.model.tensor_split == std::vector<float>{3, 1});
  CHECK(last.model.overrides == std::vector<Override>{{"a", "CPU"}, {"b", "CUDA0"}});
  CHECK(last.model.load_mode == "none");
  CHECK(std::string(last.type_k.name) == "q8_0");
  CHECK(std::string(last.type_v.name) == "f16");
  CHECK(last.flash_attn == 1);
}

TEST_CASE("What a flag cannot mean is refused with the flag's name", "[llama-bench]") {
  using Words = std::vector<std::string>;
  for (const Words& words : {Words{"--no-such"},
                             {"-p", "-1"},
                             {"-p", "12x"},
                             {"-p"},
                             {"-p", ""},
                             {"-p", "1-4"},
                             {"-b", "0"},
                             {"-pg", "1"},
                             {"-ctk", "q9"},
                             {"-ot", "a"},
                             {"-sm", "rows"},
                             {"-nkvo", "2"},
                             {"-o", "sql"},
                             {"-r", "0"},
                             {"-ts", "1/x"},
                             {"-p", "99999999999999999999"}}) {
    INFO(words[0] << " " << (words.size() > 1 ? words[1] : ""));
    CHECK_THROWS_WITH(parse_command(words), Catch::Contains(words[0]));
  }
  CHECK_THROWS_WITH(parse_command({"-p", "0", "-n", "0"}), Catch::Contains("nothing to measure"));
}

TEST_CASE("Sizes of buffers are read from the library's log", "[llama-bench]") {
  BufferSizes sizes;
  for (const char* line :
       {"load_tensors:   CPU_Mapped model buffer size =    98.87 MiB",
        "load_tensors:        CUDA0 model buffer size =  4096.00 MiB",
        "load_tensors:        CUDA0 model buffer size =     1.50 MiB",
        "llama_kv_cache:      CUDA0 KV buffer size =   512.00 MiB",
        "llama_kv_cache:      CUDA0 KV buffer size =    24.00 MiB",
        "llama_memory_recurrent:      CUDA0 RS buffer size =    48.00 MiB",
        "sched_reserve:      CUDA0 compute buffer size =   100.00 MiB",
        "sched_reserve:      CUDA0 compute buffer size =   300.00 MiB",
        "~llama_context: CPU compute buffer size is 3.0 MiB, matches expectation",
        "load: nothing of the kind"})
    sizes.add_line(line);
  const auto of = [&](const std::string& name, const std::string& kind) {
    for (const Buffer& b : sizes.buffers())
      if (b.name == name && b.kind == kind) return double(b.bytes) / (1 << 20);
    return -1.0;
  };
  CHECK(sizes.buffers().size() == 5);
  CHECK(of("CPU_Mapped", "model") == Approx(98.87));
  CHECK(of("CUDA0", "model") == 4097.5);
  CHECK(of("CUDA0", "KV") == 536);
  CHECK(of("CUDA0", "RS") == 48);
  CHECK(of("CUDA0", "compute") == 300);
  sizes.forget_context();
  CHECK(sizes.buffers().size() == 2);
}

TEST_CASE("--help names every flag and needs no library", "[llama-bench]") {
  const Folder folder;
  const Outcome help = run(folder, "--help");
  CHECK(help.exit == 0);
  for (const char* flag :
       {"-ncmoe, --n-cpu-moe", "-nkvo, --no-kv-offload", "-ot, --override-tensor"})
    CHECK_THAT(help.out, Catch::Contains(flag));
}

TEST_CASE("An error is told on standard error alone, with exit code 1", "[llama-bench]") {
  const Folder folder;
  for (const std::string flags : {"--no-such", "-m", "-m x.gguf -o nothing"}) {
    const Outcome outcome = run(folder, flags);
    INFO(flags << ": " << outcome.error);
    CHECK(outcome.exit == 1);
    CHECK(outcome.out.empty());
    CHECK_THAT(outcome.error, Catch::StartsWith("llama-bench: "));
  }
}

TEST_CASE("Without libraries, or with those of another release, nothing is measured",
          "[llama-bench]") {
  const Folder folder;
  const std::string set = "LLAMA_CPP_FOLDER=" + folder.path().string() + " ";
  const auto here = [&] {
    const std::string line =
        set + LLAMA_BENCH_PROGRAM " -m x.gguf >" + (folder / "out") + " 2>" + (folder / "error");
    CHECK(std::system(line.c_str()) != 0);
    CHECK(rigcast::test::read(folder / "out").empty());
    return rigcast::test::read(folder / "error");
  };
  CHECK_THAT(here(), Catch::Contains("no libllama.*so*"));
  folder.write("libllama.so", "not a library");
  folder.write("libggml.so", "not a library");
  folder.write("libggml-base.so", "not a library");
  CHECK_THAT(here(), Catch::Contains("cannot load"));
}

// The library times from the first llama_decode to the end of llama_synchronize, within the time
// that this program takes, which adds the choice of tokens. Other work on the machine may stop it
// in between, which adds to this program's time alone, so the repetition counts that was stopped
// least.
TEST_CASE("Times agree with the library's own counters within 2 %", "[llama-bench][llama.cpp]") {
  RIGCAST_NEEDS_LLAMA_CPP();
  const Folder folder;
  const std::string file = make_model(folder);
  const Outcome outcome =
      run(folder, "-m " + file + " -p 48 -n 8 -pg 16,4 -d 0,96 -b 32 -r 3 -t 1 -o jsonl");
  INFO(outcome.error);
  REQUIRE(outcome.exit == 0);
  const std::vector<json> results = lines(outcome.out);
  REQUIRE(results.size() == 6);
  for (const json& r : results) {
    INFO(r.dump());
    const double tokens = r.at("n_prompt").get<int>() + r.at("n_gen").get<int>();
    REQUIRE(r.at("samples_ns").size() == 3);
    double least = 1e9;
    for (std::size_t i = 0; i < 3; ++i) {
      const double ns = r.at("samples_ns")[i], by_library = r.at("library").at("samples_ns")[i];
      CHECK(ns >= by_library - 1000 * tokens);  // it counts in microseconds, for each token
      least = std::min(least, ns / by_library);
      CHECK(r.at("samples_ts")[i].get<double>() == Approx(1e9 * tokens / ns).epsilon(1e-6));
    }
    CHECK(least < 1.02);
    CHECK(r.at("library").at("load_ns") > 0);
    CHECK(r.at("model_n_params") > 0);
    CHECK(r.at("n_threads") == 1);
  }
  CHECK(results[3].at("n_depth") == 96);
}

TEST_CASE("Memory is what the library reports, and follows settings", "[llama-bench][llama.cpp]") {
  RIGCAST_NEEDS_LLAMA_CPP();
  const Folder folder;
  const std::string file = make_model(folder);
  // SmolLM2's KV: 2 layers of 3 heads of 64, keys and values of 2 bytes, and of 34 for 32 with
  // q8_0.
  const auto kv_bytes = [&](const std::string& type, int tokens) {
    const Outcome outcome =
        run(folder, "-m " + file + " -p 8 -n 0 -r 1 -t 1 -fa 1 -d " + std::to_string(tokens - 8) +
                        " -ctk " + type + " -ctv " + type + " -o jsonl");
    INFO(outcome.error);
    REQUIRE(outcome.exit == 0);
    std::int64_t bytes = 0;
    const json result = lines(outcome.out).at(0);
    for (const json& b : result.at("library").at("buffers"))
      if (b.at("kind") == "KV") bytes += b.at("bytes").get<std::int64_t>();
    return double(bytes);
  };
  const double half_of_printed = 0.005 * (1 << 20) + 1;  // of a size printed as 5.62 MiB
  CHECK(kv_bytes("f16", 512) == Approx(512.0 * 2 * 3 * 64 * 2 * 2).margin(half_of_printed));
  CHECK(kv_bytes("f16", 1024) == Approx(1024.0 * 2 * 3 * 64 * 2 * 2).margin(half_of_printed));
  CHECK(kv_bytes("q8_0", 1024) ==
        Approx(1024.0 * 2 * 3 * 64 * 2 * 34 / 32).margin(half_of_printed));
}

TEST_CASE("A model that is missing, broken or too large is refused", "[llama-bench][llama.cpp]") {
  RIGCAST_NEEDS_LLAMA_CPP();
  const Folder folder;
  const std::string file = make_model(folder);
  const std::string broken = folder.write("broken.gguf", "GGUF and nothing of one");
  const auto refused = [&](const std::string& flags, const std::string& before = "") {
    const Outcome outcome = run(folder, flags + " -t 1 -o jsonl", before);
    INFO(flags << ": " << outcome.error);
    CHECK(outcome.exit != 0);
    CHECK(outcome.out.empty());
    return outcome.error;
  };
  CHECK_THAT(refused("-m " + (folder / "none.gguf")), Catch::Contains("no file"));
  CHECK_THAT(refused("-m " + broken), Catch::Contains("cannot load"));
  CHECK_THAT(refused("-m " + file + " -p 2000000000 -n 0 -d 2000000000"),
             Catch::Contains("more tokens than"));
  CHECK_THAT(refused("-m " + file + " -ot x=CUDA7"), Catch::Contains("no memory called CUDA7"));
#ifndef __SANITIZE_ADDRESS__  // which needs more addresses than any limit leaves
  // 1,536 bytes a token: 12 GiB of KV, and 2 GiB of addresses.
  CHECK_THAT(refused("-m " + file + " -p 1 -n 0 -d 8000000 -r 1", "ulimit -v 2097152; "),
             Catch::Contains("cannot make a context"));
#endif
}

TEST_CASE("Every format prints every result", "[llama-bench][llama.cpp]") {
  RIGCAST_NEEDS_LLAMA_CPP();
  const Folder folder;
  const std::string flags = "-m " + make_model(folder) + " -p 8 -n 4 -r 1 -t 1 -o ";
  const json all = json::parse(run(folder, flags + "json").out);
  REQUIRE(all.size() == 2);
  CHECK(all[1].at("n_gen") == 4);
  CHECK(lines(run(folder, flags + "jsonl").out).size() == 2);
  const std::string csv = run(folder, flags + "csv").out;
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 3);
  CHECK_THAT(csv, Catch::StartsWith("build_commit,build_number,cpu_info,"));
  CHECK_THAT(run(folder, flags + "md").out, Catch::Contains("tg4"));
  const std::string error = run(folder, flags + "none -oe jsonl").error;  // may have warnings
  CHECK(lines(error.substr(std::min(error.find('{'), error.size()))).size() == 2);
}
