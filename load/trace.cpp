#include "load/trace.hpp"

#include "core/files/input_file.hpp"
#include "load/csv_trace.hpp"
#include "load/mooncake_trace.hpp"

namespace rigcast {
namespace {

constexpr std::size_t kMaxFileBytes = 256u << 20;

}  // namespace

Result<Trace> parse_trace(std::string_view text, const std::string& file) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos)
    return bad_input("an empty trace", "the first line of a CSV names its columns",
                     SourceRef{file, 1, 1});
  return text[first] == '{' ? parse_mooncake_trace(text, file) : parse_csv_trace(text, file);
}

Result<Trace> read_trace(const std::filesystem::path& file) {
  const auto text = read_input(file, kMaxFileBytes);
  if (!text) return text.error();
  return parse_trace(*text, file.string());
}

}  // namespace rigcast
