// --html: where pages go, what they say of the command, and what has none.

#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

using namespace rigcast::cli_test;
using nlohmann::json;

namespace {

// The JSON of a page, whose lists of objects are tables.
json answer_of(const std::string& page) {
  const std::string begin = "id=\"answer\">";
  const auto at = page.find(begin);
  REQUIRE(at != std::string::npos);
  const auto from = at + begin.size();
  return json::parse(page.substr(from, page.find("</script>", from) - from));
}

}  // namespace

TEST_CASE("A page is written beside what is printed", "[cli]") {
  const Folder folder;
  const std::string file = folder / "out.html";
  const Outcome with = run(quick({"--html", file}));
  INFO(with.error);
  REQUIRE(with.exit == 0);
  CHECK(with.out == run(quick()).out);
  const std::string page = read(file);
  CHECK(page.rfind("<!doctype html>", 0) == 0);
  CHECK(page.size() <= 150'000);
  CHECK(answer_of(page).at("schema") == "rigcast.report/1");
  CHECK_FALSE(answer_of(page).at("by_context").empty());
  // The folder is nobody else's business.
  CHECK(contains(page, "--html out.html"));
  CHECK_FALSE(contains(page, folder.path().string()));
  // The same bytes again, over the first ones, with nothing left beside them.
  REQUIRE(run(quick({"--html", file})).exit == 0);
  CHECK(read(file) == page);
  CHECK(folder.names() == std::vector<std::string>{"out.html"});
}

TEST_CASE("A page names files without the folders that they are in", "[cli]") {
  const Folder folder;
  const std::string runs = folder.write(
      "runs.jsonl", R"({"model_type": "llama 1B Q8_0", "model_size": 1321082880, "n_prompt": 0, )"
                    R"("n_gen": 128, "gpu_info": "NVIDIA GeForce RTX 4090", "avg_ts": 400.0, )"
                    R"("n_gpu_layers": 99, "backends": "CUDA"})"
                    "\n");
  const Outcome o = run({"validate", "--against", runs, "--html", folder / "out.html"});
  INFO(o.error);
  const std::string page = read(folder / "out.html");
  CHECK(contains(page, "rigcast validate --against runs.jsonl --html out.html"));
  // The JSON is as it is printed: runs without a name of their own have that of the file.
  CHECK_FALSE(contains(page.substr(0, page.find("id=\"answer\"")), folder.path().string()));
}

TEST_CASE("A page never takes the place of another output, a folder or a device", "[cli]") {
  const Folder folder;
  const std::string file = folder / "out.html";
  const auto refused = [&](const std::vector<std::string>& more, const std::string& why) {
    check_refused(quick(more), {why});
  };
  const std::string way_round = (folder.path() / "." / "out.html").string();
  refused({"--html", file, "-o", way_round}, "another output goes into this file");
  refused({"--html", file, "--trace", file}, "another output goes into this file");
  refused({"--html", folder.path().string()}, "that is no file");
  refused({"--html", "/dev/null"}, "that is no file");
  CHECK(fs::is_character_file("/dev/null"));
  CHECK_FALSE(fs::exists(file));
}

TEST_CASE("A page stays as it is when the command fails", "[cli]") {
  const Folder folder;
  const std::string file = folder / "out.html";
  REQUIRE(run(quick({"--html", file})).exit == 0);
  const std::string page = read(file);
  CHECK(run(quick({"--html", file, "--kv", "no such policy"})).exit == 2);
  CHECK(read(file) == page);
}

TEST_CASE("What does not fit has a page, and ends with 1", "[cli]") {
  const Folder folder;
  const std::string file = folder / "out.html";
  const Outcome o = run({"simulate", "--gpu", "rtx-3060-12gb", "--model", "llama-3.1-8b", "--quant",
                         "F16", "--gpu-layers", "33", "--no-advice", "--html", file});
  CHECK(o.exit == 1);
  CHECK(answer_of(read(file)).at("fits") == false);
}

TEST_CASE("The page of a sweep has its rows, and what is printed stays the same", "[cli]") {
  const Folder folder;
  const std::string file = folder / "out.html";
  const std::vector<std::string> sweep = {"sweep",
                                          "--gpu",
                                          "rtx-3090",
                                          "--model",
                                          "llama-3.2-1b",
                                          "--set",
                                          "workload.context=2048,4096",
                                          "--set",
                                          "model.quant=Q8_0,Q4_K_M"};
  std::vector<std::string> with = sweep;
  with.insert(with.end(), {"--html", file});
  const Outcome o = run(with);
  INFO(o.error);
  REQUIRE(o.exit == 0);
  CHECK(o.out == run(sweep).out);
  const json answer = answer_of(read(file));
  CHECK(answer.at("schema") == "rigcast.sweep/1");
  CHECK(answer.at("keys") == json({"workload.context", "model.quant"}));
  REQUIRE(answer.at("rows").size() == 4);
  CHECK(answer.at("rows").at(0).at(0) == 2048);
  CHECK(answer.at("rows").at(0).size() == answer.at("columns").size());
}

TEST_CASE("What has no page says so before the work", "[cli]") {
  const Folder folder;
  const std::string file = folder / "out.html";
  const auto refused = [&](std::vector<std::string> words, const std::string& why) {
    words.insert(words.end(), {"--html", file});
    check_refused(words, {why});
    CHECK_FALSE(fs::exists(file));
  };
  refused({"sweep", "--gpu", "rtx-3090", "--model", "llama-3.2-1b", "--set",
           "workload.context=512..131072:4"},
          "a page holds 20,000 combinations, these are 32,641");
  refused({"plan", "--gpu", "rtx-3090", "--model", "llama-3.2-1b", "--emit", "llama.cpp"},
          "excludes");
  refused({"validate", "--pack", "nothing", "-o", folder / "b"}, "excludes");
}
