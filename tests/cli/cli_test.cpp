// Outputs and exit codes of the program: help, mistakes, answers.

#include <algorithm>
#include <sstream>

#include "tests/cli/program.hpp"
#include "tests/paths.hpp"

using namespace rigcast::cli_test;

namespace {

const std::string kScenario =
    "[rig]\n"
    "gpu = \"rtx-3060-12gb\"\n"
    "ram_bandwidth = \"64 GiB\"\n"
    "[model]\n"
    "name = \"llama-3.2-1b\"\n";

}  // namespace

TEST_CASE("Every verb has help, and it ends well", "[cli]") {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--help"},
                                                {"simulate", "--help"},
                                                {"plan", "--help"},
                                                {"inspect", "--help"},
                                                {"list", "--help"},
                                                {"show", "--help"},
                                                {"simulate", "-h"}}) {
    const Outcome o = run(words);
    CHECK(o.exit == 0);
    CHECK(o.error.empty());
    CHECK(o.out.size() > 100);
  }
  const Outcome o = run({"--help"});
  for (const char* verb : {"simulate", "plan", "inspect", "list"}) CHECK(contains(o.out, verb));
}

TEST_CASE("help VERB is VERB --help", "[cli]") {
  CHECK(run({"help"}).out == run({"--help"}).out);
  const Outcome o = run({"help", "plan"});
  CHECK(o.exit == 0);
  CHECK(o.out == run({"plan", "--help"}).out);
  check_refused({"help", "paln"}, {"no verb named \"paln\"", "did you mean plan"});
}

TEST_CASE("The context is -c, too, as in llama.cpp", "[cli]") {
  const Outcome o = run({"simulate", "--gpu", "rtx-3060-12gb", "--model", "llama-3.2-1b", "-c",
                         "2048", "--no-advice", "--format", "json"});
  INFO(o.error);
  CHECK(o.exit == 0);
  CHECK(contains(o.out, "\"context\": 2048"));
}

TEST_CASE("Unified memory is one memory, of which the GPU may use a part", "[cli]") {
  const Outcome o = run({"simulate", "--rig", "mac-studio-m4-max-36gb", "--model", "qwen3-32b",
                         "--quant", "Q6_K", "--context", "16384", "--no-advice"});
  INFO(o.out << o.error);
  CHECK(contains(o.out, "\n  memory    36.0"));
  CHECK(contains(o.out, "\n  GPU       27.0"));
  CHECK(contains(o.out, "GPU: the part of the memory that it may use"));
  CHECK_FALSE(contains(o.out, "\n  RAM "));
  CHECK(contains(o.out, "iogpu.wired_limit_mb="));
  // With the limit that it names, all layers are on the GPU.
  const auto at = o.out.find("rig.gpu_share=");
  REQUIRE(at != std::string::npos);
  const Outcome raised =
      run({"simulate", "--rig", "mac-studio-m4-max-36gb", "--model", "qwen3-32b", "--quant", "Q6_K",
           "--context", "16384", "--no-advice", "--set", o.out.substr(at, 19)});
  INFO(raised.out << raised.error);
  CHECK(contains(raised.out, "fits in unified memory"));
  CHECK_FALSE(contains(raised.out, "iogpu.wired_limit_mb"));
}

TEST_CASE("inspect says what its cache of a window lacks", "[cli]") {
  CHECK(contains(run({"inspect", "gemma-3-27b"}).out, "llama.cpp keeps a ubatch more"));
  CHECK_FALSE(contains(run({"inspect", "llama-3.1-8b"}).out, "ubatch"));
}

