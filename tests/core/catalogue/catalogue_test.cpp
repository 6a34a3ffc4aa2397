// The data that ships: every file loads, agrees with itself and with the files it names.

#include "core/catalogue/catalogue.hpp"

#include <cmath>

#include "core/runtime/load_profile.hpp"
#include "core/text/nearest_name.hpp"
#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"

using namespace rigcast;
using fixtures::catalogue;
using fixtures::contains;

namespace {

// As GPU lists round: within half of the last of three digits.
bool near(double a, double b, double share) { return std::abs(a / b - 1.0) <= share; }

std::string why(const Error& error) { return error.text(); }

template <class Load>
void check_all_load(const char* folder, std::size_t least, Load load) {
  const auto ids = catalogue().ids(folder);
  CHECK(ids.size() >= least);
  for (const std::string& id : ids) {
    const auto loaded = load(id);
    INFO(folder << "/" << id << ": " << (loaded ? "" : why(loaded.error())));
    CHECK(loaded.ok());
  }
}

}  // namespace

TEST_CASE("Every part that ships loads, and there are enough to choose from", "[catalogue]") {
  const Catalogue& c = catalogue();
  check_all_load("hwprofiles/gpus", 70, [&](const auto& id) { return c.gpu(id); });
  check_all_load("hwprofiles/cpus", 25, [&](const auto& id) { return c.cpu(id); });
  check_all_load("hwprofiles/ram", 12, [&](const auto& id) { return c.ram(id); });
  check_all_load("hwprofiles/ssds", 10, [&](const auto& id) { return c.ssd(id); });
}

TEST_CASE("Every model that ships loads and has tensors", "[catalogue]") {
  const auto mix = QuantMix::from_name("Q4_K_M");
  REQUIRE(mix);
  check_all_load("models", 40, [&](const auto& id) -> Result<TensorTable> {
    const auto model = catalogue().model(id);
    if (!model) return model.error();
    return make_tensor_table(*model, *mix);
  });
}

TEST_CASE("Every runtime profile that ships loads", "[catalogue]") {
  check_all_load("runtimes", 3, [&](const auto& id) {
    return load_runtime_profile(*catalogue().runtime_file(id));
  });
}

TEST_CASE("Every rig that ships composes with a small model", "[catalogue]") {
  check_all_load("hwprofiles/rigs", 15, [&](const auto& id) {
    return fixtures::scenario("[rig]\nname = '" + id + "'\n[model]\nname = 'tinyllama-1.1b'\n");
  });
}

TEST_CASE("Every GPU that ships composes into a machine", "[catalogue]") {
  check_all_load("hwprofiles/gpus", 70, [&](const auto& id) {
    return fixtures::scenario("[rig]\ngpu = '" + id + "'\n[model]\nname = 'smollm2-135m'\n");
  });
}

TEST_CASE("Links of every generation from 2 to 5 load, each twice as fast", "[catalogue]") {
  double before = 0;
  for (const int generation : {2, 3, 4, 5}) {
    const auto link = catalogue().host_link({generation, 16});
    REQUIRE(link);
    CHECK(link->h2d.value.value > 1.5 * before);
    CHECK(link->pageable.value <= link->h2d.value);
    before = link->h2d.value.value;
  }
  CHECK(catalogue().host_link({4, 8})->h2d.value * 2.0 ==
        catalogue().host_link({4, 16})->h2d.value);
  CHECK_FALSE(catalogue().host_link({9, 16}));
}

TEST_CASE("A copy from pageable memory is no slower over a faster link", "[catalogue]") {
  double before = 0;
  for (const int generation : {2, 3, 4, 5}) {
    const double rate = catalogue().host_link({generation, 16})->pageable.value.value;
    CHECK(rate >= 0.99 * before);  // 12.6 GB/s is what a share of generation 4 comes to, rounded
    before = rate;
  }
  // What the host copies is the limit of a link that could carry more.
  CHECK(catalogue().host_link({5, 16})->pageable.value == 12.6_GBps);
  CHECK(catalogue().host_link({5, 4})->pageable.value < 12.6_GBps);
}

