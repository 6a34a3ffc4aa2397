// rigcast run, synth and tokenize as people call them.
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/gguf/writer.hpp"
#include "tests/catch.hpp"
#include "tests/cli/program.hpp"
#include "tests/engine/gguf/gguf_fixture.hpp"

using namespace rigcast;
using namespace rigcast::cli_test;
using nlohmann::json;

namespace {

constexpr const char* kModel = "smollm2-135m";

// The first two layers of a small model, about 20 MB.
std::string small_file(const Folder& folder, const std::vector<std::string>& more = {}) {
  const std::string file = folder / "small.gguf";
  std::vector<std::string> words = {"synth",    kModel, "--quant", "Q8_0",
                                    "--layers", "2",    "-o",      file};
  words.insert(words.end(), more.begin(), more.end());
  const Outcome o = run(words);
  CHECK(o.exit == 0);
  CHECK(o.error.empty());
  return file;
}

std::vector<float> npy_values(const std::string& file, std::size_t rows, std::size_t columns) {
  const std::string bytes = read(file);
  REQUIRE(bytes.size() > 128);
  CHECK(bytes.substr(0, 6) == "\x93NUMPY");
  const std::size_t header = std::size_t(std::uint8_t(bytes[8])) + 256u * std::uint8_t(bytes[9]);
  CHECK((10 + header) % 64 == 0);
  const std::string shape = "'shape': (" + std::to_string(rows) + ", " + std::to_string(columns);
  CHECK(bytes.substr(10, header).find(shape) != std::string::npos);
  std::vector<float> values(rows * columns);
  REQUIRE(bytes.size() == 10 + header + 4 * values.size());
  std::memcpy(values.data(), bytes.data() + 10 + header, 4 * values.size());
  return values;
}

std::string ids_file(const Folder& folder) {
  const std::string file = folder / "ids.txt";
  std::ofstream(file) << "1 2 3\n500,40000\n7\n";
  return file;
}

}  // namespace

TEST_CASE("A run from synthetic weights gives a measured report", "[cli][run]") {
  const Outcome o = run({"run", "--model", kModel, "--synthetic", "--prompt-tokens", "20",
                         "--output-tokens", "9", "--repeat", "2", "--format", "json"});
  REQUIRE(o.exit == 0);
  const json r = json::parse(o.out);
  CHECK(r["schema"] == "rigcast.report/1");
  CHECK(r["origin"] == "measured");
  CHECK(r["ttft"]["warm"].is_null());
  CHECK(r["ttft"]["cold"].is_null());
  const double first = r["ttft"]["resident"]["total_s"];
  CHECK(first > 0);
  CHECK(r["prefill_tokens_per_s"].get<double>() > 0);
  CHECK(r["measured"]["runs"] == 2);
  CHECK(r["measured"]["ceiling_bytes_per_s"].get<double>() > 1e8);
  CHECK(r["decode"]["by_position"].size() == 8);
  const json& last = r["decode"]["by_position"].back();
  CHECK(last["tokens"] == 28);  // itself included
  CHECK(last["spread"][0].get<double>() <= last["tokens_per_s"].get<double>() * 1.0001);
  const json& host = r["memory"][0];
  CHECK(host["weights"] == r["scenario"]["model"]["tensor_bytes"]);
  CHECK(host["total"].get<double>() >= host["weights"].get<double>());
  // Bytes of the request: at least its weights, once for the prompt and once for every next token.
  const double weights = r["scenario"]["model"]["tensor_bytes"];
  CHECK(r["traffic_bytes"]["ram"].get<double>() > 8 * weights);
}