TEST_CASE("The help of simulate names every flag of a scenario", "[cli]") {
  const std::string help = run({"simulate", "--help"}).out;
  for (const char* flag : {"--rig",
                           "--gpu",
                           "--cpu",
                           "--ram",
                           "--ssd",
                           "--pcie",
                           "--model",
                           "--quant",
                           "--gpu-layers",
                           "--cpu-moe",
                           "--kv",
                           "--kv-type",
                           "--decode-device",
                           "--prompt-tokens",
                           "--output-tokens",
                           "--context",
                           "--depth",
                           "--users",
                           "--start",
                           "--batch",
                           "--ubatch",
                           "--threads",
                           "--flash-attn",
                           "--backend",
                           "--build",
                           "--mmap",
                           "--op-offload",
                           "--split-mode",
                           "--model-size",
                           "--runtime",
                           "--vram-limit",
                           "--ram-limit",
                           "--set",
                           "--exact",
                           "--positions",
                           "--format",
                           "--output",
                           "--trace",
                           "--numa",
                           "--rate",
                           "--load",
                           "--turns",
                           "--slo"}) {
    INFO(flag);
    const auto at = help.find(flag);
    REQUIRE(at != std::string::npos);
    // As a word of its own, not as the beginning of another flag.
    bool whole = false;
    for (auto i = at; i != std::string::npos; i = help.find(flag, i + 1)) {
      const char next = help[i + std::string(flag).size()];
      whole = whole || next == ' ' || next == '\n' || next == ',';
    }
    CHECK(whole);
  }
}

TEST_CASE("The version is one line", "[cli]") {
  const Outcome o = run({"--version"});
  CHECK(o.exit == 0);
  CHECK(o.out.rfind("rigcast ", 0) == 0);
  CHECK(std::count(o.out.begin(), o.out.end(), '\n') == 1);
}

TEST_CASE("Without a verb the help is shown, and the exit says that nothing was done", "[cli]") {
  const Outcome o = run({});
  CHECK(o.exit == 2);
  CHECK(contains(o.out + o.error, "simulate"));
}

TEST_CASE("An unknown GPU gets the screen for it", "[cli]") {
  check_refused(
      {"simulate", "--gpu", "rtx-4900", "--model", "llama-3.1-8b"},
      {"no GPU named \"rtx-4900\"", "\n  did you mean rtx-4090", "rigcast list gpus shows all "});
}

TEST_CASE("Unknown names of every kind say what is near or what there is", "[cli]") {
  check_refused({"simulate", "--model", "lama-3.1-8b", "--gpu", "rtx-3090"}, {"llama-3.1-8b"});
  check_refused(quick({"--quant", "Q4_K_X"}), {"Q4_K"});
  check_refused(quick({"--kv", "paged"}), {"it has vram, ram, spill"});
  check_refused(quick({"--kv", "pagde"}), {"vram, ram, stream, paged, combined, spill"});
  check_refused(quick({"--kv-type", "q9"}), {"KV type"});
  check_refused(quick({"--runtime", "rigcats"}), {"did you mean rigcast?"});
  check_refused(quick({"--start", "hot"}), {"resident, warm, cold"});
  check_refused(quick({"--flash-attn", "yes"}), {"on or off"});
  check_refused(quick({"--format", "yaml"}), {"--format"});
  check_refused({"inspect", "lama-3.1-8b"}, {"llama-3.1-8b"});
  check_refused({"list", "cards"}, {"gpus"});
}

TEST_CASE("A forecast for rigcast says which models rigcast itself does not run", "[cli]") {
  const auto said = [](const char* model, const char* runtime) {
    const Outcome o = run({"simulate", "--gpu", "h100-sxm", "--model", model, "--runtime", runtime,
                           "--no-advice", "--format", "json"});
    CHECK(o.exit == 0);
    return o.out.find("a forecast alone, rigcast run refuses it: models of the architecture") !=
           std::string::npos;
  };
  CHECK(said("kimi-linear-48b-a3b", "rigcast"));
  CHECK_FALSE(said("kimi-linear-48b-a3b", "llama.cpp"));
  CHECK_FALSE(said("qwen3.5-0.8b", "rigcast"));
}

TEST_CASE("An empty name is refused, not taken for a machine or a model", "[cli]") {
  constexpr const char* kWhy = ": an empty value (an unset shell variable?)";
  for (const char* flag : {"--rig", "--gpu", "--cpu", "--ram", "--ssd", "--pcie", "--model",
                           "--quant", "--model-size", "--kv", "--runtime", "--start", "--trace"})
    check_refused({"simulate", flag, ""}, {std::string(flag) + kWhy});
  for (const char* gpus : {",", "rtx-3090,", ",rtx-3090"})
    check_refused({"simulate", "--gpu", gpus, "--model", "phi-4"}, {std::string("--gpu") + kWhy});
  check_refused(quick({"--tensor-split", " "}), {std::string("--tensor-split") + kWhy});
  check_refused(quick({"--set", "rig.cpu="}), {"--set rig.cpu=", kWhy});
  check_refused(quick({"-o", ""}), {"--output", kWhy});
  check_refused({"simulate", ""}, {"scenario", kWhy});
  check_refused({"inspect", ""}, {"model", kWhy});
  check_refused({"compare", "--gpus", "", "--model", "phi-4"}, {"--gpus", kWhy});
}