TEST_CASE("A part of several GPUs is one of them, and its name says so", "[catalogue]") {
  for (const char* id : {"mi250", "mi250x"}) {
    const auto gpu = catalogue().gpu(id);
    REQUIRE(gpu);
    CHECK(gpu->name.find("one of its two GPUs") != std::string::npos);
    CHECK(gpu->memory.value == 64_GiB);
  }
}

TEST_CASE("Every GPU with unified memory names a CPU that exists", "[catalogue]") {
  int unified = 0;
  for (const std::string& id : catalogue().ids("hwprofiles/gpus")) {
    const auto gpu = catalogue().gpu(id);
    if (!gpu || !gpu->unified) continue;
    ++unified;
    INFO(id << " names " << gpu->unified_cpu);
    CHECK(catalogue().cpu(gpu->unified_cpu).ok());
    CHECK(gpu->gpu_share.value > 0.3);
    CHECK(gpu->gpu_share.value <= 1.0);
  }
  CHECK(unified > 0);
}

TEST_CASE("GPUs have figures of a plausible size that agree with each other", "[catalogue]") {
  for (const std::string& id : catalogue().ids("hwprofiles/gpus")) {
    const auto g = catalogue().gpu(id);
    if (!g) continue;
    INFO(id);
    CHECK(g->id == id);
    CHECK(g->memory.value >= 2_GiB);
    CHECK(g->memory.value <= 600_GiB);
    CHECK(g->bandwidth.value >= 20_GBps);
    CHECK(g->bandwidth.value <= BytesPerSecond{10e12});
    if (g->fp16_tensor) CHECK(g->fp16_tensor->value <= FlopsPerSecond{3e15});
    if (g->fp16_tensor && g->fp16_tensor_fp16acc)
      CHECK(g->fp16_tensor_fp16acc->value >= g->fp16_tensor->value);
    // Tensor cores are no slower than the vector units of the same GPU.
    if (g->fp16_tensor && g->fp32) CHECK(g->fp16_tensor->value * 1.01 >= g->fp32->value);
    if (!g->unified) CHECK(g->pcie.lanes != 3);
  }
}

TEST_CASE("A RAM kit's bandwidth is channels times 8 bytes times its rate", "[catalogue]") {
  for (const std::string& id : catalogue().ids("hwprofiles/ram")) {
    const auto kit = catalogue().ram(id);
    const auto x = id.find("xddr");
    if (!kit || x == std::string::npos) continue;
    const double channels = std::stod(id.substr(0, x));
    const double mega = std::stod(id.substr(id.rfind('-') + 1));
    INFO(id);
    CHECK(near(kit->bandwidth.value.value, channels * 8 * mega * 1e6, 0.005));
  }
}

TEST_CASE("A CPU's bandwidth is channels times 8 bytes times its memory's rate", "[catalogue]") {
  int checked = 0;
  for (const std::string& id : catalogue().ids("hwprofiles/cpus")) {
    const auto c = catalogue().cpu(id);
    if (!c) continue;
    INFO(id);
    CHECK(c->threads >= c->cores);
    CHECK(c->cores <= 512);
    if (c->clock) CHECK(c->clock->value >= Hertz{1e9});
    const bool ddr = c->memory_type.substr(0, 3) == "ddr";
    if (!c->memory_bandwidth || c->memory_channels == 0 || !ddr) continue;
    const double mega = std::stod(c->memory_type.substr(c->memory_type.rfind('-') + 1));
    CHECK(near(c->memory_bandwidth->value.value, c->memory_channels * 8 * mega * 1e6, 0.01));
    ++checked;
  }
  CHECK(checked >= 15);
}

