// Bad input is refused with what is wrong, before any work: files that are none, numbers that are
// none, empty names, outputs that would be lost.

#include <sys/stat.h>

#include <future>
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"
#include "tests/engine/gguf/gguf_fixture.hpp"
#include "tests/paths.hpp"

using namespace rigcast::cli_test;
using nlohmann::json;

namespace {

using Words = std::vector<std::string>;

std::string fifo(const Folder& folder) {
  const std::string name = folder / "fifo.toml";
  REQUIRE(mkfifo(name.c_str(), 0600) == 0);
  return name;
}

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("An output that cannot be written is refused before the work", "[cli][input]") {
  const Folder folder;
  const std::string missing = folder / "missing/out", directory = folder.path().string();
  for (const std::string& target : {missing, directory})
    for (const Words& words :
         {Words{"probe", "-o", target},
          Words{"run", "--model", "smollm2-135m", "--synthetic", "-o", target},
          Words{"run", "--model", "smollm2-135m", "--synthetic", "--trace", target},
          Words{"run", "--model", "smollm2-135m", "--synthetic", "--tokens",
                folder.write("ids", "1 2"), "--logits", target},
          Words{"validate", "--model", "smollm2-135m", "-o", target},
          Words{"calibrate", "--runs", "x", "-o", target},
          Words{"calibrate", "--own", "x", "--rig", "dual-rtx-3090", "-o", target},
          Words{"synth", "smollm2-135m", "-o", target}, quick({"--trace", target})}) {
      const Outcome o = run(words, {.time_limit = std::chrono::seconds(30)});
      INFO(words.front() << ": " << o.error);
      CHECK(o.exit == 3);
      CHECK(o.cpu_seconds < 2);
      CHECK(o.out.empty());
      CHECK(contains(o.error, target));
    }
  CHECK(folder.names() == Words{"ids"});
}

TEST_CASE("A folder for scratch files is made, or refused before the work", "[cli][input]") {
  const Folder folder;
  const std::string file = folder.write("file", "");
  for (const Words& words : {Words{"probe", "--scratch", file + "/x"},
                             Words{"validate", "--model", "smollm2-135m", "--scratch", file + "/x"},
                             Words{"validate", "--model", "smollm2-135m", "--keep", file + "/x"}}) {
    const Outcome o = run(words, {.time_limit = std::chrono::seconds(30)});
    INFO(o.error);
    CHECK(o.exit == 3);
    CHECK(contains(o.error, file + "/x"));
  }
  run({"probe", "--scratch", folder / "made/of/it"},
      {.interrupt_once = [&] { return fs::exists(folder / "made/of/it"); }});
  CHECK(fs::is_directory(folder / "made/of/it"));
}

TEST_CASE("Logits that cannot be written are an error, and so are logits of nothing",
          "[cli][input]") {
  const Folder folder;
  const Words words{"run", "--model", "smollm2-135m", "--synthetic"};
  check_refused(with(words, {"--logits", "/dev/full"}), {"--logits requires --tokens"});
  const Outcome o =
      run(with(words, {"--tokens", folder.write("ids", "1 2 3"), "--logits", "/dev/full"}));
  CHECK(o.exit == 3);
  CHECK(contains(o.error, "cannot write /dev/full"));
}

TEST_CASE("Standard output that is full ends every verb with 3, and help too", "[cli][input]") {
  const Folder folder;
  rigcast::engine::fixtures::write_sparse(
      rigcast::engine::fixtures::header_of(rigcast::engine::fixtures::tiny("llama"), "F16"),
      folder / "x.gguf");
  for (const Words& words :
       {Words{"--help"},
        {"--version"},
        {},
        {"simulate", "--help"},
        {"list", "gpus"},
        {"inspect", "llama-3.2-1b"},
        {"synth", "smollm2-135m", "--layers", "1", "-o", folder / "y.gguf"},
        {"plan", "--gpu", "rtx-3060-12gb", "--model", "llama-3.2-1b", "--quant", "Q4_K_M"},
        {"compare", "--gpus", "rtx-3060-12gb", "--model", "llama-3.2-1b", "--quant", "Q4_K_M"},
        {"sweep", "--gpu", "rtx-3060-12gb", "--model", "llama-3.2-1b"},
        {"run", "--weights", folder / "x.gguf", "--prompt-tokens", "4", "--output-tokens", "2",
         "--context", "64", "--repeat", "1"}}) {
    const Outcome o = run(words, {.standard_output = "/dev/full"});
    INFO((words.empty() ? "no verb" : words.front()) << ": " << o.error);
    CHECK(o.exit == 3);
    CHECK(contains(o.error, "cannot write to standard output"));
  }
}

TEST_CASE("Numbers that are none are refused with the form that is expected", "[cli][input]") {
  const Folder folder;
  const Words execute{"run", "--model", "smollm2-135m", "--synthetic"};
  const auto refused = [](const Words& words, const std::string& flag, const Words& values,
                          const std::string& form) {
    for (const std::string& value : values) {
      INFO(value);
      const Outcome o = run(with(words, {flag, value}));
      CHECK(o.exit == 2);
      CHECK(o.out.empty());
      CHECK(o.error.starts_with("rigcast: "));
      CHECK(contains(o.error, flag + ": expected " + form));
      CHECK(o.error.size() < 200);
    }
  };
  const Words none{"nan", "inf", "-1", "a", "1e400", "", " "};
  refused(execute, "--temperature", none, "a number from 0 to 100");
  refused(execute, "--top-p", none, "a number from 0 to 1");
  const Words not_whole{"nan", "inf", "-1", "a", "1.5", "0x10", "010", "99999999999999999999", ""};
  refused(execute, "--top-k", not_whole, "a whole number");
  refused(execute, "--seed", not_whole, "a whole number of at least 0");
  refused(execute, "--repeat", with(not_whole, {"0"}), "a whole number from 1 to 1000");
  refused(quick(), "--positions", {"nan", "-1", "a", "1.5", "1,b"}, "a whole number");
  refused({"synth", "smollm2-135m", "-o", folder / "x"}, "--layers", with(not_whole, {"0"}),
          "a whole number from 1");
  refused({"synth", "smollm2-135m", "-o", folder / "x"}, "--seed", not_whole, "a whole number");
  refused({"sweep"}, "--jobs", with(not_whole, {"0"}), "a whole number from 1 to 4096");
  refused({"calibrate"}, "--jobs", with(not_whole, {"0"}), "a whole number from 1 to 4096");
  refused({"validate"}, "--time-limit", with(not_whole, {"0"}), "a whole number from 1 to 86400");
  refused({"validate"}, "--repeat", with(not_whole, {"0"}), "a whole number from 1 to 1000");
  const Words buy{"compare", "--model", "llama-3.2-1b"};
  refused(buy, "--budget", none, "a number from 0.01");
  refused(buy, "--min-tps", none, "a number from 0");
  refused(buy, "--max-loss", none, "a number from 0 to 1000");
  for (const char* value : {"nan", "inf", "-1", "a"}) {
    check_refused(with(buy, {"--gpus", "rtx-3090", "--price", "rtx-3090=" + std::string(value)}),
                  {"--price"});
    check_refused(quick({"--tensor-split", value}), {"tensor-split"});
    check_refused(
        {"validate", "--against", "x.csv", "--fail-above", "tg_tps=" + std::string(value)},
        {"--fail-above"});
  }
  CHECK(folder.names().empty());
}

TEST_CASE("A time without a unit is answered with a time of a request", "[cli][input]") {
  check_refused({"plan", "--gpu", "rtx-3090", "--model", "llama-3.2-1b", "--max-ttft", "2"},
                {"--max-ttft: expected a time, got \"2\"", "for example \"2 s\""});
}

TEST_CASE("Lists and files without a name are refused", "[cli][input]") {
  const Words buy{"compare", "--model", "llama-3.2-1b"};
  for (const char* flag : {"--gpus", "--rigs"}) {
    for (const char* blank : {"", " "})
      check_refused(with(buy, {flag, blank}), {std::string(flag) + ": an empty value"});
    for (const char* list : {",", "rtx-3090,,rtx-4090", "rtx-3090,"})
      check_refused(with(buy, {flag, list}), {std::string(flag) + ": an item is empty"});
  }
  for (const char* flag : {"--base", "--prices", "-o"})
    check_refused(with(buy, {"--gpus", "rtx-3090", flag, ""}), {"an empty value"});
  check_refused(quick({"--trace", ""}), {"--trace: an empty value"});
  check_refused(quick({"--positions", ""}), {"--positions: an empty value"});
  check_refused({"probe", "-o", ""}, {"an empty value"});
  check_refused({"probe", "--scratch", ""}, {"an empty value"});
  check_refused({"validate", "--model", "smollm2-135m", "--keep", ""}, {"an empty value"});
  const Outcome spaced = run(with(
      buy, {"--gpus", " rtx-3060-12gb , 2xrtx-3090", "--quant", "Q4_K_M", "--format", "json"}));
  INFO(spaced.error);
  REQUIRE(spaced.exit == 0);
  CHECK(json::parse(spaced.out).at("rigs").size() == 2);
}

TEST_CASE("A position beyond the context is refused, one at its end is answered", "[cli][input]") {
  check_refused(quick({"--positions", "100,2049"}),
                {"--positions: 2,049 tokens exceed the context of 2,048", "--context 2049"});
  check_refused(quick({"--positions", "999999999"}), {"was trained on 131,072 tokens"});
  const Outcome o = run(quick({"--positions", "2048", "--format", "json"}));
  INFO(o.error);
  REQUIRE(o.exit == 0);
  CHECK(contains(o.out, "\"tokens\": 2048"));
}

TEST_CASE("What is no file is named by what it is, with one exit code for all", "[cli][input]") {
  const Folder folder;
  const std::string directory = folder.path().string(), pipe = fifo(folder);
  const std::map<std::string, std::string> kinds = {{directory, "is a directory"},
                                                    {"/dev/null", "is a device"},
                                                    {pipe, "is a pipe"},
                                                    {folder / "missing.toml", "missing.toml"}};
  for (const auto& [file, what] : kinds) {
    const std::vector<Words> commands = {
        {"simulate", file},
        {"plan", file},
        {"sweep", file},
        {"simulate", "--rig", file, "--model", "llama-3.2-1b"},
        {"compare", "--gpus", "rtx-3090", "--model", "llama-3.2-1b", "--prices", file},
        {"validate", "--against", file},
        {"validate", "--replay", file},
        {"validate", "--model", "smollm2-135m", "--bars", file},
        {"calibrate", "--against", file},
        {"calibrate", "--runs", file},
        {"calibrate", "--own", file, "--rig", "dual-rtx-3090"},
        {"run", "--model", "smollm2-135m", "--synthetic", "--tokens", file, "--logits",
         folder / "x"},
        {"inspect", "./" + fs::relative(file, fs::current_path()).string()}};
    // Beside each other: some wait for who writes to a pipe.
    std::vector<std::future<Outcome>> outcomes;
    for (const Words& words : commands)
      outcomes.push_back(std::async(std::launch::async, [&words] {
        return run(words, {.time_limit = std::chrono::seconds(20)});
      }));
    for (std::size_t i = 0; i < commands.size(); ++i) {
      const Words& words = commands[i];
      const bool is_folder_of_runs =
          file == directory &&
          (words[1] == "--replay" || words[1] == "--runs" || words[1] == "--own");
      const Outcome o = outcomes[i].get();
      if (words.front() == "inspect" && file == folder / "missing.toml")
        continue;  // a model's name
      INFO(words[0] << ' ' << words[1] << ": " << o.error);
      CHECK(o.exit == 2);
      CHECK(o.seconds < 10);
      CHECK(contains(o.error, is_folder_of_runs            ? "suite.toml"
                              : words.front() == "inspect" ? "is "
                                                           : what));
    }
  }
}

TEST_CASE("A scenario and measurements may come through a pipe", "[cli][input]") {
  const Folder folder;
  const std::string scenario =
      folder.write("s.toml", "[rig]\ngpu = 'rtx-3060-12gb'\n[model]\nname = 'llama-3.2-1b'\n");
  const auto piped = [&](const std::string& command) {
    const Folder place;
    const std::string all = "'" + rigcast::test::program() + "' " + command + " >" + place / "out";
    const int status = std::system(("bash -c \"" + all + "\"").c_str());
    CHECK(WEXITSTATUS(status) == 0);
    return read(place / "out");
  };
  const std::string plain = piped("simulate " + scenario + " --no-advice --format json");
  CHECK(piped("simulate /dev/stdin --no-advice --format json <" + scenario) == plain);
  CHECK(piped("simulate <(sleep 0.3; cat " + scenario + ") --no-advice --format json") == plain);
  const std::string rows = rigcast::test::source_path("/runtimes/measurements/benchmarks.csv");
  CHECK(contains(piped("validate --against <(head -60 " + rows + ") --format json"),
                 "rigcast.validation/1"));
}

TEST_CASE("A format is one of those that the verb has, by name", "[cli][input]") {
  check_refused(quick({"--format", "yaml"}),
                {"--format: expected text, json or csv, got \"yaml\""});
  check_refused(quick({"--format", "2"}), {"got \"2\""});
  check_refused({"calibrate", "--format", "csv"}, {"expected text or json"});
  CHECK(contains(run({"plan", "--help"}).out, "text, json or csv\n"));
}

TEST_CASE("What does not fit has no speed, not a speed of zero", "[cli][input]") {
  const Words large{"--gpu", "rtx-3060-12gb", "--model", "llama-3.1-405b", "--mmap",
                    "off",   "--quant",       "Q4_K_M",  "--format",       "json"};
  const Outcome o = run(with({"simulate", "--no-advice"}, large));
  CHECK(o.exit == 1);
  const json report = json::parse(o.out);
  CHECK(report.at("fits") == false);
  CHECK(report.at("decode").at("tokens_per_s").is_null());
  for (const auto& [name, time] : report.at("decode").at("tpot_s").items()) CHECK(time.is_null());
  CHECK(report.at("prefill_tokens_per_s").is_null());
  CHECK(report.at("bottleneck").at("decode").is_null());
  for (const auto& [resource, share] : report.at("utilisation").items()) CHECK(share.is_null());
  for (const auto& [route, bytes] : report.at("traffic_bytes").items()) CHECK(bytes.is_null());
  CHECK(report.at("memory").at(0).at("weights") > 0);

  const Outcome plan = run(with({"plan"}, large));
  CHECK(plan.exit == 1);
  const json none = json::parse(plan.out);
  CHECK(none.at("schema") == "rigcast.plan/1");
  CHECK(none.at("fits") == false);
  CHECK(none.at("choices").empty());
  CHECK(contains(none.at("reason").get<std::string>(), "does not fit in any of"));
  CHECK(contains(plan.error, none.at("reason").get<std::string>()));
  CHECK(contains(none.at("would_fit").get<std::string>(), "more RAM"));
}

TEST_CASE("A file without tensors is no model to inspect", "[cli][input]") {
  const Folder folder;
  rigcast::engine::fixtures::Raw empty;
  empty.begin(0, 0).pad();
  check_refused({"inspect", folder.write("a.gguf", empty.bytes)}, {"there are no tensors"});
  check_refused({"inspect", folder.write("b.gguf", "")}, {"is empty"});
}

TEST_CASE("A measured run is labelled with what it ran on", "[cli][input]") {
  const Words words{"run",
                    "--model",
                    "smollm2-135m",
                    "--synthetic",
                    "--prompt-tokens",
                    "8",
                    "--output-tokens",
                    "4",
                    "--repeat",
                    "1",
                    "--format",
                    "json"};
  const json own = json::parse(run(words).out);
  for (const Words& parts :
       {Words{"--rig", "dual-rtx-3090"}, Words{"--gpu", "rtx-3090", "--cpu", "ryzen-9-7950x"}}) {
    const Outcome o = run(with(words, parts));
    INFO(o.error);
    REQUIRE(o.exit == 0);
    const json report = json::parse(o.out);
    CHECK(report.at("origin") == "measured");
    CHECK(report.at("scenario").at("rig") == own.at("scenario").at("rig"));
    CHECK(report.at("scenario").at("rig").at("gpu_names").empty());
    CHECK(contains(report.at("scenario").at("rig").at("cpu_name").get<std::string>(),
                   "this machine"));
    CHECK(report.at("scenario").at("runtime").at("threads") ==
          own.at("scenario").at("runtime").at("threads"));
    CHECK(contains(report.at("warnings").dump(), "took no part"));
  }
  check_refused(with(words, {"--gpu", "rtx-4900"}), {"no GPU named \"rtx-4900\""});
  const Folder folder;
  check_refused({"validate", "--gpu", "rtx-4090", "--model", "smollm2-135m", "--device", "cpu",
                 "--keep", folder / "kept"},
                {"the rig has a", "and the run is on the CPU"});
}

TEST_CASE("A program that asks for JSON gets its error as JSON", "[cli][input]") {
  const Folder folder;
  const std::string file = folder / "s.toml";
  std::ofstream(file) << "[rig]\ngpu = \"rtx-3090\"\n[model]\nname = \"llama-3.2-1b\"\n"
                         "[kv]\npolicy = \"nowhere\"\n";
  const Outcome in_file = run({"simulate", file, "--format", "json"});
  CHECK(in_file.exit == 2);
  CHECK(contains(in_file.error, "policy"));
  const json of_file = json::parse(in_file.out);
  CHECK(of_file.at("schema") == "rigcast.error/1");
  const json& error = of_file.at("error");
  CHECK(error.at("kind") == "bad_input");
  CHECK(error.at("key") == "kv.policy");
  CHECK(error.at("file") == file);
  CHECK(error.at("line") == 6);
  CHECK(error.at("column").get<int>() > 0);

  const Outcome by_flag = run(with(quick({"--kv", "nowhere"}), {"--format=json"}));
  CHECK(by_flag.exit == 2);
  const json flag = json::parse(by_flag.out).at("error");
  CHECK(flag.at("line").is_null());
  CHECK(contains(flag.at("message").get<std::string>(), "nowhere"));

  const Outcome unread = run({"simulate", "--no-such-flag", "\xff", "--format", "json"});
  CHECK(unread.exit == 2);
  CHECK(json::parse(unread.out).at("error").at("key").is_null());

  const Outcome answered =
      run({"plan", "--gpu", "rtx-3060-12gb", "--ram", "2xddr4-3200:16GiB", "--model",
           "llama-3.1-70b", "--mmap", "off", "--quant", "Q2_K", "--format", "json"});
  CHECK(answered.exit == 1);
  CHECK(json::parse(answered.out).at("fits") == false);  // one document, with its reason
}
