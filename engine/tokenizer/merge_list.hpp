#pragma once
// Both kinds of tokenizer merge the best pair of neighbours until no pair can be merged. A queue of
// candidates keeps this at O(n log n).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/tokenizer/vocabulary/vocabulary.hpp"

namespace rigcast::engine {

/// A range of the text; `length` is 0 once it has been merged into its left neighbour.
struct Symbol {
  std::size_t begin = 0;
  std::uint32_t length = 0;
  TokenId id = -1;  // -1: no token is spelt like it
};

/// The merge of two neighbours. A lower cost merges first; of equal costs the leftmost does.
struct Merge {
  TokenId id = -1;  // -1: these two do not merge
  double cost = 0;
};

class MergeList {
 public:
  void clear() {
    symbols_.clear();
    links_.clear();
    queue_.clear();
  }

  /// Adds a symbol right of all others.
  void push(Symbol symbol) {
    const std::size_t at = symbols_.size();
    symbols_.push_back(symbol);
    links_.push_back({at - 1, at + 1});
  }

  /// Merges until nothing can be merged; `pair(left, right)` returns the Merge of two symbols.
  template <class Pair>
  void merge_all(Pair pair) {
    for (std::size_t i = 1; i < symbols_.size(); ++i) consider(i - 1, i, pair);
    std::make_heap(queue_.begin(), queue_.end(), later);
    heaped_ = true;
    while (!queue_.empty()) {
      std::pop_heap(queue_.begin(), queue_.end(), later);
      const Candidate best = queue_.back();
      queue_.pop_back();
      if (is_current(best)) merge(best, pair);
    }
    heaped_ = false;
  }

  /// Calls `visit(symbol)` for the remaining symbols, from left to right.
  template <class Visit>
  void for_each(Visit visit) const {
    for (const Symbol& symbol : symbols_)
      if (symbol.length > 0) visit(symbol);
  }

 private:
  struct Candidate {
    double cost;
    std::size_t left, right;
    std::uint32_t length;  // length of both symbols together
    TokenId id;
  };
  struct Links {
    std::size_t previous, next;  // an index outside of the list: none
  };

  static bool later(const Candidate& a, const Candidate& b) {
    return a.cost != b.cost ? a.cost > b.cost : a.left > b.left;
  }

  // True if neither symbol has changed. Symbols only grow or vanish, so it is enough that both
  // exist and their total length is the same.
  bool is_current(const Candidate& c) const {
    const Symbol &left = symbols_[c.left], &right = symbols_[c.right];
    return left.length > 0 && right.length > 0 && left.length + right.length == c.length;
  }

  template <class Pair>
  void consider(std::size_t left, std::size_t right, Pair& pair) {
    const Merge merge = pair(symbols_[left], symbols_[right]);
    if (merge.id < 0) return;
    const std::uint32_t length = symbols_[left].length + symbols_[right].length;
    queue_.push_back({merge.cost, left, right, length, merge.id});
    if (heaped_) std::push_heap(queue_.begin(), queue_.end(), later);
  }

  template <class Pair>
  void merge(const Candidate& best, Pair& pair) {
    symbols_[best.left].length = best.length;
    symbols_[best.left].id = best.id;
    symbols_[best.right].length = 0;
    const std::size_t previous = links_[best.left].previous;
    const std::size_t next = links_[best.right].next;
    links_[best.left].next = next;
    if (next < symbols_.size()) {
      links_[next].previous = best.left;
      consider(best.left, next, pair);
    }
    if (previous < symbols_.size()) consider(previous, best.left, pair);
  }

  std::vector<Symbol> symbols_;
  std::vector<Links> links_;
  std::vector<Candidate> queue_;
  bool heaped_ = false;
};

}  // namespace rigcast::engine
