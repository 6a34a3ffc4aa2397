// The forms in which answers come: JSON, CSV, files, traces, colours; and what list and inspect
// show.

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/cli/program.hpp"
#include "tests/paths.hpp"

using namespace rigcast::cli_test;
using nlohmann::json;

namespace {

json report(const std::vector<std::string>& more = {}) {
  auto words = quick({"--format", "json"});
  words.insert(words.end(), more.begin(), more.end());
  const Outcome o = run(words);
  INFO(o.error);
  REQUIRE(o.exit == 0);
  return json::parse(o.out);
}

void check_keys(const json& object, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    INFO(key << " in " << object.dump().substr(0, 200));
    CHECK(object.contains(key));
  }
}

std::size_t lines_of(const std::string& text) {
  return std::size_t(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_CASE("The JSON report has every key of the contract", "[cli]") {
  const json r = report();
  CHECK(r.at("schema") == "rigcast.report/1");
  CHECK(r.at("origin") == "predicted");
  check_keys(r, {"scenario", "ttft", "prefill_tokens_per_s", "decode", "memory", "timeline",
                 "cliffs", "bottleneck", "utilisation", "traffic_bytes", "interval", "inputs",
                 "advice", "fits", "errors", "warnings"});
  check_keys(r.at("ttft"), {"resident", "warm", "cold"});
  for (const char* start : {"resident", "warm", "cold"}) {
    const json& t = r.at("ttft").at(start);
    if (t.is_null()) continue;
    check_keys(t, {"total_s", "breakdown_s"});
    const json& parts = t.at("breakdown_s");
    check_keys(parts, {"load", "tokenize", "transfer", "prefill", "sample"});
    double sum = 0;
    for (const auto& [name, seconds] : parts.items()) sum += seconds.get<double>();
    CHECK(t.at("total_s").get<double>() == Approx(sum));
  }
  check_keys(r.at("decode"), {"tokens_per_s", "tpot_s", "by_position"});
  check_keys(r.at("decode").at("tpot_s"), {"mean", "p50", "p90", "p99"});
  REQUIRE_FALSE(r.at("decode").at("by_position").empty());
  check_keys(r.at("decode").at("by_position").at(0),
             {"tokens", "tokens_per_s", "tpot_s", "bound_by"});
  REQUIRE_FALSE(r.at("memory").empty());
  for (const json& d : r.at("memory")) {
    check_keys(d, {"device", "tier", "weights", "kv", "activations", "staging", "page_cache",
                   "overhead", "total", "capacity"});
    CHECK(std::set<std::string>{"vram", "ram", "ssd"}.contains(d.at("tier").get<std::string>()));
    double sum = 0;
    for (const char* item : {"weights", "kv", "activations", "staging", "page_cache", "overhead"})
      sum += d.at(item).get<double>();
    CHECK(d.at("total").get<double>() == Approx(sum).margin(8));
  }
  if (!r.at("timeline").empty()) check_keys(r.at("timeline").at(0), {"tokens", "device", "total"});
  for (const char* phase : {"prefill", "decode"})
    check_keys(r.at("bottleneck").at(phase), {"resource", "share"});
  check_keys(r.at("interval"), {"tokens_per_s", "ttft_s", "prefill_tokens_per_s"});
  check_keys(r.at("inputs"), {"measured", "fitted", "published", "spec", "assumed"});
  check_keys(r.at("scenario"), {"rig", "model", "placement", "kv", "runtime", "workload"});
  CHECK(r.at("fits") == true);
  CHECK(r.at("decode").at("tokens_per_s").get<double>() > 1.0);
}

TEST_CASE("Intervals hold their figure, and shares are shares", "[cli]") {
  const json r = report();
  const auto inside = [](const json& interval, double value) {
    if (interval.is_null()) return true;
    return interval.at(0).get<double>() <= value && value <= interval.at(1).get<double>();
  };
  CHECK(inside(r.at("interval").at("tokens_per_s"), r.at("decode").at("tokens_per_s")));
  CHECK(inside(r.at("interval").at("prefill_tokens_per_s"), r.at("prefill_tokens_per_s")));
  for (const auto& [resource, share] : r.at("utilisation").items()) {
    INFO(resource);
    CHECK(share.get<double>() >= 0.0);
    CHECK(share.get<double>() <= 1.0 + 1e-6);
  }
}

TEST_CASE("A cliff and advice have the keys of the contract", "[cli]") {
  const Outcome o =
      run({"simulate", "--gpu", "rtx-3060-12gb", "--model", "llama-3.1-8b", "--context", "16384",
           "--output-tokens", "64", "--gpu-layers", "20", "--format", "json"});
  REQUIRE(o.exit == 0);
  const json r = json::parse(o.out);
  for (const json& cliff : r.at("cliffs"))
    check_keys(cliff, {"at_tokens", "before_tokens_per_s", "after_tokens_per_s", "cause", "device",
                       "tier", "until_tokens"});
  REQUIRE_FALSE(r.at("advice").empty());
  for (const json& a : r.at("advice"))
    check_keys(a, {"change", "tokens_per_s", "ttft_s", "gain", "flags", "loss_nats"});
}

TEST_CASE("What does not fit is JSON too, with the reason in its errors", "[cli]") {
  const Outcome o = run({"simulate", "--gpu", "rtx-3060-12gb", "--model", "llama-3.1-405b",
                         "--mmap", "off", "--no-advice", "--format", "json"});
  CHECK(o.exit == 1);
  const json r = json::parse(o.out);
  CHECK(r.at("fits") == false);
  CHECK_FALSE(r.at("errors").empty());
}

TEST_CASE("The same question has the same answer", "[cli]") {
  CHECK(run(quick({"--format", "json"})).out == run(quick({"--format", "json"})).out);
}

TEST_CASE("Speed is reported at the positions asked for", "[cli]") {
  const json positions = report({"--positions", "600,1000,1500"}).at("decode").at("by_position");
  std::set<int> tokens;
  for (const json& p : positions) tokens.insert(p.at("tokens").get<int>());
  for (const int wanted : {600, 1000, 1500}) {
    INFO(wanted << " in " << positions.dump());
    CHECK(tokens.contains(wanted));
  }
}

TEST_CASE("CSV has a header and as many fields in every line", "[cli]") {
  const Outcome o = run(quick({"--format", "csv"}));
  REQUIRE(o.exit == 0);
  std::istringstream lines(o.out);
  std::string header;
  REQUIRE(std::getline(lines, header));
  const auto fields = std::count(header.begin(), header.end(), ',');
  CHECK(fields >= 3);
  int rows = 0;
  for (std::string line; std::getline(lines, line); ++rows)
    CHECK(std::count(line.begin(), line.end(), ',') >= fields);
  CHECK(rows > 0);
}

TEST_CASE("A result is written to a file completely, and no other file is left", "[cli]") {
  const Folder folder;
  const std::string file = folder.write("r.json", "an older and much longer result than this one");
  const Outcome o = run(quick({"--format", "json", "--output", file}));
  CHECK(o.exit == 0);
  CHECK(o.out.empty());
  CHECK(json::parse(read(file)).at("schema") == "rigcast.report/1");
  CHECK(folder.names() == std::vector<std::string>{"r.json"});
}

TEST_CASE("A file that cannot be written ends with 3 and says what and why", "[cli]") {
  const Folder folder;
  const std::string occupied = folder / "folder";
  fs::create_directory(occupied);
  for (const std::string& file : {folder / "missing/r.json", occupied}) {
    const Outcome o = run(quick({"--format", "json", "--output", file}));
    INFO(o.error);
    CHECK(o.exit == 3);
    CHECK(contains(o.error, file));
    CHECK((contains(o.error, "No such file") || contains(o.error, "directory")));
  }
  CHECK(folder.names() == std::vector<std::string>{"folder"});
}

TEST_CASE("An output that is full ends with 3", "[cli]") {
  if (!fs::exists("/dev/full")) return;
  const Outcome o = run(quick(), {.standard_output = "/dev/full"});
  CHECK(o.exit == 3);
  CHECK(contains(o.error, "standard output"));
}

TEST_CASE("Without a terminal there are no escape codes, whatever the environment", "[cli]") {
  for (const std::optional<std::string>& no_colour :
       {std::optional<std::string>(), std::optional<std::string>("1")}) {
    const How how{.environment = {{"NO_COLOR", no_colour}, {"TERM", "xterm-256color"}}};
    for (const auto& words : {quick(), std::vector<std::string>{"inspect", "llama-3.2-1b"},
                              std::vector<std::string>{"list", "runtimes"},
                              std::vector<std::string>{"simulate", "--gpu", "none"}}) {
      const Outcome o = run(words, how);
      CHECK_FALSE(contains(o.out + o.error, "\x1b"));
    }
  }
}

TEST_CASE("A trace is JSON with events on named tracks that do not run backwards", "[cli]") {
  const Folder folder;
  const Outcome o = run(quick({"--output-tokens", "32", "--trace", folder / "t.json"}));
  INFO(o.error);
  REQUIRE(o.exit == 0);
  const json trace = json::parse(read(folder / "t.json"));
  std::set<int> tracks;
  int events = 0;
  for (const json& e : trace.at("traceEvents")) {
    if (e.at("ph") == "M" && e.at("name") == "thread_name") tracks.insert(e.at("tid").get<int>());
    if (e.at("ph") != "X") continue;
    ++events;
    CHECK(e.at("ts").get<double>() >= 0.0);
    CHECK(e.at("dur").get<double>() >= 0.0);
    CHECK(tracks.contains(e.at("tid").get<int>()));
  }
  CHECK(events > 10);
  CHECK(folder.names() == std::vector<std::string>{"t.json"});
  const Outcome unwritable = run(quick({"--trace", folder / "no/t.json"}));
  CHECK(unwritable.exit == 3);
}

TEST_CASE("Everything can be listed in every format", "[cli]") {
  const std::map<std::string, std::size_t> least = {
      {"rigs", 15},   {"gpus", 70},   {"cpus", 25},    {"ram", 12},  {"ssds", 10},
      {"models", 40}, {"quants", 10}, {"runtimes", 3}, {"loads", 6}, {"slos", 10}};
  for (const auto& [what, count] : least) {
    INFO(what);
    const Outcome text = run({"list", what});
    INFO(text.error);
    CHECK(text.exit == 0);
    CHECK(lines_of(text.out) > count);
    const Outcome as_json = run({"list", what, "--format", "json"});
    REQUIRE(as_json.exit == 0);
    const json rows = json::parse(as_json.out).at("entries");
    CHECK(rows.size() + 1 == lines_of(text.out));
    CHECK(rows.at(0).contains("id"));
    const Outcome csv = run({"list", what, "--format", "csv"});
    CHECK(csv.exit == 0);
    CHECK(lines_of(csv.out) == lines_of(text.out));
  }
}

TEST_CASE("A listed GPU, model and mix can be simulated by its id", "[cli]") {
  const json quants = json::parse(run({"list", "quants", "--format", "json"}).out);
  for (const json& q : quants.at("entries")) {
    if (!q.at("has_rule")) continue;
    const Outcome o = run({"inspect", "llama-3.2-1b", "--quant", q.at("id").get<std::string>()});
    INFO(q.dump() << o.error);
    CHECK(o.exit == 0);
  }
}

TEST_CASE("A model is inspected in every format, and its tensors add up", "[cli]") {
  const Outcome text = run({"inspect", "Llama 3.1 8B", "--quant", "q4-k-m"});
  INFO(text.error);
  CHECK(text.exit == 0);
  CHECK(contains(text.out, "Q4_K_M"));
  CHECK(contains(text.out, "32 layers"));
  const json m = json::parse(run({"inspect", "llama-3.1-8b", "--format", "json"}).out);
  check_keys(m,
             {"schema", "architecture", "layers", "tensor_bytes", "kv_bytes_per_token", "tensors"});
  CHECK(m.at("schema") == "rigcast.model/1");
  CHECK(m.at("kv_bytes_per_token") == 131072);
  double sum = 0;
  for (const json& t : m.at("tensors")) {
    check_keys(t, {"name", "shape", "type", "bytes"});
    sum += t.at("bytes").get<double>();
  }
  CHECK(m.at("tensor_bytes").get<double>() == sum);
  const Outcome csv = run({"inspect", "llama-3.1-8b", "--format", "csv"});
  CHECK(lines_of(csv.out) == m.at("tensors").size() + 1);
  CHECK(lines_of(run({"inspect", "llama-3.1-8b", "--tensors"}).out) > m.at("tensors").size());
}

TEST_CASE("Experts and windows are in a model's JSON where it has them", "[cli]") {
  const json moe = json::parse(run({"inspect", "mixtral-8x7b", "--format", "json"}).out);
  CHECK(moe.at("moe").at("experts") == 8);
  const json window = json::parse(run({"inspect", "gemma-2-2b", "--format", "json"}).out);
  CHECK(window.at("window").at("tokens") == 4096);
}

TEST_CASE("Every example scenario of the repository has an answer", "[cli]") {
  const fs::path examples = fs::path(rigcast::test::source_dir()) / "examples";
  if (!fs::exists(examples)) return;
  for (const auto& entry : fs::directory_iterator(examples)) {
    if (entry.path().extension() != ".toml") continue;
    const Outcome o = run({"simulate", entry.path().string(), "--no-advice", "--format", "json"});
    INFO(entry.path().filename() << ": " << o.error);
    CHECK((o.exit == 0 || o.exit == 1));
    CHECK(json::accept(o.out));
  }
}

TEST_CASE("Standard output is written to by its name, and what it is stays", "[cli]") {
  const Folder folder;
  const std::string file = folder.write("out", "");
  const Outcome o =
      run(quick({"--format", "json", "-o", "/dev/stdout"}), {.standard_output = file});
  INFO(o.error);
  CHECK(o.exit == 0);
  CHECK(json::parse(read(file)).at("schema") == "rigcast.report/1");
  CHECK(fs::is_symlink("/dev/stdout"));
  CHECK(folder.names() == std::vector<std::string>{"out"});
}

TEST_CASE("What JSON alone tells is not left out of a text in silence", "[cli][simulate]") {
  for (const char* flag : {"--timelines", "--by-context"})
    for (const char* format : {"text", "csv"}) {
      const Outcome o = run(quick({"--format", format, flag}));
      CHECK(o.exit == 2);
      CHECK(o.out.empty());
      CHECK(contains(o.error, std::string(flag) + " is told in JSON alone"));
      CHECK(contains(o.error, "--format json, or --html FILE"));
    }
}

TEST_CASE("Speeds by context come where they are asked for", "[cli][simulate]") {
  const std::vector<std::string> words{"simulate",     "--gpu",    "rtx-3060-12gb", "--model",
                                       "llama-3.1-8b", "--format", "json",          "--no-advice"};
  const auto without = nlohmann::json::parse(run(words).out);
  CHECK(without.at("by_context").empty());
  CHECK(without.at("longest_context").get<long>() > 8192);
  CHECK(!without.at("inputs_assumed").empty());
  CHECK(without.at("ttft").at("cold").at("bound_by").at("resource") == "ssd");
  const auto& position = without.at("decode").at("by_position").at(3);
  CHECK(position.at("interval").at(0) < position.at("tokens_per_s"));
  CHECK(position.at("interval").at(1) > position.at("tokens_per_s"));
  auto more = words;
  more.emplace_back("--by-context");
  const auto all = nlohmann::json::parse(run(more).out).at("by_context");
  REQUIRE(all.size() >= 8);
  CHECK(all.front().at("context") == 1024);
  CHECK(all.back().at("context") == 131072);
  for (std::size_t i = 1; i < all.size(); ++i) {
    CHECK(all[i].at("last_tokens_per_s") <= all[i - 1].at("last_tokens_per_s"));
    CHECK(all[i].at("gpu_layers") <= all[i - 1].at("gpu_layers"));
    CHECK(all[i].at("first_tokens_per_s") >= all[i].at("last_tokens_per_s"));
  }
}

TEST_CASE("An output takes the place of no other output, and of nothing that is read", "[cli]") {
  const rigcast::test::Folder folder;
  const std::string trace = folder / "trace.csv", both = folder / "both";
  const std::string requests = "arrival_s,input_tokens,output_tokens\n0,10,2\n";
  std::ofstream(trace) << requests;
  const auto load = [&](const std::vector<std::string>& more) {
    auto words = quick({"--runtime", "rigcast", "--load", trace});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  check_refused(load({"--requests", trace}), {"trace.csv: that file is read"});
  check_refused(load({"-o", trace}), {"trace.csv: that file is read"});
  std::stringstream kept;
  kept << std::ifstream(trace).rdbuf();
  CHECK(kept.str() == requests);
  check_refused(load({"--requests", both, "-o", both}), {"two outputs go into this file"});
  CHECK(run(load({"--requests", "/dev/null", "-o", "/dev/null"})).exit == 0);
}
