#pragma once
// Files that the program writes: whole under their own name, or not there.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/stop_flag.hpp"
#include "core/files/temporary_file.hpp"

namespace rigcast {

/// Has a temporary name beside its own until finish() renames it, over a file of that name if there
/// is one; one that does not get there is removed. A device or a pipe is written to as it is, and
/// so are standard output and error by whatever name: nothing takes their place. All errors are of
/// the machine, and name the target.
class OutputFile {
 public:
  /// Errors: a folder, or a place that cannot be written to.
  static Result<OutputFile> create(const std::filesystem::path& target);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  [[nodiscard]] std::optional<Error> write(std::span<const std::byte> bytes);
  /// Leaves a hole of so many zeros, which takes no room on disks that know holes. What is no
  /// regular file gets zeros.
  [[nodiscard]] std::optional<Error> skip(std::uint64_t bytes);
  /// Returns when what was written is on the disk. Throws Interrupted.
  [[nodiscard]] std::optional<Error> sync(const StopFlag& stop = {});
  /// Nothing but the destructor may be called after it.
  [[nodiscard]] std::optional<Error> finish();

 private:
  explicit OutputFile(std::filesystem::path target) : target_(std::move(target)) {}
  std::optional<Error> open_beside();
  Error failed(const char* what) const;

  std::filesystem::path target_;
  TemporaryFile temporary_;  // of nothing where the target is written to as it is
  int file_ = -1;
  std::uint64_t written_ = 0;  // bytes
};

/// The whole file at once.
std::optional<Error> write_file(const std::filesystem::path& target, std::string_view text);

/// Why nothing can be written there, for who would find out only after hours of work; nothing is
/// left behind. A disk that is full is noticed by the write alone.
std::optional<Error> check_writable(const std::filesystem::path& target);

/// Makes a folder, with those above it, where there is none, and checks that files can be created
/// in it. Errors are of the machine.
std::optional<Error> make_folder(const std::filesystem::path& folder);

/// True if finish() replaces the target with a new file. Otherwise the target is written in place.
bool is_replaced(const std::filesystem::path& target);

}  // namespace rigcast
