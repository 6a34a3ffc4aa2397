// Generated command lines of all verbs with hostile files, names and numbers: none may end the
// program by a signal or a sanitizer's report, hang, or be answered where every answer is wrong.
// RIGCAST_HOSTILE=N runs N of them (scripts/nightly.sh), RIGCAST_HOSTILE_SEED=S another set.

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iostream>
#include <mutex>
#include <random>
#include <regex>
#include <set>
#include <thread>

#include "tests/cli/program.hpp"
#include "tests/engine/gguf/gguf_fixture.hpp"
#include "tests/paths.hpp"

using namespace rigcast::cli_test;

namespace {

using Words = std::vector<std::string>;

#if defined(__SANITIZE_ADDRESS__)
constexpr double kSlower = 8;
#else
constexpr double kSlower = 1;
#endif
constexpr double kMaxCpuSeconds = 5 * kSlower;
// Of the clock: besides the tests, other programs run here.
constexpr std::chrono::seconds kMaxTime{int(20 * kSlower)};

std::uint64_t number_of(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

// The same numbers everywhere; the library's distributions differ.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : bits_(seed) {}
  std::size_t below(std::size_t n) { return std::size_t(bits_() % n); }
  template <class T>
  const T& one_of(const std::vector<T>& all) {
    return all[below(all.size())];
  }

 private:
  std::mt19937_64 bits_;
};

struct Command {
  Words words;
  bool must_fail = false;  // an exit code of 0 would be a wrong answer
};

const Words kNames = {"rtx-4900",
                      "../../etc/passwd",
                      "0xrtx-3090",
                      "-1xrtx-3090",
                      "99999999999xrtx-3090",
                      "Q9_Z",
                      "NOPE",
                      "\xff\xfe",
                      "{}",
                      "%s%s%n",
                      "a\nb",
                      "\x1b[2J",
                      "日本語",
                      "$(id)",
                      "[[]]",
                      "nan",
                      "--",
                      "\"",
                      std::string(5000, 'a')};
const Words kNumbers = {"nan", "-nan", "inf", "-inf", "1e400", "-1", "-0.5", "0x", "1e",
                        "one", "",     " ",   "1 2",  "1,,2",  "९",  "--1",  "+",  "1.5.2"};
const Words kLargeNumbers = {"0",          "1",          "2147483648",           "4294967296",
                             "1000000000", "9007199254", "9223372036854775807",  "1e9",
                             "1048576",    "65535",      "18446744073709551616", "99999999999999"};
const Words kSizes = {"-1GiB", "nanGiB", "1e300GiB", "GiB", "1 XB", "12", "0 GiB", "1e-300GiB"};

std::string flipped(std::string text, Dice& dice, std::size_t within) {
  for (std::size_t i = 0, n = 1 + dice.below(8); i < n && !text.empty(); ++i)
    text[dice.below(std::min(within, text.size()))] ^= char(1 << dice.below(8));
  return text;
}

// Files as users have them, and what goes wrong with files.
struct Files {
  Folder folder;
  Words damaged;   // of all kinds, each of which may still be read
  Words no_files;  // what no verb can read
  std::string gguf = folder / "tiny.gguf", csv = folder / "runs.csv";
  std::string scenario = folder.write(
      "s.toml",
      "[rig]\ngpu = 'rtx-3060-12gb'\n[model]\nname = 'llama-3.2-1b'\n[workload]\ncontext = 2048\n");

