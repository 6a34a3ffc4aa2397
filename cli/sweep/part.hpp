#pragma once
// Pieces of a sweep that are done, kept beside its output until all are.

#include <cstdint>
#include <map>
#include <string>

#include "core/base/error.hpp"

namespace rigcast::cli {

/// The identity of a sweep: partial results are continued by a sweep of the same words with the
/// same inputs.
struct SweepId {
  std::string words, inputs;  // without spaces
};

class SweepPart {
 public:
  /// Opens the file of finished pieces and reads those of the same sweep. An empty `file`: nothing
  /// is stored. Errors: the file is not that of a sweep, or cannot be written.
  static Result<SweepPart> open(const std::string& file, const SweepId& id);

  /// Why what was there is made anew; empty: nothing was, or it goes on.
  const std::string& lost() const { return lost_; }
  bool has(std::int64_t piece) const { return pieces_.contains(piece); }
  std::size_t count() const { return pieces_.size(); }
  /// Throws MachineError where the file cannot be written.
  void add(std::int64_t piece, const std::string& text);
  /// The text of all pieces, in their order.
  std::string all() const;
  void remove() const;

 private:
  std::string file_, lost_;
  std::map<std::int64_t, std::string> pieces_;
};

/// The file that goes with an output; empty for a device or a pipe, which have none beside them.
std::string part_file(const std::string& output);

}  // namespace rigcast::cli
