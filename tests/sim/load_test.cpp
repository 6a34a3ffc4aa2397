// From a file to weights where they compute, against the closed forms of a pipeline.
#include "sim/load.hpp"

#include <fmt/format.h>

#include <cmath>

#include "perfmodel/memory.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "sim/machine/machine.hpp"
#include "tests/catch.hpp"
#include "tests/sim/scenario_generator.hpp"

using namespace rigcast;
using namespace rigcast::sim;
using fixtures::scenario;
using fixtures::Settings;
using fixtures::with;

namespace {

struct Loaded {
  explicit Loaded(const Settings& settings) : s(scenario(settings)), p(resolve_placement(s)) {
    set_machine(s.rig);
  }
  LoadForecast load(Start start) const { return forecast_load(s, p, start); }
  Bytes file() const { return {double(s.tensors.bytes())}; }
  Bytes on_host() const { return {double(s.tensors.embedding.bytes())}; }
  Bytes on_gpu() const { return file() - on_host(); }
  BytesPerSecond ssd() const {
    return s.rig.ssd.sequential_read.value * s.runtime.load.ssd_share.value;
  }
  // The time before tensors: tables of the vocabulary, and the context on a GPU.
  Seconds before() const {
    const Seconds start = s.runtime.backends[std::size_t(s.settings.backend)].start.value;
    return s.runtime.load.vocabulary.value * double(s.model.vocabulary) +
           (s.rig.gpus.empty() ? Seconds{} : start);
  }
  // Pages of the page cache enter the page table.
  Seconds mapping() const { return file() / s.runtime.load.map->value; }
  // Of a part of the file that is cut into equal chunks.
  Bytes chunk_of(Bytes part) const {
    const Bytes most = std::max(s.runtime.load.chunk, file() / 400.0);
    return part / std::ceil(part / most);
  }

  Scenario s;
  Placement p;
};

Approx about(Seconds s) { return Approx(s.value).epsilon(1e-9).margin(0); }

const Settings kRigcast = {{"runtime.name", "rigcast"}};

}  // namespace

TEST_CASE("without overlap a cold load is the sum of its stages", "[load]") {
  const Loaded l(Settings{});
  REQUIRE_FALSE(l.s.runtime.load.overlap);
  REQUIRE(l.s.runtime.load.staging == Staging::kPageable);
  // A mapped file: read from the SSD, then copied to the GPU from where it lies.
  const Seconds upload = l.on_gpu() / l.s.rig.links[0].pageable.value;
  CHECK(l.load(Start::kCold).total.value == about(l.before() + l.file() / l.ssd() + upload));
  CHECK(l.load(Start::kWarm).total.value == about(l.before() + l.mapping() + upload));
  CHECK(l.load(Start::kResident).total.value == 0);
}

TEST_CASE("a mapped file without a GPU is read, and nothing else", "[load]") {
  const Loaded l(Settings{{"placement.gpu_layers", "0"}});
  CHECK(l.load(Start::kCold).total.value == about(l.before() + l.file() / l.ssd()));
  CHECK(l.load(Start::kWarm).total.value == about(l.before() + l.mapping()));
}

TEST_CASE("a machine on which mapping was measured maps at its own rate", "[load]") {
  const Loaded l(Settings{{"placement.gpu_layers", "0"}, {"rig.ssd_cached_map", "90 GB/s"}});
  CHECK(l.load(Start::kWarm).total.value == about(l.before() + l.file() / 90_GBps));
  CHECK(l.load(Start::kCold).total.value == about(l.before() + l.file() / l.ssd()));
}

TEST_CASE("a machine on which the GPU's context was timed loads with that time", "[load]") {
  const Loaded l(Settings{}), probed(Settings{{"rig.gpu_start", "0.5 s"}});
  const Seconds stated = l.s.runtime.backends[std::size_t(l.s.settings.backend)].start.value;
  REQUIRE(stated > Seconds{});
  CHECK(probed.load(Start::kWarm).total.value ==
        about(l.load(Start::kWarm).total - stated + Seconds{0.5}));
  // A runtime that has its context before it loads.
  const Loaded own(kRigcast), own_probed(with(kRigcast, {{"rig.gpu_start", "0.5 s"}}));
  CHECK(own_probed.load(Start::kWarm).total == own.load(Start::kWarm).total);
}

TEST_CASE("who maps the file reads at what pages of a mapping were measured to come at", "[load]") {
  const Settings probed{{"rig.gpu", "[]"}, {"rig.ssd_mapped_read", "9 GB/s"}};
  const Loaded mapping(with(kRigcast, probed));
  const Loaded requests(with(probed, {{"runtime.name", "transformers"}}));
  CHECK(mapping.load(Start::kCold).total.value == about(mapping.file() / 9_GBps));
  const Seconds copies = requests.load(Start::kWarm).total;
  CHECK(requests.load(Start::kCold).total.value ==
        about(requests.file() / requests.ssd() + copies));
}

