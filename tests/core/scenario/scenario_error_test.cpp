// Every bad value is refused where it stands, with what would be right.

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/scenario/scenario.hpp"
#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"

using namespace rigcast;
using fixtures::contains;
using fixtures::error_of;

namespace {

// The error of the full scenario with one line replaced.
std::string with(const std::string& key, const std::string& value) {
  std::string text = fixtures::kFullScenario;
  const auto begin = text.find("\n" + key + " = ") + 1;
  REQUIRE(begin != 0);
  text.replace(begin, text.find('\n', begin) - begin, key + " = " + value);
  return error_of(text);
}

// It says what is wrong at the key's line and column.
void check_refused(const std::string& key, const std::string& value, const std::string& expected) {
  const std::string error = with(key, value);
  INFO(key << " = " << value << " gave: " << error);
  CHECK(contains(error, expected));
  const std::string& text = fixtures::kFullScenario;
  const auto at = text.find("\n" + key + " = ") + 1;
  const auto line = 1 + std::count(text.begin(), text.begin() + std::ptrdiff_t(at), '\n');
  CHECK(error.substr(0, error.find(": ")) ==
        "s.toml:" + std::to_string(line) + ":" + std::to_string(key.size() + 4));
}

}  // namespace

TEST_CASE("Unknown parts are refused with the nearest known ones", "[scenario]") {
  check_refused("gpu", "['rtx-4900']", "did you mean rtx-4090");
  check_refused("cpu", "'core-i7-8701'", "core-i7-8700");
  check_refused("ram", "'fast'", "2xddr5-6000:64GiB");
  check_refused("ssd", "'sata-sdd'", "sata-ssd");
  check_refused("pcie", "'fast'", "\"4x16\"");
  check_refused("os", "'dos'", "linux, windows, wsl2, macos");
  check_refused("gpu", "['17xrtx-3090']", "at most 16 GPUs");
  check_refused("gpu", "['0xrtx-3090']", "GPU");
  check_refused("gpu", "['rtx-3090', '16xrtx-3090']", "at most 16 GPUs");
  check_refused("pcie", "['3x16', '3x16']", "2 links for 1 GPUs");
}

TEST_CASE("Unknown models, mixes and runtimes are refused with the nearest ones", "[scenario]") {
  const std::string rig = "[rig]\ngpu = 'rtx-3060-12gb'\n";
  CHECK(contains(error_of(rig + "[model]\nname = 'llama-3.1-9b'\n"), "llama-3.1-8b"));
  CHECK(contains(error_of(rig + "[model]\nname = 'llama-3.1-9b'\n"), "s.toml:4:8: model.name"));
  CHECK(contains(error_of(rig + "[model]\nname = 'phi-4'\nquant = 'Q4_K_N'\n"), "Q4_K_M"));
  CHECK(contains(error_of(rig + "[model]\nname = 'phi-4'\n[runtime]\nname = 'llama.ccp'\n"),
                 "llama.cpp"));
  CHECK(contains(error_of("[rig]\nname = 'dual-rtx-3091'\n[model]\nname = 'phi-4'\n"),
                 "dual-rtx-3090"));
}

TEST_CASE("A KV policy that does not exist, or that the runtime lacks, names those it has",
          "[scenario]") {
  check_refused("policy", "'pagd'", "vram, ram, stream, paged, combined, spill");
  check_refused("policy", "'spill'", "it has vram, ram, stream, paged, combined");
  const std::string error =
      error_of("[rig]\ngpu = 'rtx-3060-12gb'\n[model]\nname = 'phi-4'\n[kv]\npolicy = 'paged'\n");
  CHECK(contains(error, "s.toml:6:10: kv.policy: llama.cpp has no KV policy \"paged\""));
  CHECK(contains(error, "it has vram, ram, spill"));
}

