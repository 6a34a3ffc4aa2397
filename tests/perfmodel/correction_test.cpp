// Storage of a correction by own runs, and its effect on forecasts.

#include "perfmodel/context/correction.hpp"
#include "core/hardware/rig_correction.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>

#include "perfmodel/cost/cpu_cost.hpp"
#include "perfmodel/cost/gpu_cost.hpp"
#include "perfmodel/inputs.hpp"
#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"

using namespace rigcast;
using fixtures::contains;
using fixtures::error_of;

namespace {

const std::string kRig =
    "[rig]\ngpu = \"rtx-3060-12gb\"\ncpu = \"ryzen-7-5800x\"\nram = \"2xddr4-3200:64GiB\"\n"
    "ssd = \"samsung-990-pro\"\n";
const std::string kModel = "[model]\nname = \"llama-3.2-1b\"\n";

std::string with_correction(const std::string& keys, const std::string& runtime = "llama.cpp") {
  return kRig + "[rig.correction.\"" + runtime + "\"]\n" + keys + kModel;
}

Scenario made(const std::string& text) {
  auto scenario = fixtures::scenario(text);
  if (!scenario) FAIL(scenario.error().text());
  return *std::move(scenario);
}

const std::string kBoth =
    "decode = { value = 1.25, kind = \"measured\", n = 2, source = \"mine\" }\n"
    "decode_spread = 0.08\ndecode_regimes = [\"resident\"]\n"
    "prefill = { value = 0.5, kind = \"measured\", source = \"mine\" }\nprefill_spread = 0.09\n"
    "runs = 3\n";

OpTraffic some_traffic() {
  OpTraffic t;
  t.weight_bytes_by_format[std::size_t(QuantFormat::kQ4_K)] = 1e8;
  t.matmul_flops = 1e10;
  t.attention_flops = 1e7;
  t.kv_read_bytes = 1e6;
  t.activation_bytes = 1e5;
  t.tokens_per_weight = 512;
  t.matrices = 3;
  return t;
}

// A rig file and its correction, in a folder of their own.
class RigFile {
 public:
  explicit RigFile(const std::string& measured) {
    std::string pattern = (std::filesystem::temp_directory_path() / "rigcast-rig-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()));
    folder_ = pattern;
    std::ofstream(folder_ / "my.rig.toml") << kRig.substr(kRig.find('\n') + 1);
    std::ofstream(folder_ / "my.rig.measured.toml") << measured;
  }
  RigFile(const RigFile&) = delete;
  RigFile& operator=(const RigFile&) = delete;
  ~RigFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::string file(const std::string& name = "my.rig.toml") const { return folder_ / name; }
  std::string scenario(const std::string& more = "",
                       const std::string& name = "my.rig.toml") const {
    return "[rig]\nname = \"" + file(name) + "\"\n" + more + kModel;
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace

TEST_CASE("A correction divides the devices' times, not their bytes", "[correction]") {
  const Scenario plain = made(kRig + kModel), own = made(with_correction(kBoth));
  for (const auto& [tokens, speed] : {std::pair<TokenCount, double>{1, 1.25}, {512, 0.5}, {2, 0.5}})
    for (const bool gpu : {true, false}) {
      const auto cost = [&](const Scenario& s) {
        return gpu ? gpu_cost(s, 0, some_traffic(), tokens, 10)
                   : cpu_cost(s, some_traffic(), tokens);
      };
      const OpCost a = cost(plain), b = cost(own);
      CHECK(b.overhead.value == Approx(a.overhead.value / speed));
      CHECK(b.compute.value == Approx(a.compute.value / speed));
      CHECK(b.equivalent_bytes.value == Approx(a.equivalent_bytes.value / speed));
      CHECK(b.bytes.value == a.bytes.value);
    }
}

TEST_CASE("The CPU beside a GPU has a factor of its own", "[correction]") {
  const std::string keys =
      "decode = { value = 2.0, kind = \"measured\", source = \"x\" }\ndecode_spread = 0.05\n"
      "decode_regimes = [\"resident\"]\n"
      "host_decode = { value = 0.5, kind = \"measured\", source = \"x\" }\n"
      "host_decode_spread = 0.06\nhost_decode_regimes = [\"layer split\"]\n";
  const Scenario plain = made(kRig + kModel), own = made(with_correction(keys));
  const auto on_cpu = [](const Scenario& s) {
    return cpu_cost(s, some_traffic(), 1).compute.value;
  };
  const auto on_gpu = [](const Scenario& s) {
    return gpu_cost(s, 0, some_traffic(), 1, 10).compute.value;
  };
  CHECK(on_gpu(own) == Approx(on_gpu(plain) / 2));
  CHECK(on_cpu(own) == Approx(on_cpu(plain) * 2));
  CHECK(narrower_spread(own, SpeedMetric::kDecode, Regime::kResident) == 0.05);
  CHECK(narrower_spread(own, SpeedMetric::kDecode, Regime::kSplit) == 0.06);
  const auto again = TomlDocument::parse(to_toml(own.rig.corrections, "x"), "written");
  REQUIRE(again);
  const auto read = read_corrections(again->root().table("correction"));
  CHECK(read.at("llama.cpp").host_decode->factor.value == 0.5);
}

TEST_CASE("A correction is of one runtime", "[correction]") {
  const Scenario other = made(with_correction(kBoth, "rigcast"));
  CHECK(!other.correction());
  CHECK(device_speed(other, 1, false) == 1.0);
  CHECK(tally_inputs(other).count[std::size_t(SourceKind::kMeasured)] == 0);
  const Scenario own = made(with_correction(kBoth));
  REQUIRE(own.correction());
  CHECK(own.correction()->runs == 3);
  CHECK(tally_inputs(own).count[std::size_t(SourceKind::kMeasured)] == 2);
}

TEST_CASE("The narrower interval holds, where there were runs", "[correction]") {
  const Scenario s = made(with_correction(kBoth));
  CHECK(narrower_spread(s, SpeedMetric::kDecode, Regime::kResident) == 0.08);
  CHECK(!narrower_spread(s, SpeedMetric::kDecode, Regime::kSplit));
  CHECK(narrower_spread(s, SpeedMetric::kPrefill, Regime::kSplit) == 0.09);  // no regimes: all
  const Scenario wide =
      made(with_correction("decode = { value = 1.1, source = \"x\" }\ndecode_spread = 2.5\n"));
  CHECK(!narrower_spread(wide, SpeedMetric::kDecode, Regime::kResident));
  CHECK(!narrower_spread(wide, SpeedMetric::kPrefill, Regime::kResident));
  CHECK(device_speed(wide, 512, false) == 1.0);
}

TEST_CASE("Corrections that make no sense are refused where they stand", "[correction]") {
  const auto refused = [](const std::string& keys, const std::string& part) {
    const std::string error = error_of(with_correction(keys));
    INFO(keys << "\n" << error);
    CHECK(contains(error, part));
    CHECK(contains(error, "s.toml:"));
  };
  refused("decode = nan\ndecode_spread = 0.1\n", "correction.llama.cpp.decode");
  refused("decode = { value = nan, source = \"x\" }\ndecode_spread = 0.1\n", "decode.value");
  refused("decode = inf\ndecode_spread = 0.1\n", "out of range");
  refused("prefill = -1.0\nprefill_spread = 0.1\n", "out of range");
  refused("prefill = 0\nprefill_spread = 0.1\n", "out of range");
  refused("decode = 1.1\ndecode_spread = nan\n", "decode_spread");
  refused("decode = 1.1\ndecode_spread = -0.1\n", "decode_spread");
  refused("decode = 1.1\n", "decode_spread: this key is missing");
  refused("decode_spread = 0.1\n", "a spread of no decode");
  refused("decode = \"fast\"\ndecode_spread = 0.1\n", "expected a number");
  refused("decode = 1.1\ndecode_spread = 0.1\nspeed = 2\n", "speed: unknown key");
  refused("runs = -1\n", "runs");
  CHECK(contains(error_of(kRig + "correction = 3\n" + kModel), "expected a table"));
}

TEST_CASE("What is written is read back", "[correction]") {
  std::map<std::string, Correction> all;
  Correction::Speed& decode = all["llama.cpp"].decode.emplace();
  decode.factor.value = 1.07;
  decode.factor.kind = SourceKind::kMeasured;
  decode.factor.source = "my \"runs\"\\\n.jsonl";
  decode.spread = 0.075;
  decode.regimes = {"resident", "layer split"};
  all["llama.cpp"].runs = 2;
  all["ik \"x\""].prefill.emplace().factor.value = 0.8;
  const auto document = TomlDocument::parse(to_toml(all, "a\nb"), "t.toml");
  REQUIRE(document);
  const auto read = read_corrections(document->root().table("correction"));
  REQUIRE(!document->error());
  REQUIRE(read.size() == 2);
  const Correction& c = read.at("llama.cpp");
  REQUIRE(c.decode);
  CHECK(c.decode->factor.value == 1.07);
  CHECK(c.decode->factor.source == "my \"runs\"\\\n.jsonl");
  CHECK(c.decode->factor.kind == SourceKind::kMeasured);
  CHECK(c.decode->spread == 0.075);
  CHECK(c.decode->regimes == std::vector<std::string>{"resident", "layer split"});
  CHECK(!c.prefill);
  CHECK(c.runs == 2);
  CHECK(read.at("ik \"x\"").prefill.has_value());
}

TEST_CASE("A file beside the rig's corrects it, as long as its parts are the rig's",
          "[correction]") {
  const RigFile rig("[correction.\"llama.cpp\"]\n" + kBoth);
  CHECK(device_speed(made(rig.scenario()), 1, false) == 1.25);
  CHECK(device_speed(made(rig.scenario("ram_capacity = \"48 GiB\"\n")), 1, false) == 1.25);
  const Scenario other = made(rig.scenario("gpu = \"rtx-3090\"\n"));
  CHECK(other.rig.corrections.empty());
  REQUIRE(!other.warnings.empty());
  CHECK(std::ranges::any_of(other.warnings,
                            [](const std::string& w) { return contains(w, "own parts"); }));
  // It is no rig itself.
  CHECK(contains(error_of(rig.scenario("", "my.rig.measured.toml")), "not a rig"));
}

TEST_CASE("A file beside the rig's holds corrections and nothing else", "[correction]") {
  const auto refused = [](const std::string& measured, const std::string& part) {
    const RigFile rig(measured);
    const std::string error = error_of(rig.scenario());
    INFO(measured << "\n" << error);
    CHECK(contains(error, part));
    CHECK(contains(error, "my.rig.measured.toml"));
  };
  refused("gpu = \"rtx-3090\"\n", "gpu: unknown key");
  refused("[correction.\"llama.cpp\"]\ndecode = nan\ndecode_spread = 0.1\n", "out of range");
  refused("[correction.\"llama.cpp\"]\ndecoed = 1.0\n", "unknown key");
  refused("correction = 1\n", "expected a table");
  refused("[correction]\nllama = 1\n", "expected a table");
  refused("[correction", "valid TOML");
}

TEST_CASE("The catalogue lists no file of corrections as a rig", "[correction]") {
  CHECK(is_measured_file("a/my-rig.measured.toml"));
  CHECK(!is_measured_file("a/measured.toml"));
  CHECK(measured_file("a/my-rig.toml") == "a/my-rig.measured.toml");
  for (const std::string& id : fixtures::catalogue().ids("hwprofiles/rigs"))
    CHECK(!contains(id, ".measured"));
}
