// A server with steps of constant time is a queue whose waiting times are known.
#include <cmath>
#include <random>

#include "tests/sim/serving/serving_fixture.hpp"

using namespace rigcast;
using fixtures::served;

namespace {

constexpr std::size_t kManyBlocks = 1 << 20;
constexpr std::size_t kRequests = 40'000;
constexpr std::size_t kBatches = 20;

// Gaps of a Poisson process; the library's distributions differ between implementations.
class Gaps {
 public:
  Gaps(double rate, std::uint64_t seed) : rate_(rate), random_(seed) {}
  double uniform() { return (double(random_() >> 11) + 0.5) / 9007199254740992.0; }
  double next() { return -std::log(uniform()) / rate_; }

 private:
  double rate_;
  std::mt19937_64 random_;
};

template <class Output>
std::vector<ServedRequest> poisson(double rate, std::uint64_t seed, Output output) {
  Gaps gaps(rate, seed);
  std::vector<ServedRequest> load(kRequests);
  double now = 0;
  for (ServedRequest& r : load) {
    r.arrival = Seconds{now += gaps.next()};
    r.prompt = 1;
    r.output = output(gaps);
  }
  return load;
}

SchedulerPolicy slots(std::size_t count) {
  SchedulerPolicy p;
  p.sequences = count;
  p.step_tokens = 1 << 20;
  p.prefix_cache = false;
  return p;
}

// Mean over the requests and its standard error by batch means, the first tenth left out.
struct Mean {
  double value = 0, error = 0;
};
template <class Of>
Mean mean_of(const std::vector<ServedRequest>& load, const ServingRun& run, Of of) {
  const std::size_t from = load.size() / 10, size = (load.size() - from) / kBatches;
  std::vector<double> batches;
  for (std::size_t b = 0; b < kBatches; ++b) {
    double sum = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t id = from + b * size + i;
      sum += of(load[id], run.requests[id]);
    }
    batches.push_back(sum / double(size));
  }
  Mean m;
  for (const double b : batches) m.value += b / double(kBatches);
  for (const double b : batches) m.error += (b - m.value) * (b - m.value);
  m.error = std::sqrt(m.error / double(kBatches - 1) / double(kBatches));
  return m;
}

double queued(const ServedRequest& r, const ServedTimes& t) {
  return (t.scheduled - r.arrival).value;
}

void check_within_four_errors(const Mean& found, double expected) {
  INFO("found " << found.value << " +- " << found.error << ", expected " << expected);
  CHECK(std::abs(found.value - expected) < 4 * found.error);
}

// Little's law: what waits and runs over time is what the requests waited and ran, and nothing is
// lost: tokens of prompts and answers, and blocks.
void check_conservation(const std::vector<ServedRequest>& load, const ServingRun& run,
                        std::size_t blocks) {
  double waiting = 0, running = 0;
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < load.size(); ++i) {
    const ServedTimes& t = run.requests[i];
    REQUIRE(t.preemptions == 0);
    waiting += (t.scheduled - load[i].arrival).value;
    running += (t.last_token - t.scheduled).value;
    tokens += load[i].prompt + load[i].output - 1;  // the last token is not computed further
  }
  CHECK(run.waiting == Approx(waiting).epsilon(1e-9));
  CHECK(run.running == Approx(running).epsilon(1e-9));
  CHECK(run.computed_tokens + run.hit_tokens - run.lost_tokens == tokens);
  CHECK(run.free_blocks_at_end == blocks);
}

}  // namespace

TEST_CASE("One slot with steps of constant time is M/D/1", "[serving]") {
  for (const double rho : {0.5, 0.8, 0.9}) {
    const auto load = poisson(rho, 7, [](Gaps&) { return 1; });
    const ServingRun run =
        served(load, slots(1), kManyBlocks, [](const StepWork&) { return Seconds{1}; });
    check_within_four_errors(mean_of(load, run, queued), rho / (2 * (1 - rho)));
    check_conservation(load, run, kManyBlocks);
  }
}

