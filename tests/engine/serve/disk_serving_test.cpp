// Answers of a serving loop whose blocks go to disk and come back.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/serve/disk_tier.hpp"
#include "engine/serve/restore_measurement.hpp"
#include "engine/serve/serving_loop.hpp"
#include "tests/catch.hpp"
#include "tests/engine/serve/hashing_executor.hpp"
#include "tests/engine/serve/memory_store.hpp"
#include "tests/engine/serve/served_answers.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using fixtures::HashingExecutor;
using fixtures::MemoryStore;
using fixtures::ServedAnswers;

namespace {

using Tokens = std::vector<std::int32_t>;

constexpr std::size_t kBytes = 4096;  // of a buffer
constexpr BatchLimits kLimits{
    .block_tokens = 4, .blocks = 24, .host_blocks = 0, .step_tokens = 16, .step_sequences = 6};

struct Counts : ServingObserver {
  void admitted(CompletionId, Time, const FoundTokens& f) override {
    here += f.here;
    on_host += f.on_host;
    on_disk += f.on_disk;
    anew += f.computed_anew;
  }
  void copied(Time, const CopiedBlocks& blocks) override {
    to_disk += blocks.to_disk;
    from_disk += blocks.from_disk;
  }
  void lost_disk(const std::string& why) override { lost.push_back(why); }
  TokenCount here = 0, on_host = 0, on_disk = 0, anew = 0;
  std::size_t to_disk = 0, from_disk = 0;
  std::vector<std::string> lost;
};

std::unique_ptr<ServingLoop> serve(BatchExecutor& executor, BlockStore& store,
                                   ServingObserver& observer, KvRestore restore,
                                   const RestoreRates& rates = {}) {
  ServingOptions options{engine_policy(executor.limits()), 0, &store, rates};
  options.policy.restore = restore;
  auto loop = ServingLoop::start(executor, options, &observer);
  REQUIRE(loop.ok());
  return *std::move(loop);
}

Tokens random_tokens(std::mt19937& random, std::size_t count) {
  Tokens out;
  while (out.size() < count) out.push_back(std::int32_t(random() % HashingExecutor::kVocabulary));
  return out;
}

// Until so many requests have ended, and all that was said is on disk, or nothing goes there any
// more.
void await_writes(const ServingLoop& loop, std::uint64_t ended) {
  for (CompletionsState state; state.completed < ended || state.disk_writes > 0;
       state = loop.state())
    std::this_thread::sleep_for(std::chrono::microseconds(100));
}

// Conversations, of which one asks after the other, in any order: the pool, which has room for
// three, has lost what most of them said before.
void converse(ServingLoop& loop, std::size_t conversations, int requests) {
  std::mt19937 random(5);
  std::vector<Tokens> said;
  for (std::size_t c = 0; c < conversations; ++c) said.push_back(random_tokens(random, 20));
  ServedAnswers answers;
  for (int i = 0; i < requests; ++i) {
    Tokens& own = said[random() % conversations];
    REQUIRE(answers.ask(loop, i, {own, 6}));
    answers.wait_for(std::size_t(i) + 1);
    const auto answer = answers[i];
    REQUIRE(answer.ends.size() == 1);
    REQUIRE(answer.ends[0].error == "");
    REQUIRE(answer.ids == HashingExecutor::answer(own, 6));
    await_writes(loop, std::uint64_t(i) + 1);
    own.insert(own.end(), answer.ids.begin(), answer.ids.end());
    own.push_back(i);
  }
}

}  // namespace

TEST_CASE("what has left the pool comes back from disk, and the answers are the same") {
  for (const int host_blocks : {0, 30}) {
    BatchLimits limits = kLimits;
    limits.host_blocks = host_blocks;
    HashingExecutor executor(limits);
    MemoryStore store(200, kBytes);
    Counts counts;
    auto loop = serve(executor, store, counts, KvRestore::kAlways);
    converse(*loop, 8, 40);
    loop->stop();
    CHECK(loop->leaks() == "");
    CHECK(counts.lost.empty());
    CHECK(counts.on_disk > 200);
    CHECK(counts.from_disk == std::size_t(counts.on_disk / 4));
    CHECK(counts.anew == 0);
    CHECK((counts.on_host > 0) == (host_blocks > 0));
    CHECK(loop->state().disk_prompt_tokens == std::uint64_t(counts.on_disk));
    loop.reset();
    CHECK(std::size_t(store.reads) == counts.from_disk);
  }
}

TEST_CASE("a store that is smaller than what is said keeps what was used last") {
  HashingExecutor executor(kLimits);
  MemoryStore store(30, kBytes);
  Counts counts;
  auto loop = serve(executor, store, counts, KvRestore::kAlways);
  converse(*loop, 8, 40);
  loop->stop();
  CHECK(loop->leaks() == "");
}

TEST_CASE("a disk that fails at any call ends no request, and is told of once") {
  int calls = 1;
  for (int site = 0; site <= calls; ++site) {  // site 0: nothing fails
    HashingExecutor executor(kLimits);
    MemoryStore store(100, kBytes);
    store.fails_at = site;
    Counts counts;
    auto loop = serve(executor, store, counts, KvRestore::kAlways);
    converse(*loop, 8, 24);
    loop->stop();
    CHECK(loop->leaks() == "");
    CHECK(loop->state().failed == 0);
    loop.reset();
    if (site == 0) {
      calls = store.calls;
      CHECK(calls > 60);
      CHECK(counts.lost.empty());
      continue;
    }
    CHECK(counts.lost == std::vector<std::string>{"the disk is gone"});
    CHECK(store.calls == site);
  }
}

