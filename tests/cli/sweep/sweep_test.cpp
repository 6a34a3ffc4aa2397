// `rigcast sweep` as people type it.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/program.hpp"

using namespace rigcast::cli_test;

namespace {

using Words = std::vector<std::string>;

Outcome sweep(const Words& more, const How& how = {}) {
  Words words{"sweep", "--gpu", "rtx-3060-12gb", "--model", "llama-3.2-1b"};
  words.insert(words.end(), more.begin(), more.end());
  return run(words, how);
}

Words lines(const std::string& text) {
  Words out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

// Interrupts a sweep once it has written more lines to a file than were there.
How interrupted_once_it_writes(const std::string& part, std::vector<int> signals = {SIGINT}) {
  const auto size = [part] {
    std::error_code none;
    const auto bytes = fs::file_size(part, none);
    return none ? 0 : bytes;
  };
  How how;
  how.interrupt_once = [size, before = size()] { return size() > before; };
  how.signals = std::move(signals);
  return how;
}

const Words kSwept{"--set", "placement.gpu_layers=0..16", "--set", "model.quant=Q4_K_M,Q8_0,F16",
                   "--set", "workload.depth=0..3000:500"};  // 357 scenarios

}  // namespace

TEST_CASE("A sweep has a line for every combination, in order", "[cli][sweep]") {
  const Outcome o = sweep({"--set", "model.quant=Q4_K_M,F16", "--set", "workload.depth=0..20:10",
                           "--set", "kv.type_k=q8_0"});
  INFO(o.error);
  REQUIRE(o.exit == 0);
  const Words all = lines(o.out);
  REQUIRE(all.size() == 7);
  CHECK(all[0].starts_with("model.quant,workload.depth,fits,gpu_layers,tokens_per_s,"));
  CHECK(all[1].starts_with("Q4_K_M,0,true,17,"));
  CHECK(all[3].starts_with("Q4_K_M,20,true,"));
  CHECK(all[4].starts_with("F16,0,true,"));
}

TEST_CASE("Shards give the lines of the whole, whoever makes them", "[cli][sweep]") {
  const auto with = [](Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const Words whole = lines(sweep(with(kSwept, {"--jobs", "3"})).out);
  REQUIRE(whole.size() == 358);
  Words parts;
  for (const char* shard : {"1/3", "2/3", "3/3"}) {
    const Words part = lines(sweep(with(kSwept, {"--shard", shard, "--jobs", "1"})).out);
    CHECK(part.front() == whole.front());
    parts.insert(parts.end(), part.begin() + 1, part.end());
  }
  Words sorted(whole.begin() + 1, whole.end());
  std::ranges::sort(sorted);
  std::ranges::sort(parts);
  CHECK(parts == sorted);
}

TEST_CASE("An interrupted sweep continues where it stopped", "[cli][sweep]") {
  const Folder folder;
  const std::string file = folder / "out.csv";
  Words words = kSwept;
  words.insert(words.end(),
               {"--set", "workload.prompt_tokens=100..400:50", "-o", file, "--jobs", "1"});
  const Outcome first = sweep(words, interrupted_once_it_writes(file + ".part"));
  REQUIRE(first.exit == 3);
  CHECK(contains(first.error, "the same command goes on from there"));
  CHECK_FALSE(fs::exists(file));
  CHECK(fs::exists(file + ".part"));
  // Text that was cut off is made again.
  fs::resize_file(file + ".part", fs::file_size(file + ".part") - 10);
  REQUIRE(sweep(words).exit == 0);
  CHECK_FALSE(fs::exists(file + ".part"));
  words[words.size() - 3] = folder / "again.csv";
  REQUIRE(sweep(words).exit == 0);
  CHECK(read(file) == read(folder / "again.csv"));
}

TEST_CASE("What a sweep of something else left is thrown away only where that is asked for",
          "[cli][sweep]") {
  const Folder folder;
  const auto rig = [&](const std::string& bandwidth) {
    return folder.write("rig.toml",
                        "name = \"mine\"\nsource = \"a test\"\ngpu = [\"rtx-3060-12gb\"]\n"
                        "cpu = \"ryzen-7-5800x\"\nram_bandwidth = \"" +
                            bandwidth + " GB/s\"\n");
  };
  const std::string rig_file = rig("40"), file = folder / "out.csv", part = file + ".part";
  Words words{"sweep", "--rig", rig_file, "--model", "llama-3.2-1b", "--jobs", "1"};
  words.insert(words.end(), kSwept.begin(), kSwept.end());
  words.insert(words.end(), {"--set", "workload.prompt_tokens=100..1000:20", "-o", file});
  const auto interrupted = [&] {
    const Outcome o = run(words, interrupted_once_it_writes(part));
    INFO(o.error);
    REQUIRE(o.exit == 3);
    CHECK(contains(o.error, "the same command goes on from there"));
  };
  const auto refused = [&](const std::string& why) {
    const std::string before = read(part);
    const Outcome o = run(words);
    INFO(o.error);
    CHECK(o.exit == 2);
    CHECK(contains(o.error, why));
    CHECK(contains(o.error, "--restart"));
    CHECK(read(part) == before);
  };
  interrupted();
  const auto first = fs::file_size(part);
  interrupted();
  CHECK(fs::file_size(part) > first);
  rig("50");
  refused("rig, model or catalogue file has changed since " + part);
  words.push_back("--restart");
  interrupted();
  words.pop_back();
  words[words.size() - 3] = "workload.prompt_tokens=100..900:20";
  refused("pieces of another sweep");
  folder.write("out.csv.part", "1,2\n3,4\n");
  const Outcome foreign = run(words);
  CHECK(foreign.exit == 2);
  CHECK(contains(foreign.error, part + " is there and is no part of a sweep"));
  CHECK(read(part) == "1,2\n3,4\n");
}

TEST_CASE("What does not fit is a line that says so", "[cli][sweep]") {
  const Outcome o = sweep({"--set", "model.name=llama-3.2-1b,llama-3.1-405b", "--set",
                           "runtime.mmap=false", "--format", "json"});
  REQUIRE(o.exit == 0);
  const Words all = lines(o.out);
  REQUIRE(all.size() == 2);
  const auto ok = nlohmann::json::parse(all[0]), large = nlohmann::json::parse(all[1]);
  CHECK(ok.at("fits") == true);
  CHECK(ok.at("tokens_per_s") > 0);
  CHECK(large.at("fits") == false);
  CHECK(!large.at("error").get<std::string>().empty());
}

TEST_CASE("A value with which nothing can be forecast is refused before the sweep",
          "[cli][sweep]") {
  const Folder folder;
  for (const Words& bad :
       {Words{"--set", "model.quant=Q4_K_M,Q9"}, Words{"--set", "model.quant=Q9"},
        Words{"--set", "model.name=llama-3.2-1b,llama-3.1-8b", "--set", "model.quant=Q9,Q4_K_M"}}) {
    Words words = bad;
    words.insert(words.end(), {"-o", folder / "out.csv"});
    const Outcome o = sweep(words);
    INFO(o.error);
    CHECK(o.exit == 2);
    CHECK(contains(o.error, "Q9"));
  }
  CHECK(folder.names().empty());
  CHECK(contains(sweep({"--set", "workload.depth=0,-1,5"}).error, "workload.depth"));
}

TEST_CASE("Where only a combination makes no scenario, its line says why, and the end is 1",
          "[cli][sweep]") {
  const Outcome o = sweep({"--set", "model.name=llama-3.2-1b,llama-3.1-8b", "--set",
                           "placement.gpu_layers=2,30", "--format", "json"});
  INFO(o.error);
  CHECK(o.exit == 1);
  CHECK(contains(o.error, "1 of 4 combinations make no scenario"));
  const Words all = lines(o.out);
  REQUIRE(all.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto line = nlohmann::json::parse(all[i]);
    CHECK(line.at("gpu_layers").is_null() == (i == 1));
    CHECK(line.at("error").get<std::string>().empty() == (i != 1));
  }
}

TEST_CASE("A second sweep to the same output is refused while the first runs", "[cli][sweep]") {
  const Folder folder;
  const std::string file = folder / "out.csv";
  Words words = kSwept;
  words.insert(words.end(),
               {"--set", "workload.prompt_tokens=100..1000:10", "-o", file, "--jobs", "1"});
  Outcome second;
  const auto try_second = [&] {
    if (!fs::exists(file + ".part") || fs::file_size(file + ".part") < 100) return false;
    second = sweep(words);
    return true;
  };
  const Outcome first = sweep(words, {.interrupt_once = try_second});
  CHECK(first.exit == 3);
  INFO(second.error);
  CHECK(second.exit == 2);
  CHECK(contains(second.error, "another sweep, process "));
  CHECK(contains(second.error, file + ".part"));
  // A lock of a process that was killed is none.
  const Outcome killed = sweep(words, interrupted_once_it_writes(file + ".part", {SIGKILL}));
  CHECK(killed.exit == 128 + SIGKILL);
  CHECK(fs::exists(file + ".part"));
  const Outcome third = sweep(words, interrupted_once_it_writes(file + ".part"));
  INFO(third.error);
  CHECK(third.exit == 3);
  CHECK(contains(third.error, "the same command goes on from there"));
}

TEST_CASE("A sweep that makes no sense is refused", "[cli][sweep]") {
  CHECK(sweep({"--set", "model.quant"}).exit == 2);
  CHECK(sweep({"--set", "model.quant="}).exit == 2);
  CHECK(sweep({"--set", "model.quant=Q4_K_M,"}).exit == 2);
  CHECK(contains(sweep({"--set", "placement.gpu_layer=0..3"}).error, "did you mean gpu_layers"));
  CHECK(sweep({"--set", "workload.depth=0,1", "-o", "/"}).exit == 2);
  CHECK(sweep({"--set", "workload.depth=9..3"}).exit == 2);
  CHECK(sweep({"--set", "workload.depth=0..9:0"}).exit == 2);
  CHECK(sweep({"--set", "a.b=1,2", "--set", "a.b=3,4"}).exit == 2);
  CHECK(contains(sweep({"--set", "kv.policy=vram,ram", "--set", "kv.policy=ram"}).error,
                 "kv.policy: given twice"));
  for (const char* shard : {"0/2", "3/2", "1", "a/b", "1/0", "auto/0", "auto/x", "autos"})
    CHECK(sweep({"--set", "workload.depth=0,1", "--shard", shard}).exit == 2);
}