TEST_CASE("weights for a CPU with layouts of its own are repacked after they are read", "[load]") {
  Loaded l(Settings{{"rig.gpu", "[]"}, {"rig.cpu_simd", "avx2"}});
  // Q4_K alone: of Q6_K there is no layout for AVX2.
  double repacked = 0;
  for (const Tensor& t : l.s.tensors.tensors)
    if (t.format == QuantFormat::kQ4_K && t.layer >= 0) repacked += double(t.bytes);
  REQUIRE(repacked > 0);
  const Seconds repacking = Bytes{repacked} / l.s.runtime.load.repack->value;
  const Seconds read = l.file() / l.ssd();
  CHECK(l.load(Start::kCold).total.value == about(l.before() + read + repacking));
  CHECK(l.load(Start::kWarm).total.value == about(l.before() + l.mapping() + repacking));
}

TEST_CASE("several readers get of a disk what it gave at best when it was probed", "[load]") {
  const auto seconds = [](const char* requests, const char* pages) {
    return Loaded(with(kRigcast, {{"rig.ssd_read", requests}, {"rig.ssd_mapped_read", pages}}))
        .load(Start::kCold)
        .total.value;
  };
  const double both = seconds("2 GB/s", "2 GB/s");
  CHECK(seconds("2 GB/s", "1 GB/s") == Approx(both));
  CHECK(seconds("1 GB/s", "2 GB/s") == Approx(both));
  CHECK(seconds("1 GB/s", "1 GB/s") > 1.9 * both);
}

TEST_CASE("with overlap a slow SSD hides everything but the last chunk's way on", "[load]") {
  const Loaded l(with(kRigcast, {{"rig.ssd", "sata-ssd"}}));
  const Bytes last = l.chunk_of(l.on_gpu());
  const Seconds fill = last / l.s.runtime.load.host_copy.value + last / l.s.rig.links[0].h2d.value;
  CHECK(l.load(Start::kCold).total.value == about(l.file() / l.ssd() + fill));
}

TEST_CASE("with overlap a slow link hides everything but the first chunk's way to it", "[load]") {
  const Loaded l(with(kRigcast, {{"rig.pcie", "3x4"}}));
  const BytesPerSecond h2d = l.s.rig.links[0].h2d.value;
  const BytesPerSecond copy = l.s.runtime.load.host_copy.value;
  REQUIRE(h2d < copy);
  // The host's part is copied for the GPU to reach; then the first chunk for the GPU is staged, and
  // from there the link works.
  const Seconds fill = (l.on_host() + l.chunk_of(l.on_gpu())) / copy;
  CHECK(l.load(Start::kWarm).total.value == about(fill + l.on_gpu() / h2d));
}

TEST_CASE("with overlap a slow copy in RAM hides everything but the last upload", "[load]") {
  // RAM serves the copy, which reads and writes, and the link at the same time.
  Loaded l(with(kRigcast, {{"rig.ram_bandwidth", "1000 GB/s"}}));
  l.s.runtime.load.host_copy.value = 8_GBps;
  set_machine(l.s.rig);
  const BytesPerSecond copy = l.s.runtime.load.host_copy.value;
  REQUIRE(copy < l.s.rig.links[0].h2d.value);
  const Seconds drain = l.chunk_of(l.on_gpu()) / l.s.rig.links[0].h2d.value;
  CHECK(l.load(Start::kWarm).total.value == about(l.file() / copy + drain));
}

TEST_CASE("several readers are each as fast as one alone, up to what they reach together",
          "[load]") {
  const Settings fast{{"rig.ram_bandwidth", "4000 GB/s"}, {"rig.pcie_h2d", "1000 GB/s"}};
  const auto warm = [&](const char* one) {
    return Loaded(with(kRigcast, with(fast, {{"rig.ssd_cached_read", one}}))).load(Start::kWarm);
  };
  const Loaded l(with(kRigcast, fast));
  const double together = l.s.runtime.load.host_copy.value.value;
  REQUIRE(l.s.runtime.load.readers > 4);
  const double slow = together / l.s.runtime.load.readers / 2 / 1e9;
  // Half of what they reach together, for all that goes to the GPU; one alone copies the host's.
  const Seconds host = l.on_host() / BytesPerSecond{slow * 1e9};
  const Seconds gpu = l.on_gpu() / BytesPerSecond{together / 2};
  const auto text = fmt::format("{} GB/s", slow);
  CHECK(warm(text.c_str()).total.value == Approx((host + gpu).value).epsilon(0.01));
  CHECK(warm("9 GB/s").total.value < 0.7 * (host + gpu).value);
}