TEST_CASE("A run from a file is timed cold, warm and resident", "[cli][run]") {
  const Folder folder;
  const std::string file = small_file(folder);
  const Outcome o = run({"run", "--weights", file, "--prompt-tokens", "20", "--output-tokens", "5",
                         "--repeat", "1", "--format", "json", "--trace", folder / "trace.json"});
  INFO(o.error);
  REQUIRE(o.exit == 0);
  const json r = json::parse(o.out);
  for (const char* start : {"cold", "warm"}) {
    CHECK(r["ttft"][start]["breakdown_s"]["load"].get<double>() > 0);
    CHECK(r["ttft"][start]["breakdown_s"]["prefill"].get<double>() > 0);
  }
  CHECK(r["scenario"]["model"]["layers"] == 2);
  const json trace = json::parse(read(folder / "trace.json"));
  CHECK(trace["traceEvents"].size() > 30);
  bool told = false;
  for (const json& w : r["warnings"])
    told = told || w.get<std::string>().find("traced run") != std::string::npos;
  CHECK(told);
}

TEST_CASE("A file and memory hold the same weights for the same seed", "[cli][run]") {
  const Folder folder;
  const std::string ids = ids_file(folder);
  const auto logits = [&](std::vector<std::string> more) {
    const std::string out = folder / "out.npy";
    std::vector<std::string> words = {"run", "--tokens", ids, "--logits", out};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome o = run(words);
    INFO(o.error);
    REQUIRE(o.exit == 0);
    return npy_values(out, 6, 49152);
  };
  const std::string file = folder / "whole.gguf";
  REQUIRE(run({"synth", kModel, "--quant", "Q4_0", "--seed", "5", "-o", file}).exit == 0);
  const auto from_file = logits({"--weights", file});
  const auto from_seed =
      logits({"--model", kModel, "--quant", "Q4_0", "--synthetic", "--seed", "5"});
  CHECK(from_file == from_seed);
  CHECK(logits({"--weights", file, "--threads", "1"}) == from_file);
  CHECK(logits({"--weights", file, "--set", "kv.block_tokens=16"}) == from_file);
  CHECK(logits({"--model", kModel, "--quant", "Q4_0", "--synthetic", "--seed", "6"}) != from_file);
  for (const float v : from_file) REQUIRE(std::isfinite(v));
}

TEST_CASE("Equal seeds give equal files", "[cli][synth]") {
  const Folder folder;
  const auto made = [&](const char* seed) {
    const std::string file = folder / "x.gguf";
    REQUIRE(run({"synth", kModel, "--layers", "1", "--seed", seed, "-o", file}).exit == 0);
    return read(file);
  };
  const std::string one = made("1");
  CHECK(made("1") == one);
  CHECK(made("2") != one);
}

TEST_CASE("An interrupted run ends in good order", "[cli][run]") {
  using namespace std::chrono_literals;
  const Folder folder;
  const std::vector<std::string> words = {"run",
                                          "--model",
                                          kModel,
                                          "--synthetic",
                                          "--output-tokens",
                                          "2000",
                                          "--repeat",
                                          "1000",
                                          "--context",
                                          "4096",
                                          "--format",
                                          "json",
                                          "-o",
                                          folder / "kept.json",
                                          "--trace",
                                          folder / "trace.json"};
  for (const auto after : {20ms, 200ms, 1500ms}) {
    const Outcome o = run(words, {.interrupt_after = after});
    INFO(after.count() << " ms: " << o.error);
    // Before the program listens, the signal ends it; before a run is over, there is nothing to
    // say.
    REQUIRE((o.exit == 128 + SIGINT || o.exit == 3 || o.exit == 0));
    if (o.exit == 3) CHECK(contains(o.error, "interrupted"));
    CHECK(std::filesystem::exists(folder / "kept.json") == (o.exit == 0));
    CHECK_FALSE(std::filesystem::exists(folder / "trace.json"));
    if (o.exit != 0) continue;
    const json r = json::parse(read(folder / "kept.json"));
    CHECK(contains(r["warnings"].dump(), "interrupted: fewer runs or tokens"));
    CHECK(contains(r["warnings"].dump(), "no trace"));
    CHECK(r["decode"]["tokens_per_s"].get<double>() > 0);
    CHECK(r["measured"]["runs"].get<int>() < 1000);
    std::filesystem::remove(folder / "kept.json");
  }
  CHECK(std::filesystem::is_empty(folder / ""));
}

