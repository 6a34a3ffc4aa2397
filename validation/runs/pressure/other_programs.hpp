#pragma once
// What a scenario has beside the run: programs that read memory, and one that reads files.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/pressure/memory_settings.hpp"
#include "validation/runs/pressure/other_program.hpp"

namespace rigcast::validation {

/// They end with the object.
class OtherPrograms {
 public:
  /// They wait until start(). `neighbours`: programs of one thread, each of which reads its own
  /// memory, which no cache holds, as fast as it can. Of `memory`, the first moment's stream: a
  /// program in this process's control group that reads a file at that rate, of twice the limit, so
  /// that nothing of it is used twice. The file is in the folder of `model_file`. Errors: kMachine.
  static Result<OtherPrograms> begin(int neighbours, const std::optional<MemorySettings>& memory,
                                     const std::optional<std::filesystem::path>& model_file);
  void start();
  /// What they have read since start(); nullopt if there are none.
  std::optional<std::string> text() const;

 private:
  std::vector<std::unique_ptr<OtherProgram>> neighbours_;
  std::unique_ptr<OtherProgram> stream_;
};

}  // namespace rigcast::validation