TEST_CASE("Unknown KV types are refused with the nearest ones", "[scenario]") {
  check_refused("type_k", "'q9_0'", "q8_0");
  check_refused("type_v", "'f17'", "f16");
  check_refused("cold_type", "'q2_k'", "q");
}

TEST_CASE("A KV type whose blocks do not divide the model's heads is refused", "[scenario]") {
  namespace fs = std::filesystem;
  const fs::path root = fs::temp_directory_path() / ("rigcast-odd-" + std::to_string(getpid()));
  fs::create_directories(root / "models");
  for (const char* folder : {"hwprofiles", "runtimes"})
    fs::create_directory_symlink(fixtures::catalogue().root() / folder, root / folder);
  std::ofstream(root / "models/odd.toml")
      << "name = 'Odd'\narchitecture = 'llama'\nsource = 'made up'\nlayers = 2\nhidden = 640\n"
         "heads = 8\nkv_heads = 8\nhead_dim = 80\nffn = 1280\nvocabulary = 1000\ncontext = 4096\n";
  const auto error = [&](const std::string& kv) {
    const auto document = TomlDocument::parse(
        "[rig]\ngpu = 'rtx-4090'\n[model]\nname = 'odd'\n[runtime]\nname = 'rigcast'\n[kv]\n" + kv,
        "s.toml");
    REQUIRE(document);
    const auto made = make_scenario(*document, Catalogue(root));
    return made ? "" : made.error().text();
  };
  CHECK(error("type_k = 'f16'\n").empty());
  CHECK(contains(error("type_k = 'q8_0'\n"),
                 "s.toml:8:10: kv.type_k: KV type q8_0 has blocks of 32"));
  CHECK(contains(error("type_v = 'q4_0'\n"), "kv.type_v"));
  CHECK(contains(error("cold_type = 'q4_0'\n"), "kv.cold_type"));
  fs::remove_all(root);
}

TEST_CASE("Zero, negative and absurd counts are refused with their range", "[scenario]") {
  for (const char* key : {"threads", "batch", "ubatch", "prompt_tokens", "output_tokens", "context",
                          "users", "block_tokens"}) {
    check_refused(key, "0", "out of range");
    check_refused(key, "-1", "out of range");
    check_refused(key, "9223372036854775807", "out of range");
  }
  check_refused("threshold", "0", "out of range");
  check_refused("threshold", "1.01", "out of range");
  check_refused("threshold", "nan", "out of range");
  check_refused("hot_tokens", "-1", "out of range");
  check_refused("cpu_moe_layers", "33", "out of range");
}

TEST_CASE("Figures without units, and with impossible ones, are refused", "[scenario]") {
  check_refused("vram_reserved", "300", "as text");
  check_refused("vram_reserved", "'300'", "the unit is missing");
  check_refused("vram_reserved", "'-1 GiB'", "negative");
  check_refused("vram_reserved", "'300 GB/s'", "expected a size");
  check_refused("ram", "'2xddr4-2666:32'", "the unit is missing");
  const std::string rest = "[model]\nname = 'phi-4'\n";
  for (const char* figure :
       {"ram_bandwidth = '64 GiB'", "ram_bandwidth = '1 B/s'", "vram_capacity = '1 B'",
        "vram_capacity = '1e20 GiB'", "pcie_latency = '2 s'", "gpu_share = 1.5", "gpu_share = 0",
        "ssd_read = 'inf GB/s'", "cpu_cores = 0", "gpu_fp16 = '1 GB/s'", "numa_nodes = 0",
        "numa_nodes = 2", "node_read = 'nan GB/s'", "remote_read = '-1 GB/s'",
        "remote_read = 'inf GB/s'"}) {
    INFO(figure);
    const std::string error =
        error_of("[rig]\ngpu = 'rtx-4090'\n" + std::string(figure) + "\n" + rest);
    CHECK(error.substr(0, 9) == "s.toml:3:");
  }
}