TEST_CASE("Interrupted logits leave nothing behind", "[cli][run]") {
  using namespace std::chrono_literals;
  const Folder folder, out;
  std::ofstream ids(folder / "ids.txt");
  for (int i = 0; i < 8000; ++i) ids << i << '\n';
  ids.close();
  const Outcome o = run({"run", "--model", kModel, "--synthetic", "--context", "8192", "--tokens",
                         folder / "ids.txt", "--logits", out / "logits.npy"},
                        {.interrupt_once = [&] {
                          std::this_thread::sleep_for(20ms);
                          return !std::filesystem::is_empty(out / "");  // they are being written
                        }});
  CHECK(o.exit == 3);
  CHECK(contains(o.error, "interrupted before all logits were written"));
  CHECK(std::filesystem::is_empty(out / ""));
}

TEST_CASE("No GPU: it is said why, and what runs without", "[cli][run]") {
  const Outcome o = run({"run", "--model", kModel, "--synthetic", "--device", "cuda"},
                        {.environment = {{"CUDA_VISIBLE_DEVICES", ""}}});
  CHECK(o.exit == 3);
  CHECK(o.out.empty());
  CHECK(contains(o.error, "--device cuda: "));
  CHECK(contains(o.error, "--device cpu"));
}

TEST_CASE("No GPU: a bad value is told first, the user can mend it", "[cli][run]") {
  const auto with = [](std::vector<std::string> more) {
    std::vector<std::string> words = {"run", "--model", kModel, "--synthetic", "--device", "cuda"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words, {.environment = {{"CUDA_VISIBLE_DEVICES", ""}}});
  };
  const Outcome typo = with({"--kv", "pagd"});
  CHECK(typo.exit == 2);
  CHECK(contains(typo.error, "pagd"));
  CHECK_FALSE(contains(typo.error, "--device cpu"));
  const Outcome right = with({"--kv", "paged"});
  CHECK(right.exit == 3);
  CHECK(contains(right.error, "--device cpu"));
}

TEST_CASE("A file of random weights has a tokenizer for any text", "[cli][run]") {
  const Folder folder;
  const std::string file = small_file(folder);
  const std::string text = "Hi, world: \xC3\xBC 12\n";
  const Outcome tokens = run({"tokenize", "--weights", file, text});
  REQUIRE(tokens.exit == 0);
  CHECK(contains(tokens.out, "<s>"));
  const Outcome answer = run({"run", "--weights", file, "--prompt", text, "--output-tokens", "3",
                              "--repeat", "1", "--format", "json"});
  INFO(answer.error);
  CHECK(answer.exit == 0);
}

TEST_CASE("A vocabulary that is not understood ends only what needs one", "[cli][run]") {
  const Folder folder;
  const std::string file = small_file(folder, {"--no-vocabulary"});
  CHECK(contains(run({"inspect", file}).out, "no_vocab"));
  std::string bytes = read(file);
  const auto at = bytes.find("no_vocab");
  REQUIRE(at != std::string::npos);
  const std::vector<std::string> ids = {
      "run", "--weights", file, "--prompt-tokens", "4", "--output-tokens", "2", "--repeat", "1"};
  const std::vector<std::string> text = {"run", "--weights", file, "--prompt", "Hi"};
  CHECK(run(ids).exit == 0);
  CHECK(contains(run(text).error, "there is no vocabulary"));
  // A kind as long as "no_vocab", which the file has no tokens of.
  bytes.replace(at, 8, "bert_two");
  std::ofstream(file, std::ios::binary) << bytes;
  CHECK(run(ids).exit == 0);
}