TEST_CASE("One slot with answers of geometric lengths obeys Pollaczek and Khinchine", "[serving]") {
  constexpr double kStep = 0.01, kMean = 50;
  const auto geometric = [](Gaps& g) {
    return 1 + TokenCount(std::log(g.uniform()) / std::log(1 - 1 / kMean));
  };
  for (const double rho : {0.6, 0.85}) {
    const double rate = rho / (kMean * kStep);
    const auto load = poisson(rate, 11, geometric);
    const ServingRun run =
        served(load, slots(1), kManyBlocks, [](const StepWork&) { return Seconds{kStep}; });
    const double second = (2 * kMean * kMean - kMean) * kStep * kStep;  // E[S^2]
    check_within_four_errors(mean_of(load, run, queued), rate * second / (2 * (1 - rho)));
    check_conservation(load, run, kManyBlocks);
  }
}

TEST_CASE("Slots whose steps do not grow with the batch obey Erlang C", "[serving]") {
  // Answers of geometric lengths in c slots: M/M/c, but for steps, which are whole.
  constexpr double kStep = 0.01, kMean = 50, kService = kMean * kStep;
  constexpr int kSlots = 4;
  const auto geometric = [](Gaps& g) {
    return 1 + TokenCount(std::log(g.uniform()) / std::log(1 - 1 / kMean));
  };
  for (const double rho : {0.6, 0.85}) {
    const double offered = rho * kSlots;  // erlangs
    double term = 1, sum = 0;
    for (int k = 0; k < kSlots; ++k) {
      sum += term;
      term *= offered / (k + 1);
    }
    const double waits = term / (1 - rho) / (sum + term / (1 - rho));
    const double expected = waits * kService / (kSlots * (1 - rho));
    const auto load = poisson(offered / kService, 13, geometric);
    const ServingRun run =
        served(load, slots(kSlots), kManyBlocks, [](const StepWork&) { return Seconds{kStep}; });
    const Mean found = mean_of(load, run, queued);
    INFO(rho << ": found " << found.value << " +- " << found.error << ", expected " << expected);
    // A request that finds a free slot waits for the end of the step, half of one in the mean.
    CHECK(std::abs(found.value - kStep / 2 - expected) < 4 * found.error + kStep / 2);
    check_conservation(load, run, kManyBlocks);
  }
}

TEST_CASE("At high load one slot waits as Kingman says", "[serving]") {
  // Gaps of four exponential parts (ca^2 = 1/4) and answers of geometric lengths (cs^2 nearly 1).
  constexpr double kStep = 0.01, kMean = 50, kService = kMean * kStep, kRho = 0.96;
  Gaps gaps(4 * kRho / kService, 31);
  std::vector<ServedRequest> load(4 * kRequests);
  double now = 0;
  for (ServedRequest& r : load) {
    for (int part = 0; part < 4; ++part) now += gaps.next();
    r = {
        Seconds{now}, 1, 1 + TokenCount(std::log(gaps.uniform()) / std::log(1 - 1 / kMean)), {}, 0};
  }
  const ServingRun run =
      served(load, slots(1), kManyBlocks, [](const StepWork&) { return Seconds{kStep}; });
  const double variation = (0.25 + 1 - 1 / kMean) / 2;
  check_within_four_errors(mean_of(load, run, queued), variation * kRho / (1 - kRho) * kService);
}