TEST_CASE("a cold start reads every byte of the file once", "[load]") {
  const Settings settings = GENERATE(
      Settings{}, Settings{{"placement.gpu_layers", "10"}}, Settings{{"runtime.name", "rigcast"}},
      // The head is the embedding: needed on both sides, stored once.
      Settings{{"model.name", "llama-3.2-3b"}, {"placement.gpu_layers", "29"}},
      Settings{{"model.name", "llama-3.2-3b"}, {"placement.gpu_layers", "5"}},
      Settings{{"rig.gpu", "[\"2xrtx-3060-12gb\"]"}},
      with(kRigcast, {{"placement.gpu_layers", "33"}, {"placement.decode_device", "cpu"}}));
  const Loaded l(settings);
  const LoadForecast cold = l.load(Start::kCold);
  CHECK(cold.use.bytes[std::size_t(Resource::kSsd)] == Approx(l.file().value).epsilon(1e-12));
  CHECK(l.load(Start::kWarm).use.bytes[std::size_t(Resource::kSsd)] == 0);
}

TEST_CASE("what a load brings to the GPUs is what their memory holds", "[load]") {
  const Settings settings =
      GENERATE(Settings{}, Settings{{"placement.gpu_layers", "10"}},
               Settings{{"model.name", "llama-3.2-3b"}, {"placement.gpu_layers", "29"}},
               Settings{{"rig.gpu", "[\"2xrtx-3060-12gb\"]"}},
               // Of its output matrices the host has the only one: no GPU waits for it.
               with(kRigcast, {{"placement.gpu_layers", "33"}, {"placement.decode_device", "cpu"}}),
               with(kRigcast, {{"model.name", "llama-3.2-3b"},
                               {"placement.gpu_layers", "29"},
                               {"placement.decode_device", "cpu"}}));
  const Loaded l(settings);
  double weights = 0;
  const MemoryPlan plan = plan_memory(l.s, l.p, 1);
  for (std::size_t g = 0; g + 1 < plan.devices.size(); ++g)
    weights += plan.devices[g].weights.value;
  const LoadForecast warm = l.load(Start::kWarm);
  CHECK(warm.use.bytes[std::size_t(Resource::kH2d)] == Approx(weights).epsilon(1e-12));
}

TEST_CASE("a colder start never loads faster", "[load]") {
  fixtures::ScenarioGenerator generator(11);
  for (int i = 0; i < 80; ++i) {
    const Scenario s = generator.next();
    const Placement p = resolve_placement(s);
    CAPTURE(generator.name());
    set_machine(s.rig);
    const double cold = forecast_load(s, p, Start::kCold).total.value;
    const double warm = forecast_load(s, p, Start::kWarm).total.value;
    CHECK(cold >= warm * (1 - 1e-9));
    CHECK(cold > 0);
    CHECK(warm >= 0);
  }
}

TEST_CASE("a projector and a draft model are loaded, too", "[load]") {
  const Loaded model(Settings{}), draft({{"draft.name", "llama-3.2-1b"}, {"draft.quant", "Q8_0"}});
  const BytesPerSecond link = model.s.rig.links[0].pageable.value;
  const Bytes more{double(draft.s.draft->tensors.bytes())};
  // Its matrix of embeddings is its head, too: on the host as pages of the file, and on the GPU.
  const Seconds vocabularies = model.before() + model.s.runtime.load.vocabulary.value *
                                                    double(draft.s.draft->model.vocabulary);
  const Seconds uploads = (model.on_gpu() + more) / link;
  CHECK(draft.load(Start::kWarm).total.value ==
        about(vocabularies + model.mapping() + more / model.s.runtime.load.map->value + uploads));
  CHECK(draft.load(Start::kCold).total.value ==
        about(vocabularies + (model.file() + more) / model.ssd() + uploads));

  for (const bool on_gpu : {true, false}) {
    Loaded seeing(Settings{});
    seeing.s.projector = Projector{"mmproj.gguf", 1_GiB, on_gpu};
    // In RAM it is read into a buffer.
    const BytesPerSecond rate = on_gpu ? link : model.s.runtime.load.host_copy.value;
    CHECK(seeing.load(Start::kWarm).total.value ==
          about(model.before() + model.mapping() + model.on_gpu() / link + 1_GiB / rate));
  }
}

TEST_CASE("in unified memory, a GPU other than Metal's has copies of the mapped weights",
          "[load]") {
  Loaded l({{"rig.gpu", "strix-halo-128gb"}, {"rig.ram", "128 GiB"}});
  REQUIRE(l.s.rig.unified());
  REQUIRE(l.s.settings.backend != Backend::kMetal);
  // A pipeline's copy out of the page cache, of what is the GPU's. RAM, which carries it twice, is
  // faster.
  const BytesPerSecond rate = l.s.runtime.load.host_copy.value;
  REQUIRE(l.s.rig.ram.bandwidth.value > rate * 2.0);
  const Seconds copy = l.on_gpu() / rate;
  CHECK(l.load(Start::kWarm).total.value == about(l.before() + l.mapping() + copy));
  CHECK(l.load(Start::kCold).total.value == about(l.before() + l.file() / l.ssd() + copy));

  l.s.settings.backend = Backend::kMetal;  // computes on the file's pages
  CHECK(l.load(Start::kWarm).total.value == about(l.before() + l.mapping()));
  CHECK(l.load(Start::kCold).total.value == about(l.before() + l.file() / l.ssd()));
}
