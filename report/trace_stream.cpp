#include "report/trace_stream.hpp"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>

namespace rigcast {
namespace {

constexpr std::size_t kBuffer = 1 << 16;

std::int64_t nanoseconds(Seconds time) { return std::llround(time.value * 1e9); }

// The format's unit is the microsecond.
std::string microseconds(std::int64_t ns) {
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", std::abs(ns) / 1000, std::abs(ns) % 1000);
}

// A name that people chose.
std::string quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

Result<TraceStream> TraceStream::create(const std::filesystem::path& target,
                                        std::string_view title) {
  auto file = OutputFile::create(target);
  if (!file) return file.error();
  TraceStream out(*std::move(file));
  out.buffer_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  out.begin_event('M', 0);
  fmt::format_to(std::back_inserter(out.buffer_),
                 ",\"name\":\"process_name\",\"args\":{{\"name\":{}}}", quoted(title));
  out.end_event();
  return out;
}

void TraceStream::begin_event(char phase, int track) {
  fmt::format_to(std::back_inserter(buffer_), "{}\n{{\"ph\":\"{}\",\"pid\":1,\"tid\":{}",
                 is_first_ ? "" : ",", phase, track);
  is_first_ = false;
}

void TraceStream::end_event() {
  buffer_ += '}';
  if (buffer_.size() > kBuffer) flush();
}

void TraceStream::flush() {
  if (!error_) error_ = file_.write(std::as_bytes(std::span(buffer_)));
  buffer_.clear();
}

void TraceStream::add_figures(Figures figures) {
  buffer_ += ",\"args\":{";
  const char* before = "";
  for (const TraceFigure& f : figures) {
    fmt::format_to(std::back_inserter(buffer_), "{}\"{}\":{}", before, f.name, f.value);
    before = ",";
  }
  buffer_ += '}';
}

void TraceStream::name_track(int track, std::string_view name) {
  begin_event('M', track);
  fmt::format_to(std::back_inserter(buffer_), ",\"name\":\"thread_name\",\"args\":{{\"name\":{}}}",
                 quoted(name));
  end_event();
  begin_event('M', track);
  fmt::format_to(std::back_inserter(buffer_),
                 ",\"name\":\"thread_sort_index\",\"args\":{{\"sort_index\":{}}}", track);
  end_event();
}

void TraceStream::span(int track, std::string_view name, Seconds begin, Seconds end,
                       Figures figures) {
  const std::int64_t from = nanoseconds(begin);
  begin_event('X', track);
  fmt::format_to(std::back_inserter(buffer_), ",\"name\":\"{}\",\"ts\":{},\"dur\":{}", name,
                 microseconds(from), microseconds(nanoseconds(end) - from));
  add_figures(figures);
  end_event();
  ++events_;
}

void TraceStream::wait(std::string_view name, std::uint64_t id, Seconds begin, Seconds end) {
  for (const auto& [phase, at] : {std::pair('b', begin), std::pair('e', end)}) {
    begin_event(phase, 0);
    fmt::format_to(std::back_inserter(buffer_),
                   ",\"cat\":\"{}\",\"id\":{},\"name\":\"{}\",\"ts\":{}", name, id, name,
                   microseconds(nanoseconds(at)));
    end_event();
  }
  ++events_;
}

void TraceStream::counter(std::string_view name, Seconds at, Figures figures) {
  begin_event('C', 0);
  fmt::format_to(std::back_inserter(buffer_), ",\"name\":\"{}\",\"ts\":{}", name,
                 microseconds(nanoseconds(at)));
  add_figures(figures);
  end_event();
  ++events_;
}

std::optional<Error> TraceStream::finish() {
  buffer_ += "\n]}\n";
  flush();
  return error_ ? error_ : file_.finish();
}

}  // namespace rigcast
