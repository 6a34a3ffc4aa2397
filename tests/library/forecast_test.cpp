// The library says what the program says, to the byte.
#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "library/rigcast.hpp"
#include "tests/catch.hpp"
#include "tests/cli/program.hpp"

using namespace rigcast;
using cli_test::contains;
using cli_test::How;
using cli_test::Outcome;
using nlohmann::json;

namespace {

constexpr const char* kQuick = R"({"rig": {"gpu": ["rtx-3060-12gb"]},
  "model": {"name": "llama-3.2-1b"}, "workload": {"context": 2048}})";

// The same parts for both: none of the developer's own.
const std::map<std::string, std::optional<std::string>> kEnvironment = {
    {"XDG_DATA_HOME", "/nonexistent"}};

Outcome program(std::vector<std::string> words) {
  words.insert(words.begin(), "simulate");
  words.insert(words.end(), {"--format", "json"});
  How how;
  how.environment = kEnvironment;
  return cli_test::run(words, how);
}

ForecastAnswer library(const std::string& scenario, const ForecastOptions& options = {}) {
  setenv("XDG_DATA_HOME", "/nonexistent", 1);
  return forecast(scenario, options);
}

void check_same(const ForecastAnswer& answer, const Outcome& printed) {
  INFO(printed.error);
  REQUIRE(printed.exit <= 1);
  REQUIRE_FALSE(answer.error);
  CHECK(answer.fits == (printed.exit == 0));
  CHECK(answer.json == printed.out);
}

std::vector<std::string> quick(const std::vector<std::string>& more = {}) {
  auto words = cli_test::quick(more);
  words.erase(words.begin());
  return words;
}

}  // namespace

TEST_CASE("A forecast has the bytes that the program prints", "[library]") {
  const Outcome printed = program(quick());
  check_same(library(kQuick), printed);
  check_same(library(kQuick), printed);  // nothing is left of a forecast
  check_same(library("[rig]\ngpu = [\"rtx-3060-12gb\"]\n[model]\nname = \"llama-3.2-1b\"\n"
                     "[workload]\ncontext = 2048\n"),
             printed);
}

TEST_CASE("Options are those of the program", "[library]") {
  ForecastOptions all;
  all.positions = {0, 1000, 2000};
  all.by_context = all.advice = all.exact = true;
  auto words = quick({"--positions", "0,1000,2000", "--by-context", "--exact"});
  std::erase(words, "--no-advice");
  check_same(library(kQuick, all), program(words));
}

TEST_CASE("A load is served, and what does not fit is an answer", "[library]") {
  const std::string load = std::string(kQuick).substr(0, std::string(kQuick).rfind('}'));
  check_same(library(R"({"rig": {"gpu": ["rtx-3060-12gb"]}, "model": {"name": "llama-3.2-1b"},
    "workload": {"context": 4096, "users": 2}, "load": {"preset": "chat"}})"),
             program({"--gpu", "rtx-3060-12gb", "--model", "llama-3.2-1b", "--context", "4096",
                      "--users", "2", "--load", "chat", "--no-advice"}));
  const auto large = library(R"({"rig": {"gpu": ["rtx-3060-12gb"], "ram_capacity": "16 GiB"},
    "model": {"name": "llama-3.1-405b"}, "placement": {"gpu_layers": 126}})");
  REQUIRE_FALSE(large.error);
  CHECK_FALSE(large.fits);
  CHECK_FALSE(json::parse(large.json).at("errors").empty());
}

TEST_CASE("Errors say what, where and what to do", "[library]") {
  const auto unknown = library(R"({"rig": {"gpu": ["rtx-3061"]}, "model": {"name": "x"}})");
  REQUIRE(unknown.error);
  CHECK(unknown.json.empty());
  CHECK(unknown.error->kind == ForecastError::Kind::kBadInput);
  CHECK(unknown.error->key == "rig.gpu");
  CHECK(contains(unknown.error->where, "rig.gpu"));
  CHECK(contains(unknown.error->hint, "did you mean rtx-"));
  const Outcome printed = program({"--set", R"(rig.gpu=["rtx-3061"])", "--model", "x"});
  CHECK(printed.exit == 2);
  CHECK(printed.error == "rigcast: --set " + unknown.error->text() + "\n");

  const auto toml =
      library("[rig]\ngpu = [\"rtx-4090\"]\ncolour = \"red\"\n[model]\nname = \"llama-3.2-1b\"\n");
  REQUIRE(toml.error);
  CHECK(toml.error->where == "scenario:3:10");
  for (const char* bad : {"", "{", "{\"rig\": 3}", "{\"Rig\": {}}", "{\"rig\": {\"gpu\": null}}",
                          "[rig", "{\"a\": {\"b\": [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]}}"}) {
    INFO(bad);
    CHECK(library(bad).error);
  }
  ForecastOptions beyond;
  beyond.positions = {4096};
  CHECK(contains(library(kQuick, beyond).error.value().text(), "4,096"));
}

TEST_CASE("Scenarios of others read no files", "[library]") {
  ForecastOptions careful;
  careful.reads_files = false;
  const auto answer = library(
      R"({"rig": {"name": "/etc/passwd.toml"}, "model": {"name": "llama-3.2-1b"}})", careful);
  REQUIRE(answer.error);
  CHECK_FALSE(library(kQuick, careful).error);
}

TEST_CASE("A program that hears nothing of its children gets answers, too", "[library]") {
  const std::string expected = library(kQuick).json;
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  const auto answer = library(kQuick);
  const auto refused = library("[rig");
  std::signal(SIGCHLD, before);
  CHECK(answer.json == expected);
  CHECK(refused.error.value().where == "scenario:1:5");
}

TEST_CASE("Threads forecast at the same time, and each may stop", "[library]") {
  const std::string expected = library(kQuick).json;
  std::vector<std::string> answers(4);
  std::vector<std::thread> threads;
  for (std::string& answer : answers) threads.emplace_back([&] { answer = library(kQuick).json; });
  for (std::thread& thread : threads) thread.join();
  CHECK(std::ranges::count(answers, expected) == 4);

  ForecastOptions stopped;
  stopped.should_stop = [] { return true; };
  const auto answer = library(kQuick, stopped);
  REQUIRE(answer.error);
  CHECK(answer.error->kind == ForecastError::Kind::kMachine);
}