TEST_CASE("a slow disk is not waited for, and a fast one is") {
  const RestoreRates slow = RestoreRates::fixed(BytesPerSecond{1e12}, BytesPerSecond{1}, 1000);
  const RestoreRates fast = RestoreRates::fixed(BytesPerSecond{1e12}, BytesPerSecond{1e12}, 1000);
  for (const bool is_fast : {false, true}) {
    HashingExecutor executor(kLimits);
    MemoryStore store(200, kBytes);
    Counts counts;
    auto loop = serve(executor, store, counts, KvRestore::kAuto, is_fast ? fast : slow);
    converse(*loop, 8, 30);
    loop->stop();
    CHECK((counts.on_disk > 0) == is_fast);
    CHECK((counts.anew > 0) != is_fast);
    CHECK(loop->leaks() == "");
  }
}

TEST_CASE("rates that are measured decide: of the disk, and of the executor") {
  for (const bool disk_is_slow : {true, false}) {
    HashingExecutor executor(kLimits);
    MemoryStore store(200, kBytes);
    using std::chrono::microseconds;
    // A block takes 5 ms from the disk and next to nothing to compute, or the other way round.
    store.read_time = microseconds(disk_is_slow ? 5000 : 0);
    executor.before_call = [&](int) {
      if (!disk_is_slow) std::this_thread::sleep_for(microseconds(5000));  // 16 tokens at most
    };
    const auto rates = measure_rates(executor, &store);
    REQUIRE(rates.ok());
    CHECK(rates->copy_rate(KvTier::kDisk));
    CHECK(rates->tokens_per_s());
    Counts counts;
    auto loop = serve(executor, store, counts, KvRestore::kAuto, *rates);
    converse(*loop, 8, 24);
    loop->stop();
    CHECK((counts.on_disk == 0) == disk_is_slow);
    CHECK((counts.anew > 0) == disk_is_slow);
  }
}

TEST_CASE("a store that fails before anything is served is an error") {
  HashingExecutor executor(kLimits);
  MemoryStore store(8, kBytes);
  store.fails_at = 3;
  const auto rates = measure_rates(executor, &store);
  REQUIRE_FALSE(rates.ok());
  CHECK(rates.error().kind == ErrorKind::kMachine);
  CHECK(rates.error().message == "the disk is gone");
}

TEST_CASE("requests that are cancelled while their blocks come back leave nothing behind") {
  HashingExecutor executor(kLimits);
  MemoryStore store(300, kBytes);
  store.read_time = std::chrono::microseconds(200);
  Counts counts;
  auto loop = serve(executor, store, counts, KvRestore::kAlways);
  std::mt19937 random(23);
  std::vector<Tokens> prompts;
  for (int i = 0; i < 12; ++i) prompts.push_back(random_tokens(random, 30 + random() % 20));
  ServedAnswers answers;
  constexpr int kRequests = 400;
  std::size_t cancelled = 0;
  for (int i = 0; i < kRequests; ++i) {
    CompletionId id = 0;
    REQUIRE(answers.ask(*loop, i, {prompts[std::size_t(i) % 12], 3}, &id));
    if (random() % 2 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
      loop->cancel(id);
      ++cancelled;
    }
    if (i % 8 == 7) answers.wait_for(std::size_t(i) - 3);
  }
  answers.wait_for(kRequests);
  loop->stop();
  CHECK(loop->leaks() == "");
  CHECK(loop->state().blocks_used == 0);
  CHECK(loop->state().failed == 0);
  CHECK(loop->state().cancelled > cancelled / 8);
  CHECK(counts.on_disk > 0);
  for (int i = 0; i < kRequests; ++i) {
    Tokens whole = HashingExecutor::answer(prompts[std::size_t(i) % 12], 3);
    const auto answer = answers[i];
    REQUIRE(answer.ends.size() == 1);
    if (answer.ends[0].reason == FinishReason::kCancelled) whole.resize(answer.ids.size());
    REQUIRE(answer.ids == whole);
  }
}

TEST_CASE("a loop stops while blocks come back from a slow disk") {
  HashingExecutor executor(kLimits);
  MemoryStore store(300, kBytes);
  Counts counts;
  auto loop = serve(executor, store, counts, KvRestore::kAlways);
  converse(*loop, 8, 30);
  store.read_time = std::chrono::milliseconds(50);
  ServedAnswers answers;
  std::mt19937 random(5);
  for (int i = 0; i < 8; ++i) {
    Tokens prompt = random_tokens(random, 20);  // as converse() began
    prompt.resize(40, 1);
    REQUIRE(answers.ask(*loop, i, {prompt, 3}));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto begin = std::chrono::steady_clock::now();
  loop->stop();
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(1));
  CHECK(answers.ended() == 8);
  CHECK(loop->leaks() == "");
}

namespace {

// While a block is copied to be written, something else happens.
struct InterruptedExecutor : HashingExecutor {
  using HashingExecutor::HashingExecutor;
  std::function<void()> meanwhile;
  void read_block(int block, std::span<std::byte> to) override {
    meanwhile();
    HashingExecutor::read_block(block, to);
  }
};

}  // namespace

TEST_CASE("nothing is written after a read has failed, not what was copied meanwhile") {
  InterruptedExecutor executor(kLimits);
  MemoryStore store(8, kBytes);
  store.fails_at = 1;
  DiskTier tier(store, executor, [] {});
  DiskTier::Results told;
  executor.meanwhile = [&] {
    tier.read(1, {{0, 0}});
    while (told.failure.empty()) told = tier.take_results();
  };
  const BlockCopy copy{0, 1};
  CHECK(tier.write({&copy, 1}) == 0);
  CHECK(told.failure.find("the disk is gone") != std::string::npos);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(tier.take_results().written.empty());
  CHECK(store.writes == 0);
}
