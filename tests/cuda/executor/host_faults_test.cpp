// Errors on the host within a token or a batch: the GPU is released, the error is reported, and the
// executor stays usable.
#include <atomic>
#include <new>

#include "tests/cuda/executor/placements.hpp"
#include "tests/cuda/executor/whole_models.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

// Makes a thread of the host fail at one of its operations.
struct Trouble {
  std::atomic<int> turns_left{-1};  // negative: none
  int thread = 0;

  std::function<void(int)> hook() {
    return [this](int index) {
      if (index == thread && turns_left >= 0 && turns_left-- == 0)
        throw std::runtime_error("trouble");
    };
  }
};

std::vector<Placement> placements_of(const TinyTraits& t) {
  Placement middle = split(t, t.layers + 1);
  middle.layers[1] = {};
  return {middle, split(t, 2), with_host_cache(split(t, t.layers + 1)),
          with_host_experts(split(t, t.layers + 1), t.layers),
          with_host_decode(split(t, t.layers + 1))};
}

struct Said {
  std::vector<std::int32_t> ids;
  int failures = 0;
};

// Makes every call fail at an operation, one later each time, until it has no operation left.
Said decoded(Executor& executor, Trouble& trouble, const Sampling& sampling, bool fails,
             Recorder* recorder = nullptr) {
  Said said;
  Sampler sampler(sampling);
  executor.record_into(recorder);
  const auto insist = [&](const auto& call) {
    for (int turn = 0;; ++turn) {
      const TokenCount before = executor.cached();
      trouble.turns_left = fails ? turn : -1;
      try {
        call();
        return;
      } catch (const std::runtime_error&) {
        CHECK(executor.cached() == before);
        ++said.failures;
      }
    }
  };
  const auto prompt = prompt_of(70, 500);
  insist([&] { said.ids.push_back(argmax_token(executor.forward(prompt, Logits::kLast))); });
  for (int i = 0; i < 12; ++i)
    insist([&] { said.ids.push_back(executor.decode(said.ids.back(), sampler)); });
  return said;
}

}  // namespace

TEST_CASE("A failing host thread releases the GPU, and the next try gives the same tokens",
          "[cuda][gpu][hybrid]") {
  const TinyTraits traits{.mix = "F16", .layers = 3, .experts = 8};
  const TinyModel tiny = model_of(traits);
  for (const Sampling& sampling : {Sampling{}, Sampling{.temperature = 0.9f, .top_k = 40}})
    for (const Placement& placement : placements_of(traits))
      for (const bool graphs : {true, false})
        for (const int thread : {0, 1}) {
          Trouble trouble;
          trouble.thread = thread;
          ExecutorOptions options = shared_by(placement);
          options.ubatch = 32;
          options.prefill_offload =
              PrefillOffloadPolicy::kHost;  // prompts have turns of the host, too
          options.graphs = graphs;
          const auto want = decoded(*on_gpu(tiny, options), trouble, sampling, false);
          options.before_host_op = trouble.hook();
          const auto got = decoded(*on_gpu(tiny, options), trouble, sampling, true);
          CHECK(got.ids == want.ids);
          CHECK(got.failures >= 13);
        }
}

TEST_CASE("A traced token whose host fails lets the GPU go as well", "[cuda][gpu][hybrid]") {
  const TinyTraits traits{.mix = "F16", .layers = 4, .experts = 8};
  const TinyModel tiny = model_of(traits);
  std::vector<Placement> placements = placements_of(traits);
  Placement streamed = with_host_cache(split(traits, traits.layers + 1));
  for (LayerPlacement& l : streamed.layers)
    l.weights = l.experts = kHost;  // copied, token by token
  placements.push_back(streamed);
  for (const Placement& placement : placements) {
    Trouble trouble;
    ExecutorOptions options = shared_by(placement);
    options.ubatch = 32;
    options.prefill_offload = PrefillOffloadPolicy::kHost;
    const auto want = decoded(*on_gpu(tiny, options), trouble, {}, false);
    options.before_host_op = trouble.hook();
    Recorder recorder;
    const auto got = decoded(*on_gpu(tiny, options), trouble, {}, true, &recorder);
    CHECK(got.ids == want.ids);
    CHECK(got.failures >= 13);
    CHECK_FALSE(recorder.events().empty());
  }
}