TEST_CASE("Tokens of a kind that is not understood end only what needs them", "[cli][run]") {
  const Folder folder;
  const std::string file = folder / "x.gguf";
  auto header =
      rigcast::engine::fixtures::header_of(rigcast::engine::fixtures::tiny("llama"), "F16");
  std::vector<std::string> tokens;
  for (int i = 0; i < 40; ++i) tokens.push_back("word" + std::to_string(i));
  header.set("tokenizer.ggml.model", "rwkv");
  header.set("tokenizer.ggml.tokens", tokens);
  header.set("tokenizer.ggml.eos_token_id", std::uint32_t(2));
  rigcast::engine::fixtures::write_sparse(header, file);
  std::ofstream(folder / "ids.txt") << "1 2 3 4";
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"run", "--weights", file, "--context", "64"});
    return run(words);
  };
  CHECK(with({"--prompt-tokens", "4", "--output-tokens", "2", "--repeat", "1"}).exit == 0);
  CHECK(with({"--tokens", folder / "ids.txt", "--logits", folder / "o.npy"}).exit == 0);
  const Outcome text = with({"--prompt", "word1", "--output-tokens", "2"});
  INFO(text.error);
  CHECK(text.exit == 2);
  CHECK(contains(text.error, "rwkv"));
  CHECK(contains(text.error, "--prompt-tokens"));
}

TEST_CASE("An answer continues to the end of a context shorter than the default prompt",
          "[cli][run]") {
  const Folder folder;
  auto spec = rigcast::engine::fixtures::tiny("llama");
  spec.context = 64;
  auto header = rigcast::engine::fixtures::header_of(spec, "F16");
  rigcast::engine::fixtures::set_tiny_vocabulary(header);
  header.set("tokenizer.ggml.add_bos_token", false);
  header.set("tokenizer.ggml.add_space_prefix", false);
  rigcast::engine::fixtures::write_sparse(header, folder / "x.gguf");
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"run", "--weights", folder / "x.gguf", "--format", "json"});
    return run(words);
  };
  const Outcome o = with({"--prompt", "EFG"});
  INFO(o.error);
  REQUIRE(o.exit == 0);
  const json workload = json::parse(o.out)["scenario"]["workload"];
  CHECK(workload["prompt_tokens"] == 3);
  CHECK(workload["output_tokens"] == 61);
  CHECK(workload["context"] == 64);
  CHECK(with({"--prompt", ""}).exit == 2);
  CHECK(contains(with({"--prompt", "EF", "--prompt-tokens", "2"}).error, "--prompt-tokens"));
  CHECK(contains(with({"--prompt", "EF", "--tokens", "x"}).error, "--tokens"));
}

TEST_CASE("A text of which the vocabulary has no token is refused", "[cli][run]") {
  const Folder folder;
  auto header =
      rigcast::engine::fixtures::header_of(rigcast::engine::fixtures::tiny("llama"), "F16");
  std::vector<std::string> tokens;
  for (int i = 0; i < 40; ++i) tokens.push_back("word" + std::to_string(i));
  header.set("tokenizer.ggml.model", "gpt2");
  header.set("tokenizer.ggml.pre", "gpt-2");
  header.set("tokenizer.ggml.tokens", tokens);
  header.set("tokenizer.ggml.merges", std::vector<std::string>{});
  rigcast::engine::fixtures::write_sparse(header, folder / "x.gguf");
  const Outcome o = run({"run", "--weights", folder / "x.gguf", "--prompt", "?!"});
  INFO(o.error);
  CHECK(o.exit == 2);
  CHECK(contains(o.error, "--prompt: the vocabulary has no token for any of the text"));
}

TEST_CASE("Positions past the context of the training are said to be that", "[cli][run]") {
  const Folder folder;
  const std::string file = small_file(folder);
  std::string bytes = read(file);
  const std::string key = "llama.context_length";
  const auto at = bytes.find(key);
  REQUIRE(at != std::string::npos);
  const std::uint32_t context = 5;
  bytes.replace(at + key.size() + 4, 4, reinterpret_cast<const char*>(&context), 4);
  std::ofstream(file, std::ios::binary) << bytes;
  const std::string said = "trained on 5 positions";
  const Outcome logits =
      run({"run", "--weights", file, "--tokens", ids_file(folder), "--logits", folder / "o.npy"});
  INFO(logits.error);
  CHECK(logits.exit == 0);
  CHECK(contains(logits.error, said));
  const Outcome timed = run({"run", "--weights", file, "--prompt-tokens", "8", "--output-tokens",
                             "2", "--repeat", "1", "--context", "64"});
  CHECK(timed.exit == 0);
  CHECK(contains(timed.out + timed.error, said));
}

