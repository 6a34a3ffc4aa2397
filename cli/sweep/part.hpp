#pragma once
// Pieces of a sweep that are done, kept beside its output until all are.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "core/base/error.hpp"

namespace rigcast::cli {

/// The identity of a sweep: partial results are continued by a sweep of the same words with the
/// same inputs.
struct SweepId {
  std::string words, inputs;  // without spaces
};

/// The file of finished pieces. While one is open, its file is locked: a second sweep with the same
/// output is refused. The system releases the lock when the process ends, however it ends.
class SweepPart {
 public:
  /// Opens the file and reads the pieces of the same sweep. An empty `file`: nothing is stored.
  /// Errors: the file is not that of a sweep; another process writes to it; it holds pieces of
  /// another sweep, or of other inputs, and not `restart`; it cannot be written.
  static Result<SweepPart> open(const std::string& file, const SweepId& id, bool restart);

  SweepPart(SweepPart&& other) noexcept;
  SweepPart& operator=(SweepPart&&) = delete;
  ~SweepPart();

  bool has(std::int64_t piece) const { return pieces_.contains(piece); }
  /// The texts of all pieces, in their order.
  const std::map<std::int64_t, std::string>& pieces() const { return pieces_; }
  /// Throws MachineError where the file cannot be written.
  void add(std::int64_t piece, const std::string& text);
  void remove() const;

 private:
  explicit SweepPart(std::string file) : file_(std::move(file)) {}
  std::optional<Error> open_locked();
  std::optional<Error> read_pieces(const SweepId& id, bool restart);

  std::string file_;
  int descriptor_ = -1;
  std::map<std::int64_t, std::string> pieces_;
};

/// The file that goes with an output; empty for a device or a pipe, which have none beside them.
std::string part_file(const std::string& output);

}  // namespace rigcast::cli