  explicit Files(Dice& dice) {
    using namespace rigcast::engine;
    GgufHeader header = fixtures::header_of(fixtures::tiny("llama"), "F16");
    fixtures::set_tiny_vocabulary(header);
    header.set("tokenizer.ggml.eos_token_id", std::uint32_t(2));
    header.set("tokenizer.ggml.unknown_token_id", std::uint32_t(0));
    fixtures::write_sparse(header, gguf);
    std::istringstream all(
        read(rigcast::test::source_path("/runtimes/measurements/benchmarks.csv")));
    std::string head;
    for (std::string line; std::count(head.begin(), head.end(), '\n') < 40;)
      if (std::getline(all, line)) head += line + "\n";
    std::ofstream(csv) << head;
    const std::string rig = read(rigcast::test::source_path("/hwprofiles/rigs/dual-rtx-3090.toml"));
    const std::string json = R"([{"build_commit":"x","model_type":"llama 1B","n_gpu_layers":99,
      "n_prompt":512,"n_gen":0,"avg_ts":100.5,"gpu_info":"NVIDIA GeForce RTX 3090"}])";
    for (int i = 0; i < 12; ++i) {
      const std::string n = std::to_string(i);
      const auto damage = [&](const std::string& name, const std::string& text,
                              std::size_t within) {
        damaged.push_back(folder.write(n + name, flipped(text, dice, within)));
        damaged.push_back(folder.write(n + "cut" + name, text.substr(0, dice.below(text.size()))));
      };
      damage(".gguf", read(gguf), 4096);
      damage(".toml", read(scenario), 200);
      damage("rig.toml", rig, 500);
      damage(".csv", head, head.size());
      damage(".jsonl", json, json.size());
    }
    std::string noise;
    for (int i = 0; i < 4096; ++i) noise += char(dice.below(256));
    const std::string deep(200'000, '[');
    for (const auto& [name, text] :
         std::map<std::string, std::string>{{"noise", noise},
                                            {"deep", deep},
                                            {"line", "a = \"" + std::string(1 << 20, 'x') + "\""},
                                            {"utf16", std::string("\xff\xfe"
                                                                  "a\0=\0001\0",
                                                                  8)},
                                            {"zeros", std::string(5000, '\0')}})
      for (const char* form : {".toml", ".csv", ".json", ".gguf", ""})
        no_files.push_back(folder.write(name + form, text));
    fs::create_directory(folder / "folder.toml");
    fs::create_symlink("loop.toml", folder / "loop.toml");
    for (const char* name : {"fifo.toml", "unread"})
      REQUIRE(mkfifo((folder / name).c_str(), 0600) == 0);
    for (const char* name :
         {"folder.toml", "loop.toml", "fifo.toml", "missing.toml", "missing.gguf"})
      no_files.push_back(folder / name);
    no_files.insert(no_files.end(), {"/dev/null", "/dev/zero", "/dev/full", "/", "/dev/stdin"});
  }
};

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : dice_(seed), files_(dice_) {
    for (const auto& [verb, base] : bases()) flags_[verb] = flags_of(verb);
  }

  Command next() {
    switch (dice_.below(8)) {
      case 0: return no_input();
      case 1: return bad_number();
      case 2: return unknown_name();
      case 3: return lost_output();
      case 4: return empty_or_beyond();
      case 5: return damaged_file();
      default: return any_flags();
    }
  }
  std::string folder() const { return files_.folder.path().string(); }

 private:
  // What each verb answers quickly and well, with room for one flag more.
  std::map<std::string, Words> bases() const {
    const Words quick = {"--gpu", "rtx-3060-12gb", "--model", "llama-3.2-1b"};
    const auto with = [](Words a, const Words& b) {
      a.insert(a.end(), b.begin(), b.end());
      return a;
    };
    return {
        {"simulate", with({"--no-advice", "--context", "2048"}, quick)},
        {"plan", with({"--quant", "Q4_K_M", "--kv-type", "f16"}, quick)},
        {"compare", {"--model", "llama-3.2-1b", "--quant", "Q4_K_M", "--gpus", "rtx-3090"}},
        {"sweep", with({"--set", "workload.depth=0,100", "--jobs", "1"}, quick)},
        {"run",
         {"--weights", files_.gguf, "--prompt", "EF", "--output-tokens", "2", "--context", "64"}},
        {"validate", {"--against", files_.csv}},
        {"calibrate", {"--own", files_.csv, "--rig", "dual-rtx-3090"}},
        {"inspect", {files_.gguf}},
        {"synth", {"smollm2-135m", "--layers", "1", "-o", files_.folder / "synth.gguf"}},
        {"tokenize", {"--weights", files_.gguf, "EF"}},
        {"list", {"quants"}},
    };
  }

  static Words flags_of(const std::string& verb) {
    const std::string help = run({verb, "--help"}).out;
    const std::regex flag("--[a-z][a-z0-9-]+");
    std::set<std::string> found;
    for (std::sregex_iterator it(help.begin(), help.end(), flag), end; it != end; ++it)
      found.insert(it->str());
    // Those with which an answer takes long, or writes where it should not.
    for (const char* slow : {"--help", "--exact", "--budget", "--base", "--own", "--keep"})
      found.erase(slow);
    return {found.begin(), found.end()};
  }

  Words of(const std::string& verb, const Words& more) const {
    Words words = {verb};
    const Words base = bases().at(verb);
    words.insert(words.end(), base.begin(), base.end());
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  // Inputs that are no files, or of no form.
  Command no_input() {
    const std::string& file = dice_.one_of(files_.no_files);
    const std::vector<Words> uses = {
        {"simulate", file},
        {"plan", file},
        {"simulate", "--rig", file, "--model", "llama-3.2-1b"},
        {"simulate", "--gpu", "rtx-3090", "--model", file},
        of("compare", {"--prices", file}),
        {"sweep", file},
        {"validate", "--against", file},
        {"validate", "--replay", file},
        {"validate", "--suite", file},
        {"calibrate", "--against", file},
        {"calibrate", "--runs", file},
        {"calibrate", "--own", file, "--rig", "dual-rtx-3090"},
        {"inspect", file},
        {"run", "--weights", file, "--prompt-tokens", "4"},
        {"run", "--weights", files_.gguf, "--tokens", file, "--logits", folder() + "/logits"},
        {"tokenize", "--weights", file, "text"}};
    return {dice_.one_of(uses), true};
  }

  Command bad_number() {
    const std::vector<std::pair<std::string, Words>> flags = {
        {"simulate",
         {"--context", "--prompt-tokens", "--output-tokens", "--depth", "--users", "--batch",
          "--ubatch", "--threads", "--gpu-layers", "--positions", "--tensor-split", "--vram-limit",
          "--ram-limit", "--headroom", "--model-size", "--rate", "--turns"}},
        {"plan", {"--min-tps", "--max-loss", "--max-ttft"}},
        {"compare", {"--budget", "--min-tps", "--max-loss", "--max-ttft"}},
        {"sweep", {"--jobs", "--shard"}},
        {"run", {"--temperature", "--top-k", "--top-p", "--seed", "--repeat"}},
        {"validate", {"--fail-above", "--repeat", "--time-limit"}},
        {"synth", {"--layers", "--seed"}}};
    const auto& [verb, names] = dice_.one_of(flags);
    return {of(verb, {dice_.one_of(names), dice_.one_of(kNumbers)}), true};
  }

  Command unknown_name() {
    const std::string& name = dice_.one_of(kNames);
    const std::string good = dice_.below(2) == 0 ? "" : "Q4_K_M,";
    const std::vector<Words> uses = {{"simulate", "--gpu", name, "--model", "llama-3.2-1b"},
                                     {"simulate", "--rig", name, "--model", "llama-3.2-1b"},
                                     {"simulate", "--gpu", "rtx-3090", "--model", name},
                                     {"inspect", name},
                                     {"list", name},
                                     {name},
                                     of("simulate", {"--quant", name}),
                                     of("simulate", {"--kv-type", name}),
                                     of("simulate", {"--kv", name}),
                                     of("simulate", {"--runtime", name}),
                                     of("simulate", {"--format", name}),
                                     of("simulate", {"--start", name}),
                                     of("plan", {"--emit", name}),
                                     of("plan", {"--objective", name}),
                                     of("compare", {"--gpus", name}),
                                     of("compare", {"--rigs", name}),
                                     of("compare", {"--price", name}),
                                     of("sweep", {"--set", "model.quant=" + good + name}),
                                     of("sweep", {"--set", "rig.gpu=rtx-3090," + name}),
                                     of("run", {"--device", name})};
    return {dice_.one_of(uses), true};
  }

  Command lost_output() {
    const Words places = {folder() + "/missing/x",   folder(),  "/dev/full", folder() + "/unread",
                          folder() + "/tiny.gguf/x", "/proc/x", ""};
    const std::string& place = dice_.one_of(places);
    const std::vector<Words> uses = {
        of("simulate", {"-o", place}), of("simulate", {"--trace", place}),
        of("plan", {"-o", place}),     of("compare", {"-o", place}),
        of("sweep", {"-o", place}),    of("inspect", {"-o", place}),
        of("run", {"-o", place}),      of("run", {"--trace", place}),
        of("validate", {"-o", place}), {"synth", "smollm2-135m", "--layers", "1", "-o", place},
        of("tokenize", {"-o", place})};
    return {dice_.one_of(uses), true};
  }

  Command empty_or_beyond() {
    const std::vector<Words> uses = {
        of("compare", {"--gpus", ""}),
        of("compare", {"--gpus", "rtx-3090,,rtx-4090"}),
        of("compare", {"--rigs", ","}),
        of("compare", {"--prices", ""}),
        of("simulate", {"--trace", ""}),
        {"simulate", "--gpu", "rtx-3090", "--model", ""},
        {"simulate", "--rig", "", "--model", "llama-3.2-1b"},
        {"inspect", ""},
        of("simulate", {"--positions", std::to_string(2049 + dice_.below(1'000'000))}),
        of("simulate", {"--positions", "0," + std::to_string(2049 + dice_.below(1'000'000))}),
        of("sweep", {"--set", "model.quant=Q4_K_M,"}),
        of("sweep", {"--set", "workload.depth=0,-1"}),
        of("sweep", {"--set", "placement.gpu_layers=9..3"})};
    return {dice_.one_of(uses), true};
  }

  Command damaged_file() {
    const std::string& file = dice_.one_of(files_.damaged);
    const std::vector<Words> uses = {
        {"inspect", file},
        {"inspect", file, "--tensors", "--format", "json"},
        {"run", "--weights", file, "--prompt", "EF", "--output-tokens", "2", "--context", "64"},
        {"tokenize", "--weights", file, "EF"},
        {"simulate", file, "--no-advice"},
        {"simulate", "--gpu", "rtx-3090", "--model", file, "--no-advice"},
        {"simulate", "--rig", file, "--model", "llama-3.2-1b", "--no-advice"},
        {"validate", "--against", file},
        {"calibrate", "--own", file, "--rig", "dual-rtx-3090", "-o", folder() + "/own.toml"},
        {"validate", "--replay", file}};
    return {dice_.one_of(uses), false};
  }

  // Flags that fit the verb, with values that may fit nothing.
  Command any_flags() {
    auto it = flags_.begin();
    std::advance(it, std::ptrdiff_t(dice_.below(flags_.size())));
    Words more;
    for (std::size_t i = 0, n = dice_.below(3); i < n; ++i) {
      more.push_back(dice_.one_of(it->second));
      const std::vector<const Words*> values = {&kNames, &kNumbers,        &kLargeNumbers,
                                                &kSizes, &files_.no_files, &files_.damaged};
      if (dice_.below(8) != 0) more.push_back(dice_.one_of(*dice_.one_of(values)));
    }
    return {of(it->first, more), false};
  }

  Dice dice_;
  Files files_;
  std::map<std::string, Words> flags_;
};

