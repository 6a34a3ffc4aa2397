#include "cli/sweep/part.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "cli/shared/output.hpp"
#include "core/files/output_file.hpp"

namespace rigcast::cli {
namespace {

// The first line: kMark, the words' id and the inputs' id. Then records, "piece bytes\n" and the
// text.
constexpr const char* kMark = "rigcast-sweep-part";

using Pieces = std::map<std::int64_t, std::string>;

Pieces read_pieces(std::istream& in) {
  Pieces out;
  std::int64_t piece = 0;
  std::size_t bytes = 0;
  while (in >> piece >> bytes && in.get() == '\n' && bytes < (1u << 30)) {
    std::string text(bytes, '\0');
    if (!in.read(text.data(), std::streamsize(bytes))) break;  // it was cut off here
    out[piece] = std::move(text);
  }
  return out;
}

std::string record(std::int64_t piece, const std::string& text) {
  return fmt::format("{} {}\n{}", piece, text.size(), text);
}

}  // namespace

Result<SweepPart> SweepPart::open(const std::string& file, const SweepId& id) {
  SweepPart part;
  part.file_ = file;
  if (file.empty()) return part;
  std::ifstream in(file, std::ios::binary);
  std::string head, mark, words, inputs;
  if (std::getline(in, head)) {
    std::istringstream(head) >> mark >> words >> inputs;
    if (mark != kMark)
      return bad_input(fmt::format("{} is there and is no part of a sweep", file),
                       "move it away, or give another -o");
    if (words != id.words)
      part.lost_ = fmt::format("{} was of another sweep", file);
    else if (inputs != id.inputs)
      part.lost_ =
          fmt::format("the program or a rig, model or catalogue file has changed since {}", file);
    else
      part.pieces_ = read_pieces(in);
  }
  in.close();
  std::string whole = fmt::format("{} {} {}\n", kMark, id.words, id.inputs);
  for (const auto& [piece, text] : part.pieces_) whole += record(piece, text);
  if (auto error = write_file(file, whole)) return *error;
  return part;
}

void SweepPart::add(std::int64_t piece, const std::string& text) {
  pieces_[piece] = text;
  if (file_.empty()) return;
  std::ofstream out(file_, std::ios::binary | std::ios::app);
  out << record(piece, text);
  if (!out.flush()) throw MachineError("cannot write " + file_);
}

std::string SweepPart::all() const {
  std::string out;
  for (const auto& [piece, text] : pieces_) out += text;
  return out;
}

void SweepPart::remove() const {
  if (!file_.empty()) std::remove(file_.c_str());
}

std::string part_file(const std::string& output) {
  return output.empty() || !is_replaced(output) ? "" : output + ".part";
}

}  // namespace rigcast::cli
