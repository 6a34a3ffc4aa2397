// What `rigcast simulate` says to try: what plans choose, and what each change costs.
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/program.hpp"
#include "tests/paths.hpp"

using namespace rigcast::cli_test;
using nlohmann::json;

namespace {

using Args = std::vector<std::string>;

Args with(Args args, const Args& more) {
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

json json_of(const Args& args) {
  const Outcome o = run(with(args, {"--format", "json"}));
  INFO(o.error);
  REQUIRE(o.exit == 0);
  return json::parse(o.out);
}

json advice(const Args& args) { return json_of(with({"simulate"}, args)).at("advice"); }

json planned(const Args& args) { return json_of(with({"plan"}, args)).at("choices").at(0); }

}  // namespace

TEST_CASE("The first to try is the placement of a plan for the same mix and cache", "[cli]") {
  const Args moe{
      "--gpu", "rtx-5060-ti-16gb", "--model", "qwen3-30b-a3b", "--quant", "Q4_K_M", "--kv",
      "vram",  "--kv-type",        "f16",     "--ubatch",      "512"};
  const json first = advice(with(moe, {"--gpu-layers", "20"})).at(0);
  const json choice = planned(moe);
  const json placement = choice.at("scenario").at("placement");
  CHECK(first.at("flags") == "--gpu-layers " + placement.at("gpu_layers").dump() + " --cpu-moe " +
                                 placement.at("cpu_moe_layers").dump());
  CHECK(first.at("loss_nats") == 0);
  CHECK(contains(choice.at("what"), first.at("change")));

  const Args dense{"--gpu", "rtx-3060-12gb", "--model", "qwen3-14b", "--context", "16384"};
  CHECK(contains(advice(dense).at(0).at("flags"), "--cpu-ffn "));
}

TEST_CASE("A placement that a plan would choose is not advised again", "[cli]") {
  const Args args{"--gpu", "rtx-5060-ti-16gb", "--model", "qwen3-30b-a3b"};
  for (const json& a : advice(args)) CHECK_FALSE(contains(a.at("flags"), "--gpu-layers"));
}

TEST_CASE("No layers or experts in RAM are advised of a server that has all on the GPU", "[cli]") {
  // 60.8 GiB do not fit on it, but would into RAM.
  const Outcome o = run({"simulate", "--gpu", "rtx-4090", "--model", "qwen3-30b-a3b", "--runtime",
                         "vllm", "--quant", "BF16", "--context", "4096", "--set",
                         "rig.ram_capacity=\"128 GiB\"", "--format", "json"});
  const json report = json::parse(o.out);
  CHECK(report.at("fits") == false);
  for (const json& a : report.at("advice")) {
    CHECK_FALSE(contains(a.at("flags"), "--gpu-layers"));
    CHECK_FALSE(contains(a.at("flags"), "--cpu-"));
  }
}

TEST_CASE("What costs quality says how much, and comes after what does not", "[cli]") {
  const Args args{"--gpu",   "rtx-3060-12gb", "--model",   "qwen3-14b",
                  "--quant", "Q4_K_M",        "--context", "16384"};
  const json all = advice(args);
  REQUIRE(all.size() >= 2);
  CHECK(all.at(0).at("loss_nats") == 0);
  const json& kv = all.at(1);
  REQUIRE(kv.at("flags") == "--kv-type q8_0");
  CHECK(kv.at("gain") > all.at(0).at("gain"));  // it is not first although it is faster
  const auto loss = [&](const char* type) {
    const json choice = planned(with(args, {"--kv-type", type}));
    return choice.at("quality").at("loss_nats").get<double>();
  };
  const double added = loss("q8_0") - loss("f16");
  CHECK(std::abs(kv.at("loss_nats").get<double>() - added) < 1e-12);  // rounding of the sums
  CHECK(contains(run(with({"simulate"}, args)).out, "loses 0.001 nats"));
}

TEST_CASE("The fastest mix is not the first to try, for it loses most", "[cli]") {
  const json all = advice({"--gpu", "rtx-3090", "--model", "llama-3.3-70b", "--quant", "Q4_K_M"});
  REQUIRE(all.size() >= 2);
  CHECK(all.at(0).at("loss_nats") == 0);
  CHECK(contains(all.at(0).at("flags"), "--cpu-ffn"));
  CHECK(all.at(1).at("flags") == "--quant IQ2_M");
  CHECK(all.at(1).at("loss_nats") > 0);
}

TEST_CASE("Evicted blocks in a smaller type are no free gain", "[cli]") {
  for (const json& a : advice({rigcast::test::source_path("/examples/s2-diagnosis.toml")})) {
    INFO(a.dump());
    CHECK_FALSE((contains(a.at("flags"), "kv.cold_type") && a.at("loss_nats") == 0));
  }
}

TEST_CASE("A shorter context is judged by the same request", "[cli]") {
  // All layers are on the GPU with either: only a shorter conversation would be faster.
  for (const json& a : advice({"--gpu", "rtx-4090", "--model", "llama-3.1-8b"}))
    CHECK_FALSE(contains(a.at("flags"), "--context"));
}
