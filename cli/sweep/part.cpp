#include "cli/sweep/part.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>
#include <sstream>
#include <utility>

#include "core/files/file_io.hpp"
#include "core/files/output_file.hpp"

namespace rigcast::cli {
namespace {

// The first line: kMark, the words' id and the inputs' id. Then records, "piece bytes\n" and the
// text.
constexpr const char* kMark = "rigcast-sweep-part";

struct Content {
  std::string mark, words, inputs;
  std::map<std::int64_t, std::string> pieces;
  std::int64_t bytes = 0;  // of the first line and of whole records
};

Content parse(const std::string& text) {
  Content out;
  std::istringstream in(text);
  std::string head;
  std::getline(in, head);
  std::istringstream(head) >> out.mark >> out.words >> out.inputs;
  if (!in || in.eof()) return {out.mark, {}, {}, {}, 0};  // cut off within it
  out.bytes = in.tellg();
  std::int64_t piece = 0;
  std::size_t bytes = 0;
  while (in >> piece >> bytes && in.get() == '\n' && bytes < (1u << 30)) {
    std::string record(bytes, '\0');
    if (!in.read(record.data(), std::streamsize(bytes))) break;  // it was cut off here
    out.pieces[piece] = std::move(record);
    out.bytes = in.tellg();
  }
  return out;
}

Error cannot(const char* what, const std::string& file) {
  return {ErrorKind::kMachine, fmt::format("cannot {} {}: {}", what, file, std::strerror(errno))};
}

std::string text_of(int descriptor) {
  std::string text;
  char piece[65536];
  while (const auto n =
             read_at(descriptor, std::as_writable_bytes(std::span(piece)), text.size())) {
    if (*n == 0) break;
    text.append(piece, *n);
  }
  return text;
}

// A lock of the whole file, of this process: its children have none, and no copy of it outlives it.
struct flock whole_file() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

Error in_use(int descriptor, const std::string& file) {
  struct flock holder = whole_file();
  const bool known =
      ::fcntl(descriptor, F_GETLK, &holder) == 0 && holder.l_type != F_UNLCK && holder.l_pid > 0;
  return bad_input(fmt::format("another sweep{} writes to {}",
                               known ? fmt::format(", process {},", holder.l_pid) : "", file),
                   "wait for it, or give another -o");
}

// True if the name still is that of the open file, which the sweep that held it may have removed.
bool is_named(int descriptor, const std::string& file) {
  struct stat open {
  }, named{};
  return ::fstat(descriptor, &open) == 0 && ::stat(file.c_str(), &named) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

bool write_text(int descriptor, const std::string& text) {
  return write_all(descriptor, std::as_bytes(std::span(text)));
}

}  // namespace

SweepPart::SweepPart(SweepPart&& other) noexcept
    : file_(std::move(other.file_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      pieces_(std::move(other.pieces_)) {}

SweepPart::~SweepPart() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::optional<Error> SweepPart::open_locked() {
  do {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
    if (descriptor_ < 0) return cannot("create", file_);
    struct flock lock = whole_file();
    if (::fcntl(descriptor_, F_SETLK, &lock) != 0) {
      if (errno == EACCES || errno == EAGAIN) return in_use(descriptor_, file_);
      return cannot("lock", file_);
    }
  } while (!is_named(descriptor_, file_));
  return std::nullopt;
}

std::optional<Error> SweepPart::read_pieces(const SweepId& id, bool restart) {
  const std::string text = text_of(descriptor_);
  Content content = parse(text);
  if (!text.empty() && content.mark != kMark)
    return bad_input(fmt::format("{} is there and is no part of a sweep", file_),
                     "move it away, or give another -o");
  const bool same = content.words == id.words && content.inputs == id.inputs;
  if (!content.pieces.empty() && !same && !restart)
    return bad_input(
        content.words != id.words
            ? fmt::format("{} holds {} pieces of another sweep", file_, content.pieces.size())
            : fmt::format("the program or a rig, model or catalogue file has changed since {}",
                          file_),
        "--restart throws it away and begins anew; the command of that sweep goes on with it; or "
        "another -o");
  const bool goes_on = same && !restart;
  if (::ftruncate(descriptor_, goes_on ? content.bytes : 0) != 0) return cannot("write", file_);
  if (!goes_on && !write_text(descriptor_, fmt::format("{} {} {}\n", kMark, id.words, id.inputs)))
    return cannot("write", file_);
  if (goes_on) pieces_ = std::move(content.pieces);
  return std::nullopt;
}

Result<SweepPart> SweepPart::open(const std::string& file, const SweepId& id, bool restart) {
  SweepPart part(file);
  if (file.empty()) return part;
  if (auto error = part.open_locked()) return *error;
  if (auto error = part.read_pieces(id, restart)) return *error;
  return part;
}

void SweepPart::add(std::int64_t piece, const std::string& text) {
  pieces_[piece] = text;
  if (descriptor_ < 0) return;
  if (!write_text(descriptor_, fmt::format("{} {}\n{}", piece, text.size(), text)))
    throw MachineError(fmt::format("cannot write {}: {}", file_, std::strerror(errno)));
}

void SweepPart::remove() const {
  if (!file_.empty()) std::remove(file_.c_str());
}

std::string part_file(const std::string& output) {
  return output.empty() || !is_replaced(output) ? "" : output + ".part";
}

}  // namespace rigcast::cli