std::string text_of(const Words& words) {
  std::string out = "rigcast";
  for (const std::string& word : words) out += " '" + word.substr(0, 200) + "'";
  return out;
}

// What is wrong with how the program ended; empty: nothing.
std::string complaint(const Command& command, const Outcome& o) {
  for (const char* report : {"ERROR: AddressSanitizer", "runtime error:", "LeakSanitizer"})
    if (contains(o.error, report)) return report;
  if (o.exit == 128 + SIGKILL) return "it hung";
  if (o.exit < 0 || o.exit > 3) return "exit code " + std::to_string(o.exit);
  if (o.cpu_seconds > kMaxCpuSeconds)
    return "it computed for " + std::to_string(o.cpu_seconds) + " s";
  if (command.must_fail && o.exit == 0) return "it was answered";
  if (o.exit >= 2 && !contains(o.error, "rigcast: ")) return "no word of what is wrong";
  return "";
}

}  // namespace

TEST_CASE("Hostile command lines are refused or answered, and nothing else", "[cli][hostile]") {
  const std::size_t count = number_of("RIGCAST_HOSTILE", 150);
  const std::uint64_t seed = number_of("RIGCAST_HOSTILE_SEED", 1);
  Generator generator(seed);
  std::vector<Command> commands;
  for (std::size_t i = 0; i < count; ++i) commands.push_back(generator.next());

  std::atomic<std::size_t> next = 0;
  std::map<int, int> exits;
  std::vector<std::string> complaints;
  std::mutex telling;
  const auto work = [&] {
    for (std::size_t i = next++; i < commands.size(); i = next++) {
      const Outcome o =
          run(commands[i].words, {.folder = generator.folder(), .time_limit = kMaxTime});
      const std::string why = complaint(commands[i], o);
      const std::lock_guard lock(telling);
      ++exits[o.exit];
      if (!why.empty())
        complaints.push_back(why + ": " + text_of(commands[i].words) + "\n" +
                             o.error.substr(0, 2000));
    }
  };
  {
    std::vector<std::jthread> workers;
    for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t)
      workers.emplace_back(work);
  }
  std::cout << "  seed " << seed << '\n';
  for (const auto& [code, n] : exits) std::cout << "  exit " << code << ": " << n << '\n';
  for (const std::string& text : complaints) FAIL_CHECK(text);
  CHECK(complaints.empty());
  CHECK(exits[0] > 0);  // else nothing was asked that makes sense
}