TEST_CASE("Kits of RAM without sense are refused", "[cli]") {
  check_refused(quick({"--ram", "-2xddr5-6000:64GiB"}), {"--ram", "2xddr5-6000:64GiB"});
  check_refused(quick({"--ram", "2xddr9-6000:64GiB"}), {"--ram", "ddr2 to ddr5"});
}

TEST_CASE("An empty rig file is refused", "[cli]") {
  const Folder folder;
  for (const char* text : {"", "# nothing yet\n"})
    check_refused({"simulate", "--rig", folder.write("rig.toml", text), "--model", "phi-4"},
                  {"rig.toml says nothing of a machine"});
}

TEST_CASE("Unknown flags and verbs are refused", "[cli]") {
  check_refused(quick({"--contxt", "4096"}), {"--contxt"});
  check_refused({"simluate"}, {"simluate"});
  check_refused({"list"}, {});
  check_refused({"inspect"}, {});
}

TEST_CASE("Absurd numbers are refused by the flag's name", "[cli]") {
  for (const char* flag : {"--context", "--prompt-tokens", "--output-tokens", "--batch", "--ubatch",
                           "--threads", "--users"}) {
    for (const char* value : {"0", "-1", "1e9", "many", "99999999999999999999", ""}) {
      INFO(flag << " " << value);
      check_refused({"simulate", "--gpu", "rtx-3060-12gb", "--model", "llama-3.2-1b", flag, value},
                    {flag});
    }
  }
  check_refused(quick({"--vram-limit", "12"}), {"--vram-limit", "the unit is missing"});
  check_refused(quick({"--ram-limit", "12 GB/s"}), {"--ram-limit", "expected a size"});
  check_refused(quick({"--gpu-layers", "1000"}), {"--gpu-layers"});
  check_refused(quick({"--cpu-moe", "3"}), {"--cpu-moe", "no experts"});
  check_refused(quick({"--positions", "-5"}), {"--positions"});
}

TEST_CASE("Verbs that forecast one request refuse a load", "[cli]") {
  for (const std::vector<std::string>& load : std::vector<std::vector<std::string>>{
           {"--users", "2"}, {"--rate", "0.5"}, {"--load", "chat"}, {"--slo", "ttft=2s"}}) {
    std::vector<std::string> one = {"explain", "--gpu", "rtx-3060-12gb", "--model", "llama-3.2-1b"};
    one.insert(one.end(), load.begin(), load.end());
    check_refused(one, {"--users", "one request is"});
  }
}

TEST_CASE("Flags of a load are refused by their names", "[cli]") {
  check_refused(quick({"--load", "chatt"}), {"--load", "no load named \"chatt\"", "chat"});
  check_refused(quick({"--load", "no-such.csv"}), {"--load", "no-such.csv"});
  check_refused(quick({"--rate", "nan"}), {"--rate", "out of range"});
  check_refused(quick({"--turns", "0"}), {"--turns", "out of range"});
  check_refused(quick({"--slo", "ttft=2"}), {"--slo", "the unit is missing"});
  check_refused(quick({"--slo", "mlperf-lama"}), {"--slo", "mlperf-"});
}

TEST_CASE("A wrong unit in a file is shown at its line and column", "[cli]") {
  const Folder folder;
  check_refused({"simulate", folder.write("my-rig.toml", kScenario)},
                {"my-rig.toml:3:17: rig.ram_bandwidth: expected a rate, got \"64 GiB\"",
                 "\n  write a rate, for example \"64 GB/s\""});
}

TEST_CASE("Broken and missing files say where or which", "[cli]") {
  const Folder folder;
  check_refused({"simulate", folder.write("broken.toml", "[rig\n")}, {"broken.toml:1:"});
  check_refused({"simulate", folder / "missing.toml"}, {"missing.toml"});
  check_refused({"simulate", folder.path().string()}, {"is a directory"});
  check_refused({"simulate", folder.write("empty.toml", "")}, {"empty.toml:1:1: rig"});
}

