#pragma once
// A batch's tokens sorted by the experts that they go to: what one expert computes lies in
// neighbouring rows.

#include <cstdint>
#include <span>
#include <vector>

namespace rigcast::engine {

class ExpertJobs {
 public:
  /// One expert's tokens, in rows [first, first + count).
  struct Job {
    int expert = 0;
    std::int64_t first = 0, count = 0;
    bool single() const { return count == 1; }
  };

  /// `experts`: [token][used], each in [0, count), a token's all different. Jobs of several tokens
  /// begin at multiples of `group` rows; those of one come after all of them, without gaps. Jobs
  /// are in the order of their experts, tokens in theirs. Memory that was taken is kept.
  void sort(std::span<const int> experts, int count, std::int64_t used, std::int64_t group);

  std::int64_t group() const { return group_; }
  std::span<const Job> jobs() const { return jobs_; }
  /// With the gaps that groups leave.
  std::int64_t rows() const { return std::int64_t(tokens_.size()); }
  /// Of jobs of several tokens: the others' begin there.
  std::int64_t batch_rows() const { return batch_rows_; }
  /// Of a token's n-th expert: choice = token * used + n.
  std::int64_t row(std::int64_t choice) const { return rows_[std::size_t(choice)]; }
  /// -1: a gap.
  std::int64_t token(std::int64_t row) const { return tokens_[std::size_t(row)]; }

 private:
  std::vector<Job> jobs_;
  std::vector<std::int64_t> counts_, next_;  // by expert: its tokens, its next one's row
  std::vector<std::int64_t> rows_;           // by choice
  std::vector<std::int64_t> tokens_;         // by row
  std::int64_t group_ = 1, batch_rows_ = 0;
};

}  // namespace rigcast::engine