TEST_CASE("More GPU layers than the model has are refused with the most it takes", "[scenario]") {
  check_refused("gpu_layers", "34", "32 layers and the output head");
  check_refused("gpu_layers", "-1", "out of range");
  check_refused("gpu_layers", "'most'", "\"auto\"");
  check_refused("gpu_layers", "1.5", "whole number");
  CHECK(with("gpu_layers", "33").empty());
}

TEST_CASE("A tensor split has one share for every GPU, and adds up to something", "[scenario]") {
  check_refused("tensor_split", "[1, 1]", "2 shares for 1 GPUs");
  check_refused("tensor_split", "[-1]", "list of numbers");
  check_refused("tensor_split", "'half'", "list of numbers");
  const std::string two = "[rig]\ngpu = '2xrtx-3090'\n[model]\nname = 'phi-4'\n[placement]\n";
  CHECK(contains(error_of(two + "tensor_split = [1]\n"), "1 shares for 2 GPUs"));
  CHECK(contains(error_of(two + "tensor_split = [0, 0]\n"), "add up to nothing"));
  CHECK(error_of(two + "tensor_split = [0, 1]\n").empty());
}

TEST_CASE("Experts in RAM make no sense for a model without experts", "[scenario]") {
  check_refused("cpu_moe_layers", "1", "has no experts");
  CHECK(error_of("[rig]\ngpu = 'rtx-4090'\n[model]\nname = 'mixtral-8x7b'\n"
                 "[placement]\ncpu_moe_layers = 32\n")
            .empty());
}

TEST_CASE("FFNs are apart only where a runtime can do it, and of dense models", "[scenario]") {
  check_refused("cpu_ffn_layers", "33", "out of range");
  const std::string rig = "[rig]\ngpu = 'rtx-4090'\n[model]\n";
  const std::string one = "[placement]\ncpu_ffn_layers = 1\n";
  CHECK(error_of(rig + "name = 'llama-3.1-8b'\n" + one).empty());
  CHECK(contains(error_of(rig + "name = 'mixtral-8x7b'\n" + one), "has experts"));
  CHECK(contains(error_of(rig + "name = 'llama-3.1-8b'\n" + one + "[runtime]\nname = 'rigcast'\n"),
                 "keeps an FFN with the rest"));
}

TEST_CASE("A token cannot be routed to experts that there are not", "[scenario]") {
  const std::string rig = "[rig]\ngpu = 'rtx-4090'\n[model]\n";
  const std::string moe = rig + "name = 'qwen3-30b-a3b'\nexperts_used = ";
  for (const char* bad : {"0", "-1", "129", "1.5", "'few'"}) {
    INFO(bad);
    CHECK(contains(error_of(moe + bad + "\n"), "s.toml:5:16: model.experts_used"));
  }
  const std::string dense = error_of(rig + "name = 'phi-4'\nexperts_used = 1\n");
  CHECK(contains(dense, "s.toml:5:16: model.experts_used: "));
  CHECK(contains(dense, "has no experts"));
}

TEST_CASE("A NUMA placement is one of four", "[scenario]") {
  check_refused("numa", "'interleave'", "none, distribute, isolate or mirror");
  check_refused("numa", "''", "none, distribute, isolate or mirror");
  check_refused("numa", "'numactl'", "distribute is numactl --interleave=all");
  check_refused("numa", "true", "");
  check_refused("cpu_blas", "'on'", "");
  CHECK(with("numa", "'none'").empty());
  for (const char* policy : {"none", "distribute", "isolate", "mirror"})
    CHECK(error_of("[rig]\ngpu = 'rtx-3060-12gb'\n[model]\nname = 'phi-4'\n[runtime]\nnuma = '" +
                   std::string(policy) + "'\n")
              .empty());
}

