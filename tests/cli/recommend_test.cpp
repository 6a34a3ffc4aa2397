// `rigcast recommend` as people type it.
#include <sys/resource.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/program.hpp"

using namespace rigcast::cli_test;

namespace {

Outcome recommend(std::vector<std::string> more) {
  more.insert(more.begin(), "recommend");
  return run(more);
}

double cpu_of_children() {
  rusage use{};
  getrusage(RUSAGE_CHILDREN, &use);
  const auto seconds = [](timeval t) { return double(t.tv_sec) + 1e-6 * double(t.tv_usec); };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

}  // namespace

TEST_CASE("A recommendation is a short table, its rule, and what to type", "[cli][recommend]") {
  const double before = cpu_of_children();
  const Outcome o = recommend({"--rig", "gaming-rtx-4090"});
  [[maybe_unused]] const double seconds = cpu_of_children() - before;
  INFO(o.out << o.error);
  CHECK(o.exit == 0);
  for (const char* part :
       {"chat on RTX 4090", "the most parameters first", "at least 10 tok/s",
        "left out: ", "  next   rigcast plan --rig gaming-rtx-4090 ", "         llama-server -m "})
    CHECK(contains(o.out, part));
  CHECK(std::ranges::count(o.out, '\n') <= 32);
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__)
  CHECK(seconds < 2);  // takes 0.4 s: it stays the first command that one types
#endif
}

TEST_CASE("A recommendation as JSON has every model and its reason", "[cli][recommend]") {
  const Outcome o = recommend({"--rig", "mac-mini-m4-16gb", "--for", "code", "--format", "json"});
  REQUIRE(o.exit == 0);
  const auto j = nlohmann::json::parse(o.out);
  CHECK(j.at("schema") == "rigcast.recommendation/1");
  CHECK(j.at("for") == "code");
  CHECK(j.at("qualify").get<std::size_t>() + j.at("left_out").size() == j.at("models"));
  for (const auto& c : j.at("choices")) {
    CHECK(c.at("tokens_per_s") >= j.at("min_tokens_per_s"));
    CHECK(c.at("loss_nats") <= c.at("max_loss_nats"));
    CHECK(contains(c.at("commands").at("plan"), c.at("model")));
  }
  for (const auto& l : j.at("left_out")) CHECK(!l.at("text").get<std::string>().empty());
}

TEST_CASE("The plan that a recommendation names does what was asked for", "[cli][recommend]") {
  const Outcome o = recommend({"--gpu", "rtx-3060-12gb", "--format", "json", "--min-tps", "30"});
  REQUIRE(o.exit == 0);
  const auto j = nlohmann::json::parse(o.out);
  std::istringstream words(j.at("choices").at(0).at("commands").at("plan").get<std::string>());
  std::vector<std::string> arguments;
  std::string word;
  words >> word;
  while (words >> word) arguments.push_back(word);
  const Outcome plan = run(arguments);
  INFO(plan.out << plan.error);
  CHECK(plan.exit == 0);
}

TEST_CASE("Nothing that is fast enough is an answer of its own", "[cli][recommend]") {
  const Outcome o = recommend({"--rig", "raspberry-pi-5-8gb", "--min-tps", "500"});
  CHECK(o.exit == 1);
  CHECK(contains(o.out, "none is fast enough and fits"));
  CHECK(contains(o.out, "--min-tps"));
}

TEST_CASE("A recommendation refuses what it does not mean", "[cli][recommend]") {
  check_refused({"recommend", "--rig", "gaming-rtx-4090", "--model", "qwen3-8b"},
                {"all models", "rigcast plan"});
  check_refused({"recommend", "--rig", "gaming-rtx-4090", "--for", "poetry"}, {"--for"});
  check_refused({"recommend", "--rig", "gaming-rtx-4091"}, {"gaming-rtx-4091"});
}

TEST_CASE("All rows are those that qualify", "[cli][recommend]") {
  const Outcome o = recommend({"--rig", "raspberry-pi-5-8gb", "--all", "--format", "csv"});
  const Outcome j = recommend({"--rig", "raspberry-pi-5-8gb", "--format", "json"});
  REQUIRE(o.exit == 0);
  const auto qualify = nlohmann::json::parse(j.out).at("qualify").get<std::ptrdiff_t>();
  CHECK(std::ranges::count(o.out, '\n') == qualify + 1);
}

TEST_CASE("Without a rig, it is the machine on which one types", "[cli][recommend]") {
  const Outcome o = recommend({"--for", "speed", "--format", "json"});
  INFO(o.error);
  REQUIRE(o.exit == 0);
  const auto j = nlohmann::json::parse(o.out);
  CHECK(contains(j.at("rig_notes").at(0), "this machine, as the system tells it"));
  CHECK(contains(j.at("choices").at(0).at("commands").at("plan"), "rigcast plan --rig this "));
}

TEST_CASE("This machine is a rig for flags, scenario files and show", "[cli][recommend]") {
  const std::string note = "this machine, as the system tells it";
  const std::vector<std::string> model{"--model", "llama-3.2-1b", "--no-advice"};
  CHECK(contains(run({"simulate", "--rig", "this", model[0], model[1], model[2]}).out, note));
  const Folder folder;
  const std::string file =
      folder.write("s.toml", "rig.name = \"this\"\nmodel.name = \"llama-3.2-1b\"\n");
  CHECK(contains(run({"simulate", file, "--no-advice"}).out, note));
  const Outcome shown = run({"show", "this", "--format", "json"});
  REQUIRE(shown.exit == 0);
  const auto figures = nlohmann::json::parse(shown.out).at("entries").at(0).at("figures");
  CHECK(std::ranges::any_of(figures, [](const auto& f) { return f.at("key") == "ram_capacity"; }));
  CHECK(std::ranges::none_of(figures, [](const auto& f) { return f.at("kind") == "measured"; }));
  check_refused({"calibrate", "--own", file, "--rig", "this"}, {"this", "rigcast probe -o"});
}