// More launches wait for the host than a driver queues.
TEST_CASE("A token of many layers that are shared with the host ends, traced or without graphs",
          "[cuda][gpu][hybrid]") {
  const TinyTraits traits{.mix = "F16", .layers = 256};
  const TinyModel tiny = make_tiny_model(traits);
  for (const Placement& placement : {with_host_cache(split(traits, traits.layers + 1)), [&] {
                                       Placement every_second = split(traits, traits.layers + 1);
                                       for (std::size_t i = 0; i < every_second.layers.size();
                                            i += 2)
                                         every_second.layers[i] = {};
                                       return every_second;
                                     }()}) {
    ExecutorOptions options = shared_by(placement);
    std::vector<std::int32_t> want;
    for (const bool graphs : {true, false})
      for (const bool traced : {false, true}) {
        INFO("graphs " << graphs << ", traced " << traced);
        options.graphs = graphs;
        Trouble none;
        Recorder recorder;
        const Said said =
            decoded(*on_gpu(tiny, options), none, {}, false, traced ? &recorder : nullptr);
        if (want.empty()) want = said.ids;
        CHECK(said.ids == want);
      }
  }
}

TEST_CASE("A host's cache that cannot grow is an error, and decoded tokens stay",
          "[cuda][gpu][hybrid]") {
  const TinyTraits traits{.mix = "F16", .layers = 3};
  const TinyModel tiny = make_tiny_model(traits);
  const auto tokens = prompt_of(80, 500);
  for (const Placement& placement :
       {split(traits, 2), with_host_cache(split(traits, 4)), with_host_decode(split(traits, 4))}) {
    ExecutorOptions options = shared_by(placement);
    options.kv_block = 16;
    const std::vector<float> want = one_by_one(*on_gpu(tiny, options), tokens);
    int blocks = 3;
    options.kv_memory = [&](std::size_t bytes) {
      if (blocks-- <= 0) throw std::bad_alloc();
      return make_large_pages(bytes);
    };
    const auto executor = on_gpu(tiny, options);
    const std::vector<float> got = one_by_one(*executor, {tokens.begin(), tokens.begin() + 48});
    CHECK_THROWS_AS(executor->forward({&tokens[48], 1}, Logits::kLast), std::bad_alloc);
    CHECK(executor->cached() == 48);
    CHECK_THROWS_AS(executor->forward({&tokens[48], 30}, Logits::kLast), std::bad_alloc);
    CHECK(executor->cached() == 48);
    blocks = 100;
    std::vector<float> all = got;
    const auto more = one_by_one(*executor, {tokens.begin() + 48, tokens.end()});
    all.insert(all.end(), more.begin(), more.end());
    CHECK(all == want);
  }
}

TEST_CASE("The limit of the host's memory is reached in mid-decode without harm",
          "[cuda][gpu][hybrid]") {
  const TinyTraits traits{.mix = "F16", .layers = 3};
  const TinyModel tiny = make_tiny_model(traits);
  for (const Placement& placement : {split(traits, 2), with_host_decode(split(traits, 4))}) {
    ExecutorOptions options = shared_by(placement);
    options.kv_block = 16;
    options.upload_threads = 1;
    const auto measure = on_gpu(tiny, options);
    measure->forward(prompt_of(40, 500), Logits::kLast);
    const DeviceMemory held = measure->host();
    const double block = held.kv.value / 3;
    // Buffers of the upload, which are freed before the first token, have a little more than 40
    // MiB.
    options.ram_limit = held.needed() + 48_MiB;
    const auto executor = on_gpu(tiny, options);
    const auto room = TokenCount((48_MiB).value / block) + 3;
    executor->fill((room - 4) * 16 - 40);
    executor->forward(prompt_of(40, 500), Logits::kLast);
    Sampler sampler({});
    std::string said;
    std::int32_t id = 7;
    try {
      for (int i = 0; i < 200; ++i) id = executor->decode(id, sampler);
    } catch (const ShortOfMemory& e) {
      said = e.what();
    }
    CHECK(said.find("asked for the KV cache") != std::string::npos);
    CHECK(said.find("free of a limit of") != std::string::npos);
    CHECK(executor->cached() == room * 16);
    CHECK(executor->host().needed() <= *options.ram_limit);
    executor->truncate(40);
    executor->decode(7, sampler);
    CHECK(executor->cached() == 41);
  }
}
