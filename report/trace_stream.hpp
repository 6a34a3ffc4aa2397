#pragma once
// A timeline in the Chrome/Perfetto trace-event format that is written while it comes to be, in
// memory that does not grow with it.

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/units.hpp"
#include "core/files/output_file.hpp"

namespace rigcast {

/// A figure beside an event, or of a counter.
struct TraceFigure {
  std::string_view name;  // without quotes and backslashes, as all names of events are
  double value = 0;
};

/// Times are rounded to nanoseconds, so that spans which do not overlap do not in the file.
class TraceStream {
 public:
  using Figures = std::initializer_list<TraceFigure>;

  /// The file is there under its name when finish() has been called. Errors of it and of all later
  /// writing are those of OutputFile.
  static Result<TraceStream> create(const std::filesystem::path& target, std::string_view title);

  /// Names a track. Tracks are shown in the order of their numbers, from 1 on.
  void name_track(int track, std::string_view name);
  /// What a track did from `begin` to `end`.
  void span(int track, std::string_view name, Seconds begin, Seconds end, Figures figures);
  /// Of things of which any number goes on at once; `id`: of one of them.
  void wait(std::string_view name, std::uint64_t id, Seconds begin, Seconds end);
  void counter(std::string_view name, Seconds at, Figures figures);

  /// Spans, waits and values of counters so far.
  [[nodiscard]] std::uint64_t events() const { return events_; }
  [[nodiscard]] std::optional<Error> finish();

 private:
  explicit TraceStream(OutputFile file) : file_(std::move(file)) {}
  void begin_event(char phase, int track);
  void add_figures(Figures figures);
  void end_event();
  void flush();

  OutputFile file_;
  std::string buffer_;
  bool is_first_ = true;
  std::uint64_t events_ = 0;
  std::optional<Error> error_;  // the first one
};

}  // namespace rigcast