TEST_CASE("Steps that grow with the batch share the processor", "[serving]") {
  // Every sequence gets a token in c times the sequences: a request of L tokens takes L c / (1 -
  // rho), whatever the lengths of the others.
  constexpr double kPerSequence = 0.001, kRho = 0.7;
  const auto two_lengths = [](Gaps& g) { return TokenCount(g.uniform() < 0.5 ? 100 : 300); };
  const auto load = poisson(kRho / (200 * kPerSequence), 5, two_lengths);
  const ServingRun run = served(load, slots(100'000), kManyBlocks, [](const StepWork& w) {
    return Seconds{kPerSequence * double(w.decodes + TokenCount(w.prompts.size()))};
  });
  check_conservation(load, run, kManyBlocks);
  for (const TokenCount length : {100, 300}) {
    // In units of the expected time; requests of the other length count as what is expected.
    const double expected = double(length) * kPerSequence / (1 - kRho);
    double count = 0;
    for (const ServedRequest& r : load) count += r.output == length ? 1 : 0;
    const double share = count / double(load.size());
    const Mean found = mean_of(load, run, [&](const ServedRequest& r, const ServedTimes& t) {
      return r.output == length ? (t.last_token - r.arrival).value / share : 0.0;
    });
    INFO(length << " tokens: found " << found.value << " +- " << found.error << ", expected "
                << expected);
    // Whole steps: a request waits for the end of the one in which it arrives, half a step on
    // average, of rho / (1 - rho) sequences.
    CHECK(std::abs(found.value - expected) < 4 * found.error + kPerSequence * kRho / (1 - kRho));
  }
}

TEST_CASE("Users who think obey mean value analysis, and no load passes the bounds", "[serving]") {
  // A step takes c for every sequence, which is processor sharing: with n users, of which each
  // thinks Z in the mean, R(n) = S (1 + Q(n - 1)), X(n) = n / (Z + R(n)), Q(n) = X(n) R(n).
  constexpr double kPerSequence = 0.001, kTokens = 50, kThink = 1,
                   kService = kTokens * kPerSequence;
  for (const std::size_t users : {1u, 10u, 20u, 40u}) {
    double queue = 0, throughput = 0;
    for (std::size_t n = 1; n <= users; ++n) {
      const double response = kService * (1 + queue);
      throughput = double(n) / (kThink + response);
      queue = throughput * response;
    }
    Gaps think(1 / kThink, 17);
    ClosedLoop loop(users, kRequests, [&](std::size_t) {
      return ClosedLoop::Turn{{{}, 1, TokenCount(kTokens), {}, 0}, Seconds{think.next()}};
    });
    const auto served_loop =
        serve(loop, slots(1000), TokenCount(kManyBlocks) * 16, [](const StepWork& w) {
          return Seconds{kPerSequence * double(w.decodes + TokenCount(w.prompts.size()))};
        });
    REQUIRE(served_loop);
    const ServingRun& run = *served_loop;
    check_conservation(run.load, run, kManyBlocks);
    // Seconds of each twentieth of the requests.
    const Mean seconds = mean_of(run.load, run, [&](const ServedRequest& r, const ServedTimes&) {
      const std::size_t id = std::size_t(&r - run.load.data());
      return id == 0 ? 0.0 : (r.arrival - run.load[id - 1].arrival).value;
    });
    INFO(users << " users: " << 1 / seconds.value << " requests/s, expected " << throughput);
    // A request waits for the end of the step in which it arrives: half of one, of `queue`
    // sequences.
    const double waits = kPerSequence * queue / 2 / double(users);
    CHECK(std::abs(seconds.value - 1 / throughput) < 4 * seconds.error + waits);
    CHECK(double(run.load.size()) / run.end.value <=
          std::min(double(users) / kService, 1 / kService) * (1 + 1e-9));
  }
}

TEST_CASE("The same load gives the same run", "[serving]") {
  const auto load = poisson(0.8, 3, [](Gaps&) { return 2; });
  const StepTime step = [](const StepWork&) { return Seconds{0.5}; };
  const ServingRun a = served(load, slots(1), kManyBlocks, step);
  const ServingRun b = served(load, slots(1), kManyBlocks, step);
  CHECK(a.end == b.end);
  CHECK(a.waiting == b.waiting);
  for (std::size_t i = 0; i < load.size(); ++i)
    if (a.requests[i].last_token != b.requests[i].last_token) FAIL(i);
}
