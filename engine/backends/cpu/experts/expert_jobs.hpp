#pragma once
// A batch's tokens, sorted by the experts to which they are routed: the rows of one expert are
// contiguous.

#include <cstdint>
#include <span>
#include <vector>

namespace rigcast::engine {

class ExpertJobs {
 public:
  /// The tokens of one expert, in rows [first, first + count).
  struct Job {
    int expert = 0;
    std::int64_t first = 0, count = 0;
    bool in_group = false;
    bool single() const { return !in_group; }
  };

  /// Sorts `experts` [token][used], each in [0, count); the experts of a token differ. Jobs of
  /// several tokens begin at multiples of `group` rows; jobs of one token follow all of them,
  /// without gaps, or are such groups, too (`groups_singles`). Jobs are in the order of their
  /// experts, and tokens in their own order. Memory is kept for the next call.
  void sort(std::span<const int> experts, int count, std::int64_t used, std::int64_t group,
            bool groups_singles = false);

  std::int64_t group() const { return group_; }
  std::span<const Job> jobs() const { return jobs_; }
  /// The number of rows, including the gaps between groups.
  std::int64_t rows() const { return std::int64_t(tokens_.size()); }
  /// The number of rows of groups: the rows of single() jobs begin there.
  std::int64_t batch_rows() const { return batch_rows_; }
  /// The row of a token's n-th expert: choice = token * used + n.
  std::int64_t row(std::int64_t choice) const { return rows_[std::size_t(choice)]; }
  /// The token of a row; -1: the row is a gap.
  std::int64_t token(std::int64_t row) const { return tokens_[std::size_t(row)]; }
  /// The expert of a row that is no gap.
  int expert(std::int64_t row) const { return experts_[std::size_t(row)]; }

 private:
  std::vector<Job> jobs_;
  std::vector<std::int64_t> counts_, next_;  // by expert: number of tokens, row of the next token
  std::vector<std::int64_t> rows_;           // rows by choice
  std::vector<std::int64_t> tokens_;         // tokens by row
  std::vector<int> experts_;                 // experts by row
  std::int64_t group_ = 1, batch_rows_ = 0;
};

}  // namespace rigcast::engine
