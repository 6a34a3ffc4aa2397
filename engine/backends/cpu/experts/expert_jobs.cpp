#include "engine/backends/cpu/experts/expert_jobs.hpp"

#include "core/base/error.hpp"

namespace rigcast::engine {

void ExpertJobs::sort(std::span<const int> experts, int count, std::int64_t used,
                      std::int64_t group, bool groups_singles) {
  group_ = group;
  const std::int64_t least = groups_singles ? 1 : 2;  // tokens of a group
  counts_.assign(std::size_t(count), 0);
  for (const int e : experts) {
    RIGCAST_ASSERT(e >= 0 && e < count);
    ++counts_[std::size_t(e)];
  }
  batch_rows_ = 0;
  for (const std::int64_t n : counts_)
    if (n >= least) batch_rows_ += (n + group - 1) / group * group;

  jobs_.clear();
  next_.assign(counts_.size(), 0);
  std::int64_t several = 0, one = batch_rows_;
  for (std::size_t e = 0; e < counts_.size(); ++e) {
    const std::int64_t n = counts_[e];
    if (n == 0) continue;
    const bool grouped = n >= least;
    std::int64_t& at = grouped ? several : one;
    jobs_.push_back({int(e), at, n, grouped});
    next_[e] = at;
    at += grouped ? (n + group - 1) / group * group : 1;
  }

  rows_.resize(experts.size());
  tokens_.assign(std::size_t(one), -1);
  experts_.assign(std::size_t(one), 0);
  for (std::size_t choice = 0; choice < experts.size(); ++choice) {
    const std::int64_t row = next_[std::size_t(experts[choice])]++;
    rows_[choice] = row;
    tokens_[std::size_t(row)] = std::int64_t(choice) / used;
    experts_[std::size_t(row)] = experts[choice];
  }
}

}  // namespace rigcast::engine
