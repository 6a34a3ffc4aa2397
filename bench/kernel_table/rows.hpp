#pragma once
// A table of kernels: where the time of a token goes, beside what memory allows.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "bench/kernel_table/kernel_run.hpp"
#include "bench/kernel_table/products.hpp"

namespace rigcast::bench {

/// Calls of one kernel for one purpose.
struct Row {
  std::string what;    // "down"; empty: the kernel's name says it
  std::string kernel;  // empty: the time between kernels
  std::int64_t blocks = 0;
  int at_once = 0;
  int calls = 0;
  double ns = 0, bytes = 0;  // of all calls
};

/// Sums up kernels of tokens, or of batches. A kernel that starts early waits for the one before
/// it: its time is counted from that one's end to its own, so that the times of all kernels, and
/// those without one, are the time of a token.
class Rows {
 public:
  /// Time counts from `before` on, ns.
  explicit Rows(std::uint64_t before) : before_(before) {}

  /// Adds kernels, in the order of their ends. `products`: of each, as match() gives them; empty:
  /// unknown.
  void add(std::span<const KernelRun> runs, std::span<const Product* const> products);

  /// The rows, the longest first.
  std::vector<Row> sorted() const;
  double ns() const { return ns_; }
  double bytes() const { return bytes_; }

 private:
  // What a row is for, its kernel and blocks, and the weights' bytes: matrices of other sizes have
  // rows of their own.
  using Key = std::tuple<std::string, std::string, std::int64_t, int, double>;
  void add(const Key& key, std::uint64_t from, std::uint64_t to, double bytes);

  std::map<Key, Row> rows_;
  std::uint64_t before_;
  double ns_ = 0, bytes_ = 0;
};

/// What a table's figures are relative to.
struct Scale {
  int times = 1;                  // tokens, or batches
  double ns = 0;                  // of all rows
  double memory_bytes_per_s = 0;  // measured
  const char* unit = "us/token";  // of the first column
};

std::string heading(const Scale& scale);
/// One line, of at most 110 columns.
std::string text(const Row& row, const Scale& scale);

/// A token's bytes and time as a whole, in one line.
struct TokenTotal {
  double bytes = 0;
  double seconds = 0, traced_seconds = 0;  // without, and with CUPTI
  double memory_bytes_per_s = 0;
};
std::string text(const TokenTotal& total);

}  // namespace rigcast::bench
