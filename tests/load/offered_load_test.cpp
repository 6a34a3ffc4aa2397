// Loads against the theory of their processes; sessions and prefixes as a server sees them.

#include "load/offered_load.hpp"

#include <cmath>
#include <map>
#include <vector>

#include "load/arrival_times.hpp"
#include "tests/sim/serving/serving_fixture.hpp"

using namespace rigcast;

namespace {

constexpr TokenCount kContext = 1 << 20;

Load load_of(ArrivalProcess arrival, double rate = 0) {
  Load load;
  load.arrival = arrival;
  load.rate = rate;
  load.prompt_tokens.value = FixedLength{100};
  load.output_tokens.value = FixedLength{10};
  return load;
}

std::unique_ptr<OfferedLoad> offered(const Load& load, TokenCount context = kContext) {
  auto made = offer(load, context);
  if (!made) FAIL(made.error().text());
  return *std::move(made);
}

// Every request is answered `takes` seconds after its arrival.
std::vector<ServedRequest> drive(OfferedLoad& load, Seconds takes) {
  std::vector<ServedRequest> all;
  std::multimap<double, std::size_t> running;  // by the end
  for (;;) {
    const auto next = load.next();
    if (!running.empty() && (!next || running.begin()->first <= next->value)) {
      load.ended(running.begin()->second, Seconds{running.begin()->first});
      running.erase(running.begin());
    } else if (next) {
      all.push_back(load.take());
      CHECK(all.back().arrival == *next);
      running.emplace((all.back().arrival + takes).value, all.size() - 1);
    } else {
      return all;
    }
  }
}

// A mean with its standard error: of values that do not depend on one another.
void check_mean(const std::vector<double>& values, double expected) {
  double mean = 0, squares = 0;
  for (const double v : values) mean += v / double(values.size());
  for (const double v : values) squares += (v - mean) * (v - mean);
  const double error = std::sqrt(squares) / double(values.size());
  INFO("found " << mean << " +- " << error << ", expected " << expected);
  CHECK(std::abs(mean - expected) < 4 * error);
}

std::vector<double> gaps_of(const Load& load, std::size_t count) {
  Random random(5);
  const auto times = arrival_times(load, load.rate);
  std::vector<double> gaps;
  for (double before = 0; gaps.size() < count;) {
    const double now = times->next(random).value;
    gaps.push_back(now - before);
    before = now;
  }
  return gaps;
}

// Gaps of a renewal process: their mean, and their variance about the known mean. The first of an
// on-off process is that of its steady state, and left out.
void check_gaps(const Load& load, double cv) {
  std::vector<double> gaps = gaps_of(load, 200'001), squares;
  gaps.erase(gaps.begin());
  for (const double gap : gaps) squares.push_back(std::pow(gap - 1 / load.rate, 2));
  check_mean(gaps, 1 / load.rate);
  check_mean(squares, std::pow(cv / load.rate, 2));
}

}  // namespace

TEST_CASE("Gaps have the mean and the variation of their process", "[serving][load]") {
  check_gaps(load_of(ArrivalProcess::kPoisson, 5), 1);
  for (const auto process : {ArrivalProcess::kGamma, ArrivalProcess::kWeibull})
    for (const double cv : {0.5, 1.0, 2.0}) {
      INFO(name(process) << ", cv " << cv);
      Load load = load_of(process, 3);
      load.cv = cv;
      check_gaps(load, cv);
    }
}

TEST_CASE("An interrupted Poisson process has hyperexponential gaps", "[serving][load]") {
  Load load = load_of(ArrivalProcess::kOnOff, 2);
  load.on = 3_s;
  load.off = 12_s;
  // c^2 = 1 + 2 lambda w1 / (w1 + w2)^2: lambda while it is on, w1 ends it, w2 begins it.
  const double lambda = 2 * (3 + 12) / 3.0, w1 = 1 / 3.0, w2 = 1 / 12.0;
  check_gaps(load, std::sqrt(1 + 2 * lambda * w1 / std::pow(w1 + w2, 2)));
}

TEST_CASE("A doubly stochastic process varies from period to period", "[serving][load]") {
  Load load = load_of(ArrivalProcess::kDoublyStochastic, 2);
  load.rate_cv = 0.6;
  load.rate_period = 30_s;
  constexpr std::size_t kPeriods = 5000;
  std::vector<double> counts(kPeriods), squares;
  Random random(3);
  const auto times = arrival_times(load, load.rate);
  for (;;) {
    const auto period = std::size_t(times->next(random).value / 30);
    if (period >= kPeriods) break;
    ++counts[period];
  }
  // A mixed Poisson count: variance = m + (m cv)^2.
  constexpr double kMean = 60;
  for (const double count : counts) squares.push_back(std::pow(count - kMean, 2));
  check_mean(counts, kMean);
  check_mean(squares, kMean + std::pow(kMean * 0.6, 2));
}

TEST_CASE("Constant arrivals are even, a burst is at once", "[serving][load]") {
  for (const double gap : gaps_of(load_of(ArrivalProcess::kConstant, 4), 100))
    CHECK(gap == Approx(0.25));
  Load burst = load_of(ArrivalProcess::kBurst);
  burst.requests = 30;
  const auto load = offered(burst);
  const auto all = drive(*load, 1_s);
  CHECK(all.size() == 30);
  for (const ServedRequest& r : all) CHECK(r.arrival == 0_s);
}

TEST_CASE("A load ends after its requests, or with its duration", "[serving][load]") {
  Load load = load_of(ArrivalProcess::kConstant, 2);
  load.requests = 7;
  CHECK(drive(*offered(load), 1_s).size() == 7);
  load.requests = kMaxRequests;
  load.duration = Seconds{10.1};  // at 0.5, 1.0, ... 10.0
  CHECK(drive(*offered(load), 1_s).size() == 20);
}

TEST_CASE("Lengths are those of their distribution", "[serving][load]") {
  const auto draws = [](const LengthDistribution& lengths) {
    Random random(11);
    const DrawLength draw = draw_from(lengths);
    std::vector<double> out;
    for (int i = 0; i < 100'000; ++i) out.push_back(double(draw(random)));
    return out;
  };
  const auto share_up_to = [&](const LengthDistribution& lengths, double tokens) {
    std::vector<double> is_below;
    for (const double length : draws(lengths)) is_below.push_back(length <= tokens ? 1 : 0);
    return is_below;
  };
  // Rounded to whole tokens, a length is at most n where it was below n + 1/2.
  const LognormalLength lognormal = lognormal_length(600.5, 2700.5);
  check_mean(share_up_to(lognormal, 600), 0.5);
  check_mean(share_up_to(lognormal, 2700), 0.9);
  check_mean(draws(lognormal), mean_tokens(lognormal));
  check_mean(draws(UniformLength{10, 30}), 20);
  check_mean(share_up_to(UniformLength{10, 30}, 10), 1 / 21.0);
  const HistogramLength histogram{{{100, 3}, {2000, 1}}};
  check_mean(draws(histogram), 575);
  check_mean(share_up_to(histogram, 100), 0.75);
  for (const double length : draws(FixedLength{7})) REQUIRE(length == 7);
  for (const double length : draws(LognormalLength{1, 3})) REQUIRE(length >= 1);
}

TEST_CASE("Lengths that are stated together are drawn together", "[serving][load]") {
  Load load = load_of(ArrivalProcess::kBurst);
  load.requests = 20'000;
  load.lengths = JointLengths{{{300, 600, 3}, {8000, 100, 1}}};
  load.prompt_tokens.value = load.lengths->prompts();
  load.output_tokens.value = load.lengths->outputs();
  std::vector<double> long_prompts;
  for (const ServedRequest& r : drive(*offered(load), 1_s)) {
    if (r.output != (r.prompt == 300 ? 600 : 100)) FAIL(r.prompt << ", " << r.output);
    long_prompts.push_back(r.prompt == 8000 ? 1 : 0);
  }
  check_mean(long_prompts, 0.25);
  // What later turns add may be stated for itself; their answers are as long as others.
  load.turns.value = 2;
  load.turn_tokens = Sourced<LengthDistribution>{FixedLength{7}, SourceKind::kAssumed, ""};
  std::vector<double> outputs;
  for (const ServedRequest& r : drive(*offered(load), 1_s))
    if (r.continues) outputs.push_back(double(r.output));
  check_mean(outputs, (3 * 600 + 100) / 4.0);
}

TEST_CASE("Users wait for their answers and think", "[serving][load]") {
  Load load = load_of(ArrivalProcess::kClosed);
  load.users = 5;
  load.requests = 20'000;
  load.think_time = {2_s};
  const auto all = drive(*offered(load), 3_s);
  REQUIRE(all.size() == 20'000);
  // Each user asks once in think + 3 s: of five independent renewal processes, the time for
  // n requests is n (2 + 3) / 5, with a standard deviation of sqrt(n) 2 / 5 or less.
  const double seconds = all.back().arrival.value;
  CHECK(std::abs(seconds - 20'000) < 4 * std::sqrt(20'000) * 2 / 5 + 5);
  load.think_is_constant = true;
  load.users = 1;
  const auto one = drive(*offered(load), 3_s);
  CHECK(one.front().arrival.value < 2);
  for (std::size_t i = 1; i < one.size(); ++i)
    if (std::abs((one[i].arrival - one[i - 1].arrival).value - 5) > 1e-6) FAIL(i);
}

TEST_CASE("A later turn has all that was said before in its prompt", "[serving][load]") {
  Load load = load_of(ArrivalProcess::kPoisson, 3);
  load.requests = 30'000;
  load.turns = {4};
  load.turn_tokens = Sourced<LengthDistribution>{UniformLength{5, 25}};
  load.think_time = {2_s};
  const auto all = drive(*offered(load), 1_s);
  std::vector<double> thoughts, turns, asked(all.size(), 1);
  std::vector<std::size_t> continued(all.size(), 0);
  for (std::size_t id = 0; id < all.size(); ++id) {
    const ServedRequest& r = all[id];
    if (!r.continues) {
      CHECK(r.prompt == 100);
      continue;
    }
    const ServedRequest& before = all[*r.continues];
    CHECK(++continued[*r.continues] == 1);
    CHECK(r.shared == before.prompt + before.output);
    CHECK(r.prompt - r.shared >= 5);
    CHECK(r.prompt - r.shared <= 25);
    asked[id] = asked[*r.continues] + 1;
    thoughts.push_back((r.arrival - before.arrival - 1_s).value);
  }
  check_mean(thoughts, 2);
  // Sessions that had ended long before the last request.
  for (std::size_t id = 0; id < all.size() * 9 / 10; ++id)
    if (continued[id] == 0) turns.push_back(asked[id]);
  check_mean(turns, 4);
  // All requests, later turns included, come at the rate: sessions at a quarter of it, each with a
  // geometric number of requests, whose variance is 4^2 - 4. The first sessions have a few turns
  // still to come, and those at the end leave as many.
  const double n = double(all.size()), sessions = n / 4;
  const double deviation = std::sqrt(sessions * (16 - 4) + sessions * 16) / 3;
  CHECK(std::abs(all.back().arrival.value - n / 3) < 4 * deviation);
}

TEST_CASE("Prompts of a group begin alike, and groups are popular as Zipf says",
          "[serving][load]") {
  Load load = load_of(ArrivalProcess::kPoisson, 1);
  load.requests = 20'000;
  load.shared_prefix_tokens = {400};
  load.prefix_groups = 3;
  const auto all = drive(*offered(load), 1_s);
  std::map<std::size_t, double> sizes;  // by the first request of a group
  for (std::size_t id = 0; id < all.size(); ++id) {
    CHECK(all[id].prompt == 500);
    if (all[id].continues) CHECK(all[id].shared == 400);
    CHECK(all[id].continues.value_or(0) <= id);
    ++sizes[all[id].continues.value_or(id)];
  }
  REQUIRE(sizes.size() == 3);
  std::vector<double> shares;
  for (const auto& [first, size] : sizes) shares.push_back(size / 20'000);
  std::sort(shares.begin(), shares.end());
  for (const auto& [share, expected] :
       {std::pair{shares[0], 2 / 11.0}, {shares[1], 3 / 11.0}, {shares[2], 6 / 11.0}})
    CHECK(std::abs(share - expected) < 4 * std::sqrt(expected * (1 - expected) / 20'000));
}

TEST_CASE("A server finds what turns and prefixes share", "[serving][load]") {
  Load load = load_of(ArrivalProcess::kPoisson, 1);
  load.requests = 400;
  load.shared_prefix_tokens = {64};
  load.turns = {3};
  load.think_time = {1_s};
  const auto arrivals = offered(load);
  // Steps so fast that answers end before anybody else arrives, mostly.
  const auto run = serve(*arrivals, {}, 1 << 16, [](const StepWork&) { return Seconds{1e-6}; });
  REQUIRE(run);
  REQUIRE(run->load.size() == 400);
  for (std::size_t id = 0; id < run->load.size(); ++id) {
    const ServedRequest& r = run->load[id];
    // All of it in full blocks of 16; the last token of an answer is not computed.
    const bool is_turn = r.continues && r.shared != 64;
    const TokenCount there = r.continues ? r.shared - (is_turn ? 1 : 0) : 0;
    CHECK(run->requests[id].hit == there / 16 * 16);
  }
}

TEST_CASE("Requests are cut to the context, and sessions end with it", "[serving][load]") {
  Load load = load_of(ArrivalProcess::kPoisson, 1);
  load.turns = {50};
  const auto arrivals = offered(load, 300);
  for (const ServedRequest& r : drive(*arrivals, 1_s)) CHECK(r.prompt + r.output <= 300);
  CHECK(arrivals->shortened() > 0);
  Load large = load_of(ArrivalProcess::kPoisson, 1);
  large.shared_prefix_tokens = {500};
  large.requests = 10;
  const auto cut = offered(large, 64);
  for (const ServedRequest& r : drive(*cut, 1_s)) {
    CHECK(r.prompt == 54);  // the answer of 10 tokens is kept
    CHECK(r.output == 10);
    CHECK(r.shared <= 63);
  }
  CHECK(cut->shortened() == 10);
}

TEST_CASE("Sessions are the same, whenever requests end", "[serving][load]") {
  Load load = load_of(ArrivalProcess::kClosed);
  load.users = 8;
  load.requests = 2000;
  load.think_time = {1_s};
  load.prompt_tokens.value = lognormal_length(500, 2000);
  load.output_tokens.value = lognormal_length(100, 300);
  const auto a = drive(*offered(load), 1_s), b = drive(*offered(load), 7_s);
  const auto again = drive(*offered(load), 1_s);
  load.users = 30;
  const auto more = drive(*offered(load), 1_s);
  load.seed = 2;
  const auto other = drive(*offered(load), 1_s);
  std::size_t same = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].prompt == b[i].prompt);
    CHECK(a[i].output == more[i].output);
    CHECK(a[i].arrival == again[i].arrival);
    same += a[i].prompt == other[i].prompt ? 1u : 0u;
  }
  CHECK(same < a.size() / 10);
}