TEST_CASE("Two sockets of a CPU double what it has, and leave its clocks", "[catalogue]") {
  const auto one = catalogue().cpu("xeon-gold-6138");
  REQUIRE(one);
  for (const char* name : {"2x-xeon-gold-6138", "2xxeon-gold-6138", "2x Intel Xeon Gold 6138"}) {
    const auto two = catalogue().cpu(name);
    INFO(name);
    REQUIRE(two);
    CHECK(two->id == "2x-xeon-gold-6138");
    CHECK(two->name == "2x " + one->name);
    CHECK(two->sockets == 2);
    CHECK(two->cores == 2 * one->cores);
    CHECK(two->threads == 2 * one->threads);
    CHECK(two->memory_channels == 2 * one->memory_channels);
    CHECK(two->memory_bandwidth->value == one->memory_bandwidth->value * 2.0);
    CHECK(two->price->value == one->price->value * 2.0);
    CHECK(two->base_clock->value == one->base_clock->value);
    CHECK(two->nodes() == 2);
    REQUIRE(two->remote_read);  // of one of them
    CHECK(two->remote_read->value == one->remote_read->value);
  }
  CHECK_FALSE(catalogue().cpu("2x-2x-xeon-gold-6138"));
  const auto unknown = catalogue().cpu("2x-xeon-gold-6139");
  REQUIRE_FALSE(unknown);
  CHECK(contains(unknown.error().message, "2x-xeon-gold-6139"));
}

TEST_CASE("Every CPU has a base and a boost clock that its sustained clock agrees with",
          "[catalogue]") {
  for (const std::string& id : catalogue().ids("hwprofiles/cpus")) {
    const auto c = catalogue().cpu(id);
    if (!c) continue;
    INFO(id);
    REQUIRE(c->base_clock);
    REQUIRE(c->boost_clock);
    CHECK(c->base_clock->value <= c->boost_clock->value);
    CHECK(c->base_clock->value >= Hertz{0.3e9});
    CHECK(c->boost_clock->value <= Hertz{6.5e9});
    if (!c->clock) continue;
    CHECK(c->clock->value >= c->base_clock->value * 0.5);
    CHECK(c->clock->value <= c->boost_clock->value * 1.05);
  }
}

TEST_CASE("A CPU whose boost clock is below its base clock is refused", "[catalogue]") {
  const auto read = [](const std::string& clocks) {
    const auto document = TomlDocument::parse(
        "name = 'X'\nvendor = 'v'\narchitecture = 'a'\nsource = 'a data sheet'\n"
        "[compute]\ncores = 4\nsimd = 'avx2'\n" +
            clocks,
        "x.toml");
    REQUIRE(document);
    read_cpu(document->root(), "x");
    return document->error();
  };
  CHECK_FALSE(read("base_clock = '3 GHz'\nboost_clock = '3 GHz'\n"));
  const auto error = read("base_clock = '3 GHz'\nboost_clock = '2.9 GHz'\n");
  REQUIRE(error);
  CHECK(contains(error->message, "boost_clock is below base_clock"));
  CHECK(error->where);
}

TEST_CASE("Every SIMD level of a CPU has a rate in every runtime profile", "[catalogue]") {
  for (const std::string& runtime : catalogue().ids("runtimes")) {
    const auto profile = load_runtime_profile(*catalogue().runtime_file(runtime));
    REQUIRE(profile);
    for (const std::string& id : catalogue().ids("hwprofiles/cpus")) {
      const auto c = catalogue().cpu(id);
      if (!c) continue;
      INFO(runtime << " on " << id << " with " << c->simd);
      CHECK(profile->cpu.int8_share.contains(c->simd));
    }
  }
}

TEST_CASE("Check bits in a card's own memory take a sixteenth of it and of its bandwidth",
          "[catalogue]") {
  const auto read = [](const std::string& ecc) {
    const auto document = TomlDocument::parse(
        "name = 'X'\nvendor = 'v'\narchitecture = 'a'\nsource = 'a data sheet'\n"
        "[memory]\ncapacity = '16 GiB'\nbandwidth = '320 GB/s'\n" +
            ecc,
        "x.toml");
    REQUIRE(document);
    const GpuPart part = read_gpu(document->root(), "x");
    CHECK_FALSE(document->error());
    return part;
  };
  CHECK(read("").memory.value == 16_GiB);
  CHECK(read("inline_ecc = false\n").bandwidth.value == 320_GBps);
  CHECK(read("inline_ecc = true\n").memory.value == 15_GiB);
  CHECK(read("inline_ecc = true\n").bandwidth.value == 300_GBps);
}

