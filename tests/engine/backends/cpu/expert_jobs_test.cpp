#include "engine/backends/cpu/experts/expert_jobs.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "tests/catch.hpp"

namespace rigcast::engine {
namespace {

// `used` different experts for each token.
std::vector<int> random_choices(std::mt19937& random, int tokens, int experts, int used) {
  std::vector<int> choices, all(std::size_t(experts), 0);
  std::iota(all.begin(), all.end(), 0);
  for (int t = 0; t < tokens; ++t) {
    std::shuffle(all.begin(), all.end(), random);
    choices.insert(choices.end(), all.begin(), all.begin() + used);
  }
  return choices;
}

}  // namespace

TEST_CASE("Tokens of one expert lie together, experts with one token last", "[engine][experts]") {
  ExpertJobs jobs;
  jobs.sort(std::vector{2, 0, 2, 3, 2, 0}, 5, 2, 4);  // three tokens, two experts each
  REQUIRE(jobs.jobs().size() == 3);
  CHECK(jobs.batch_rows() == 8);  // two of expert 0, three of expert 2, each from a multiple of 4
  CHECK(jobs.rows() == 9);
  const auto expect = [&](std::size_t i, int expert, std::int64_t first, std::int64_t count) {
    CHECK(jobs.jobs()[i].expert == expert);
    CHECK(jobs.jobs()[i].first == first);
    CHECK(jobs.jobs()[i].count == count);
  };
  expect(0, 0, 0, 2);
  expect(1, 2, 4, 3);
  expect(2, 3, 8, 1);
  CHECK(jobs.jobs()[2].single());
  const std::int64_t tokens[] = {0, 2, -1, -1, 0, 1, 2, -1, 1};
  for (std::int64_t row = 0; row < jobs.rows(); ++row) CHECK(jobs.token(row) == tokens[row]);
  const std::int64_t rows[] = {4, 0, 5, 8, 6, 1};
  for (std::int64_t choice = 0; choice < 6; ++choice) CHECK(jobs.row(choice) == rows[choice]);
}

TEST_CASE("Experts with one token may be groups, too", "[engine][experts]") {
  ExpertJobs jobs;
  jobs.sort(std::vector{2, 0, 2, 3, 2, 0}, 5, 2, 4, true);
  REQUIRE(jobs.jobs().size() == 3);
  CHECK(jobs.batch_rows() == 12);
  CHECK(jobs.rows() == 12);
  CHECK(jobs.jobs()[2].first == 8);
  CHECK_FALSE(jobs.jobs()[2].single());
  CHECK(jobs.token(8) == 1);
  CHECK(jobs.token(9) == -1);
}

TEST_CASE("Every choice has one row, which is its token's and lies within its expert's job",
          "[engine][experts]") {
  std::mt19937 random(1);
  ExpertJobs jobs;  // one for all: what a batch leaves does not reach the next
  for (int round = 0; round < 200; ++round) {
    const int experts = 1 + int(random() % 64), used = 1 + int(random() % unsigned(experts)),
              tokens = 1 + int(random() % 100);
    const std::int64_t group = 1 + std::int64_t(random() % 20);
    const auto choices = random_choices(random, tokens, experts, used);
    jobs.sort(choices, experts, used, group);
    std::set<std::int64_t> taken;
    for (std::size_t choice = 0; choice < choices.size(); ++choice) {
      const std::int64_t row = jobs.row(std::int64_t(choice));
      CHECK(taken.insert(row).second);
      REQUIRE((row >= 0 && row < jobs.rows()));
      CHECK(jobs.token(row) == std::int64_t(choice) / used);
      const auto job = std::ranges::find(jobs.jobs(), choices[choice], &ExpertJobs::Job::expert);
      REQUIRE(job != jobs.jobs().end());
      CHECK((row >= job->first && row < job->first + job->count));
      CHECK(job->single() == (row >= jobs.batch_rows()));
    }
    std::int64_t counted = 0, gaps = 0;
    for (const ExpertJobs::Job& job : jobs.jobs()) {
      counted += job.count;
      if (!job.single()) CHECK(job.first % group == 0);
    }
    for (std::int64_t row = 0; row < jobs.rows(); ++row) gaps += jobs.token(row) < 0;
    CHECK(counted == std::int64_t(choices.size()));
    CHECK(counted + gaps == jobs.rows());
  }
}

}  // namespace rigcast::engine