TEST_CASE("What a runtime or backend cannot do is refused by name", "[scenario]") {
  const std::string start = "[rig]\ngpu = 'rtx-3060-12gb'\n[model]\nname = 'phi-4'\n[runtime]\n";
  CHECK(contains(error_of(start + "name = 'rigcast'\nnuma = 'mirror'\n"),
                 "places nothing by memory node"));
  CHECK(contains(error_of(start + "matrix_units = false\n"),
                 "cuda multiplies on the matrix units of every GPU that has some"));
  CHECK(error_of(start + "backend = 'vulkan'\nmatrix_units = false\n").empty());
}

TEST_CASE("A decode device that the runtime cannot do names the way out", "[scenario]") {
  const std::string head = "[rig]\ngpu = 'rtx-4090'\n[model]\nname = 'phi-4'\n[placement]\n";
  CHECK(contains(error_of(head + "decode_device = 'cpu'\n"), "--runtime rigcast"));
  CHECK(contains(error_of(head + "gpu_layers = 10\ndecode_device = 'gpu'\n"), "--runtime rigcast"));
  check_refused("decode_device", "'tpu'", "gpu, cpu");
}

TEST_CASE("Missing tables and keys are named", "[scenario]") {
  CHECK(contains(error_of(""), "s.toml:1:1: rig: "));
  CHECK(contains(error_of(""), "--gpu"));
  CHECK(contains(error_of("[rig]\ngpu = 'rtx-4090'\n"), "s.toml:1:1: model: "));
  CHECK(contains(error_of("[rig]\ngpu = 'rtx-4090'\n"), "--model"));
  CHECK(contains(error_of("[rig]\n[model]\n"), "s.toml:2:1: model.name: this key is missing"));
}

TEST_CASE("A name of nothing is refused like any other unknown name", "[scenario]") {
  for (const char* name : {"''", "' '", "'-'"}) {
    CHECK(contains(with("name", name), "no model named"));
    CHECK(contains(with("ssd", name), "no SSD named"));
    CHECK(contains(with("cpu", name), "no CPU named"));
  }
}

TEST_CASE("Unknown keys are refused in every table", "[scenario]") {
  for (const char* table : {"rig", "model", "placement", "kv", "runtime", "workload"}) {
    std::string text = fixtures::kFullScenario;
    const std::string header = std::string("[") + table + "]\n";
    text.replace(text.find(header), header.size(), header + "not_a_key = 1\n");
    CHECK(contains(error_of(text), std::string(table) + ".not_a_key: unknown key"));
  }
  CHECK(contains(error_of(fixtures::kFullScenario + "[workloads]\n"), "did you mean workload?"));
}

TEST_CASE("A server with a pool of blocks needs a GPU", "[scenario]") {
  const std::string error = error_of(
      "[rig]\ncpu = 'core-i7-8700'\nram = '2xddr4-2666:32GiB'\n[model]\nname = 'llama-3.2-1b'\n"
      "quant = 'BF16'\n[runtime]\nname = 'vllm'\n");
  CHECK(contains(error, "runtime.name: "));
  CHECK(contains(error, "on GPUs alone"));
}

TEST_CASE("Servers with a pool of blocks keep no experts and no FFNs in RAM", "[scenario]") {
  for (const std::string runtime : {"vllm", "sglang", "tensorrt-llm"}) {
    INFO(runtime);
    const auto refusal = [&](const std::string& model, const std::string& placement) {
      return error_of("[rig]\ngpu = 'h100-sxm'\n[model]\nquant = 'BF16'\nname = '" + model +
                      "'\n[runtime]\nname = '" + runtime + "'\n[placement]\n" + placement + "\n");
    };
    CHECK(contains(refusal("qwen3-30b-a3b", "cpu_moe_layers = 24"), "placement.cpu_moe_layers: "));
    CHECK(contains(refusal("qwen3-30b-a3b", "cpu_moe_layers = 24"), "has all weights on the GPU"));
    CHECK(contains(refusal("llama-3.1-8b", "cpu_ffn_layers = 8"), "has all weights on the GPU"));
    CHECK(refusal("qwen3-30b-a3b", "cpu_moe_layers = 0").empty());
  }
}