TEST_CASE("A key that is set wins over the file, and its errors name the option", "[cli]") {
  const Folder folder;
  const std::string file = folder.write("s.toml", kScenario);
  const Outcome good = run({"simulate", file, "--set", "rig.ram_bandwidth=40 GB/s", "--set",
                            "workload.output_tokens=16", "--no-advice", "--format", "json"});
  INFO(good.error);
  CHECK(good.exit == 0);
  CHECK(contains(good.out, "\"output_tokens\": 16"));
  check_refused({"simulate", file, "--set", "rig.ram_bandwidth=40 GB"},
                {"--set rig.ram_bandwidth", "expected a rate"});
  check_refused({"simulate", file, "--set", "kv.treshold=0.9", "--ram-limit", "32 GiB", "--set",
                 "rig.ram_bandwidth=40 GB/s"},
                {"treshold", "did you mean threshold?"});
  check_refused({"simulate", file, "--set", "nonsense"}, {"KEY=VALUE"});
  check_refused({"simulate", file, "--set", "=1"}, {"KEY=VALUE"});
}

TEST_CASE("A flag wins over the file too", "[cli]") {
  const Folder folder;
  const std::string file = folder.write(
      "s.toml", "[rig]\ngpu = 'rtx-3090'\n[model]\nname = 'phi-4'\n[workload]\ncontext = 512\n");
  const Outcome o = run({"simulate", file, "--model", "llama-3.2-1b", "--context", "2048",
                         "--output-tokens", "8", "--no-advice", "--format", "json"});
  INFO(o.error);
  CHECK(o.exit == 0);
  CHECK(contains(o.out, "\"name\": \"llama-3.2-1b\""));
  CHECK(contains(o.out, "\"context\": 2048"));
}

TEST_CASE("What does not fit ends with 1 and says by how much, and where", "[cli]") {
  const Outcome o = run({"simulate", "--gpu", "rtx-3060-12gb", "--ram", "2xddr4-3200:32GiB",
                         "--model", "llama-3.1-405b", "--no-advice", "--mmap", "off"});
  INFO(o.out << o.error);
  CHECK(o.exit == 1);
  CHECK(contains(o.out, "does not fit"));
  CHECK(contains(o.out, "GiB"));
  CHECK(contains(o.out, "RAM"));
}

TEST_CASE("Text for people stays within 100 columns and about 40 lines", "[cli]") {
  const Outcome o = run(quick());
  REQUIRE(o.exit == 0);
  std::istringstream lines(o.out);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto width =
        std::count_if(line.begin(), line.end(), [](char c) { return (c & '\xC0') != '\x80'; });
    INFO(line);
    CHECK(width <= 100);
  }
  CHECK(count <= 45);
  CHECK(contains(o.out, "tok/s"));
  CHECK(contains(o.out, "first token"));
}

TEST_CASE("The catalogue is found from any folder and without a home", "[cli]") {
  const Folder folder;
  const Outcome o = run(quick({"--output-tokens", "8"}),
                        {.environment = {{"HOME", std::nullopt}, {"RIGCAST_DATA", std::nullopt}},
                         .folder = folder.path().string()});
  INFO(o.error);
  CHECK(o.exit == 0);
  CHECK(folder.names().empty());
}

TEST_CASE("A catalogue that is not there is said clearly", "[cli]") {
  for (const char* where : {"/no/such/folder", "/dev/null"}) {
    const Outcome o = run({"list", "gpus"}, {.environment = {{"RIGCAST_DATA", where}}});
    INFO(where << ": " << o.error);
    CHECK(o.exit >= 2);
    CHECK(o.exit <= 3);
    CHECK(o.out.empty());
    CHECK(contains(o.error, "no catalogue"));
    CHECK(contains(o.error, "RIGCAST_DATA"));
  }
}

TEST_CASE("A catalogue elsewhere is used where it is named", "[cli]") {
  const Outcome o =
      run({"list", "runtimes"}, {.environment = {{"RIGCAST_DATA", rigcast::test::source_dir()}}});
  CHECK(o.exit == 0);
  CHECK(contains(o.out, "llama.cpp"));
}