TEST_CASE("What cannot be run is said before any work", "[cli][run]") {
  const Folder folder;
  const auto refused = [&](std::vector<std::string> words, int exit, const std::string& said) {
    words.insert(words.begin(), "run");
    const Outcome o = run(words);
    INFO(said << " in " << o.error);
    CHECK(o.exit == exit);
    CHECK(o.out.empty());
    CHECK(o.error.find(said) != std::string::npos);
  };
  refused({"--model", kModel}, 2, "no weights");
  refused({"--model", "gemma-3n-e2b", "--synthetic"}, 2, "not executed");
  refused({"--model", kModel, "--synthetic", "--device", "tpu"}, 2, "--device");
  refused({"--model", kModel, "--synthetic", "--prompt", "Hi"}, 2, "vocabulary");
  refused({"--model", kModel, "--synthetic", "--kv", "paged"}, 2, "paged");
  refused({"--model", kModel, "--synthetic", "--vram-limit", "8GiB"}, 2, "--vram-limit");
  refused({"--model", kModel, "--synthetic", "--vram-limit", "8GiB"}, 2, "--device cuda");
  refused({"--model", "llama-3.1-405b", "--synthetic", "--quant", "F16"}, 1, "(weights ");
  refused({"--model", "llama-3.1-405b", "--synthetic", "--quant", "F16"}, 1, "are free");
  refused({"--weights", folder / "none.gguf"}, 2, "none.gguf");
  refused({"--model", kModel, "--synthetic", "--tokens", ids_file(folder)}, 2, "--logits");
  std::ofstream(folder / "bad.txt") << "1 2\n3 x\n";
  refused({"--model", kModel, "--synthetic", "--tokens", folder / "bad.txt", "--logits",
           folder / "o.npy"},
          2, "bad.txt:2:3");
  std::ofstream(folder / "big.txt") << "49152\n";
  refused({"--model", kModel, "--synthetic", "--tokens", folder / "big.txt", "--logits",
           folder / "o.npy"},
          2, "from 0 to 49151");
  refused({"--model", kModel, "--synthetic", "--tokens", ids_file(folder), "--logits",
           folder / "none/o.npy"},
          3, "o.npy");
}

TEST_CASE("A limit of the host's memory is kept", "[cli][run]") {
  const auto limited = [&](const char* limit, std::vector<std::string> more = {}) {
    std::vector<std::string> words = {
        "run", "--model",         kModel, "--synthetic",     "--quant", "Q8_0",        "--repeat",
        "1",   "--prompt-tokens", "20",   "--output-tokens", "9",       "--ram-limit", limit};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  const Outcome small = limited("64 MiB");
  INFO(small.error);
  CHECK(small.exit == 1);
  CHECK(small.out.empty());
  CHECK(contains(small.error, "of memory are needed (weights "));
  CHECK(contains(small.error, "KV cache "));
  CHECK(contains(small.error, "64.0 MiB are free by --ram-limit"));
  // The context's memory counts before it is allocated.
  const Outcome deep = limited("400 MiB", {"--depth", "30000", "--context", "32768"});
  CHECK(deep.exit == 1);
  CHECK(contains(deep.error, "KV cache "));
  const Outcome enough = limited("400 MiB", {"--format", "json"});
  INFO(enough.error);
  REQUIRE(enough.exit == 0);
  const json host = json::parse(enough.out)["memory"][0];
  CHECK(host["capacity"] == 400.0 * 1024 * 1024);
  CHECK(host["total"].get<double>() <= host["capacity"].get<double>());
  CHECK(host["weights"].get<double>() > 1e8);
  CHECK(host["kv"].get<double>() > 1e6);
}
