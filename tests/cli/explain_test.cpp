// `rigcast explain` as people type it.
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/cli/program.hpp"

using namespace rigcast::cli_test;

namespace {

Outcome explain(std::vector<std::string> more) {
  more.insert(more.begin(), "explain");
  return run(more);
}

}  // namespace

TEST_CASE("A forecast is shown with the measured runs that speak for it", "[cli][explain]") {
  const Outcome o = explain(
      {"--gpu", "rtx-3090", "--model", "llama-3-8b", "--quant", "Q4_K_M", "--context", "4096"});
  INFO(o.out << o.error);
  CHECK(o.exit == 0);
  for (const char* part : {"Q4_K_M on rtx-3090, llama.cpp: resident", "decode: ", "prefill: ",
                           "measured on this chip with this model", "its family, ampere",
                           "nearest rows", "by a fit that saw no row of the chip"})
    CHECK(contains(o.out, part));
  std::istringstream lines(o.out);
  for (std::string line; std::getline(lines, line);)  // but for sources, which are links
    if (!line.starts_with("  [")) CHECK(line.size() <= 100);
}

TEST_CASE("What the explanation says in JSON agrees with simulate", "[cli][explain]") {
  const std::vector<std::string> scenario = {"--gpu",   "rtx-3090", "--model",   "llama-3-8b",
                                             "--quant", "Q4_K_M",   "--context", "4096"};
  auto with = [&](std::vector<std::string> words) {
    words.insert(words.begin() + 1, scenario.begin(), scenario.end());
    return run(words);
  };
  const Outcome o = with({"explain", "--rows", "2", "--format", "json"});
  const Outcome simulated = with({"simulate", "--format", "json", "--no-advice"});
  REQUIRE(o.exit == 0);
  REQUIRE(simulated.exit == 0);
  const auto j = nlohmann::json::parse(o.out), forecast = nlohmann::json::parse(simulated.out);
  CHECK(j.at("schema") == "rigcast.explain/1");
  CHECK(j.at("chip") == "rtx-3090");
  REQUIRE(j.at("metrics").size() == 2);
  const auto& decode = j.at("metrics").at(0);
  CHECK(decode.at("tokens_per_s") == forecast.at("decode").at("tokens_per_s"));
  CHECK(decode.at("nearest").size() == 2);
  CHECK(decode.at("nearest").at(0).at("chip") == "rtx-3090");
  int last = 0;  // each chip's rows are among its family's, and these among all
  for (const std::size_t group : {0u, 1u, 2u, 4u}) {
    const int rows = decode.at("groups").at(group).at("rows");
    CHECK(rows >= last);
    last = rows;
  }
}

TEST_CASE("A chip without rows and a runtime without a table say so", "[cli][explain]") {
  const Outcome unknown = explain(
      {"--gpu", "rtx-5060", "--model", "llama-3-8b", "--quant", "Q4_K_M", "--context", "4096"});
  INFO(unknown.out << unknown.error);
  CHECK(unknown.exit == 0);
  CHECK(contains(unknown.out, "no row of this chip"));
  const Outcome own = explain({"--gpu", "rtx-3090", "--model", "llama-3-8b", "--quant", "Q4_K_M",
                               "--context", "4096", "--runtime", "rigcast"});
  INFO(own.out << own.error);
  CHECK(own.exit == 0);
  CHECK(contains(own.out, "No public rows were fitted for this runtime"));
}

TEST_CASE("A forecast that is none is not explained", "[cli][explain]") {
  const Outcome o = explain({"--gpu", "rtx-3060-12gb", "--model", "llama-3.3-70b", "--quant", "F16",
                             "--gpu-layers", "80"});
  CHECK(o.exit == 1);
  CHECK(contains(o.error, "does not fit"));
  CHECK(contains(o.error, "rigcast plan"));
  CHECK(explain({"--gpu", "rtx-3090", "--model", "llama-3-8b", "--rows", "-1"}).exit == 2);
}