TEST_CASE("Cards with GDDR memory for servers have their check bits in it", "[catalogue]") {
  const auto left = [](const char* id, Bytes whole) {
    return catalogue().gpu(id)->memory.value / whole;
  };
  for (const char* id : {"a10", "l4", "p40"}) CHECK(left(id, 24_GiB) == 15.0 / 16);
  for (const char* id : {"a2", "t4-16gb"}) CHECK(left(id, 16_GiB) == 15.0 / 16);
  for (const char* id : {"a40", "l40", "l40s"}) CHECK(left(id, 48_GiB) == 15.0 / 16);
  CHECK(left("rtx-4090", 24_GiB) == 1);
  CHECK(left("a100-pcie-80gb", 80_GiB) == 1);  // HBM has chips for them
  const auto stated =
      fixtures::scenario("[rig]\ngpu = 'l4'\nvram_capacity = '24 GiB'\n[model]\nname = 'phi-4'\n");
  REQUIRE(stated);
  CHECK(stated->rig.gpus.front().memory.value == 24_GiB);  // who states it knows
}

TEST_CASE("Links to the cores are stated where they carry less than the memory", "[catalogue]") {
  int stated = 0;
  for (const std::string& id : catalogue().ids("hwprofiles/cpus")) {
    const auto c = catalogue().cpu(id);
    if (!c || !c->core_links) continue;
    ++stated;
    INFO(id);
    REQUIRE(c->memory_bandwidth);
    CHECK(c->core_links->value < c->memory_bandwidth->value);
    CHECK_FALSE(c->core_links->source.empty());
  }
  CHECK(stated > 0);
}

TEST_CASE("Every name and alias leads back to its own file", "[catalogue]") {
  const Catalogue& c = catalogue();
  const auto check = [&](const std::string& folder, const PartInfo& part, const auto& find) {
    std::vector<std::string> names = part.aliases;
    names.push_back(part.name);
    for (const std::string& name : names) {
      const auto found = find(name);
      INFO(folder << ": " << name);
      REQUIRE(found);
      CHECK(found->id == part.id);
    }
  };
  for (const std::string& id : c.ids("hwprofiles/gpus"))
    if (const auto g = c.gpu(id)) check("gpus", *g, [&](const auto& n) { return c.gpu(n); });
  for (const std::string& id : c.ids("hwprofiles/ssds"))
    if (const auto s = c.ssd(id)) check("ssds", *s, [&](const auto& n) { return c.ssd(n); });
  for (const std::string& id : c.ids("hwprofiles/cpus"))
    if (const auto p = c.cpu(id)) check("cpus", *p, [&](const auto& n) { return c.cpu(n); });
}

TEST_CASE("Every model's name and aliases lead back to its own file", "[catalogue]") {
  for (const std::string& id : catalogue().ids("models")) {
    const auto m = catalogue().model(id);
    if (!m) continue;
    std::vector<std::string> names = m->aliases;
    names.push_back(m->name);
    for (const std::string& name : names) {
      const auto found = catalogue().model(name);
      INFO(id << " as " << name);
      REQUIRE(found);
      CHECK(found->id == id);
    }
  }
}

TEST_CASE("Ids are lower case with hyphens, and every file names its source", "[catalogue]") {
  for (const char* folder : {"hwprofiles/gpus", "hwprofiles/cpus", "hwprofiles/ram",
                             "hwprofiles/ssds", "hwprofiles/links", "models", "runtimes"}) {
    for (const std::string& id : catalogue().ids(folder)) {
      INFO(folder << "/" << id);
      CHECK(as_id(id) == id);
      const auto document = TomlDocument::read(catalogue().root() / folder / (id + ".toml"));
      REQUIRE(document);
      CHECK(document->root().text("source").size() > 8);
    }
  }
}
