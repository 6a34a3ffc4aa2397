// Files that the program writes are complete or do not exist, and never replace something that is
// not a regular file.

#include "core/files/output_file.hpp"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <string>
#include <utility>

#include "tests/catch.hpp"
#include "tests/folder.hpp"

using namespace rigcast;
namespace fs = std::filesystem;

namespace {

using Names = std::vector<std::string>;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::optional<Error> write(const fs::path& target, const std::string& text) {
  auto file = OutputFile::create(target);
  if (!file) return file.error();
  if (auto error = file->write(bytes_of(text))) return error;
  return file->finish();
}

}  // namespace

TEST_CASE("A file has its name once it is whole", "[core][output]") {
  const test::Folder folder;
  const std::string target = folder.write("x", "what was there");
  auto file = OutputFile::create(target);
  REQUIRE(file);
  CHECK_FALSE(file->write(bytes_of("one ")));
  CHECK_FALSE(file->write(bytes_of("two")));
  CHECK_FALSE(file->sync());
  CHECK(test::read(target) == "what was there");
  CHECK(folder.names().size() == 2);
  auto moved = *std::move(file);
  CHECK_FALSE(moved.finish());
  CHECK(test::read(target) == "one two");
  CHECK(folder.names() == Names{"x"});
}

TEST_CASE("A file that is not finished leaves nothing, nor does one that cannot be renamed",
          "[core][output]") {
  const test::Folder folder;
  { REQUIRE_FALSE(OutputFile::create(folder / "x")->write(bytes_of("half"))); }
  CHECK(folder.names().empty());
  {
    auto file = OutputFile::create(folder / "x");
    fs::create_directory(folder / "x");  // meanwhile
    const auto error = file->finish();
    REQUIRE(error);
    CHECK(error->kind == ErrorKind::kMachine);
    CHECK(error->message.find(folder / "x") != std::string::npos);
  }
  CHECK(folder.names() == Names{"x"});
}

TEST_CASE("Files that a signal handler removes are gone, and their writer gets an error",
          "[core][output]") {
  const test::Folder folder;
  auto file = OutputFile::create(folder / "x");
  REQUIRE(file);
  REQUIRE(folder.names().size() == 1);
  remove_temporary_files();
  CHECK(folder.names().empty());
  CHECK(file->finish());
  const std::string kept = folder.write("kept", "");
  { TemporaryFile(kept).keep(); }
  CHECK(fs::exists(kept));
  { const TemporaryFile file_of_ours(kept); }
  CHECK_FALSE(fs::exists(kept));
}

TEST_CASE("A folder is no file to write", "[core][output]") {
  const test::Folder folder;
  for (const std::string& target : {folder.path().string(), folder / "", std::string()}) {
    const auto file = OutputFile::create(target);
    REQUIRE_FALSE(file);
    CHECK(file.error().kind == ErrorKind::kMachine);
  }
  CHECK(fs::is_directory(folder.path()));
}

TEST_CASE("What is skipped is zeros, and takes no room in a file", "[core][output]") {
  constexpr std::size_t kHole = 64u << 20;
  const test::Folder folder;
  auto file = OutputFile::create(folder / "x");
  REQUIRE(file);
  CHECK_FALSE(file->write(bytes_of("one")));
  CHECK_FALSE(file->skip(kHole));
  CHECK_FALSE(file->write(bytes_of("two")));
  CHECK_FALSE(file->finish());
  const std::string text = test::read(folder / "x");
  REQUIRE(text.size() == kHole + 6);
  CHECK(text.starts_with("one"));
  CHECK(text.ends_with("two"));
  CHECK(text.find_first_not_of('\0', 3) == kHole + 3);
  struct stat there {};
  REQUIRE(::stat((folder / "x").c_str(), &there) == 0);
  CHECK(std::size_t(there.st_blocks) * 512 < kHole / 2);
}

TEST_CASE("A pipe gets the zeros that are skipped", "[core][output]") {
  const test::Folder folder;
  const std::string pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  auto reader = std::async(std::launch::async, [&] { return test::read(pipe); });
  auto file = OutputFile::create(pipe);
  REQUIRE(file);
  CHECK_FALSE(file->skip(3'000'000));
  CHECK_FALSE(file->finish());
  CHECK(reader.get() == std::string(3'000'000, '\0'));
}

TEST_CASE("A pipe is written to and stays one", "[core][output]") {
  const test::Folder folder;
  const std::string pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_FALSE(is_replaced(pipe));
  auto reader = std::async(std::launch::async, [&] { return test::read(pipe); });
  CHECK_FALSE(write(pipe, "through it"));
  CHECK(reader.get() == "through it");
  CHECK(fs::is_fifo(pipe));
  CHECK(folder.names() == Names{"pipe"});
}

TEST_CASE("A pipe from which nobody reads is an error after two seconds", "[core][output]") {
  const test::Folder folder;
  const std::string pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const auto error = write(pipe, "lost");
  REQUIRE(error);
  CHECK(error->text().find("nobody reads from this pipe") != std::string::npos);
}

TEST_CASE("Whether a place can be written to is told before, and nothing is left there",
          "[core][output]") {
  const test::Folder folder;
  CHECK_FALSE(check_writable(folder / "new"));
  CHECK_FALSE(check_writable(folder.write("old", "kept")));
  CHECK(test::read(folder / "old") == "kept");
  CHECK(folder.names() == Names{"old"});
  CHECK_FALSE(check_writable("/dev/null"));
  for (const std::string& nowhere :
       {folder / "missing/x", folder.path().string(), folder / "old/x"}) {
    const auto error = check_writable(nowhere);
    INFO(nowhere);
    REQUIRE(error);
    CHECK(error->kind == ErrorKind::kMachine);
    CHECK(error->text().find(nowhere) != std::string::npos);
  }
}

TEST_CASE("A folder is made with those above it, or refused", "[core][output]") {
  const test::Folder folder;
  CHECK_FALSE(make_folder(folder / "a/b"));
  CHECK(fs::is_directory(folder / "a/b"));
  CHECK_FALSE(make_folder(folder / "a/b"));
  CHECK(make_folder(folder.write("file", ""))->text().find("cannot create") != std::string::npos);
  CHECK(make_folder(folder / "file/x"));
  CHECK(make_folder(""));
}

TEST_CASE("A device stays one", "[core][output]") {
  const test::Folder folder;
  const std::string null = folder / "null";
  if (::mknod(null.c_str(), S_IFCHR | 0600, ::makedev(1, 3)) != 0) return;  // not permitted
  CHECK_FALSE(is_replaced(null));
  static_cast<void>(write(null, "lost"));  // where devices may be made, they may be barred
  CHECK(fs::is_character_file(null));
  CHECK(folder.names() == Names{"null"});
}

TEST_CASE("A link stays one: the file that it names is written", "[core][output]") {
  const test::Folder folder;
  fs::create_directory(folder / "elsewhere");
  const std::string file = folder.write("elsewhere/x", "what was there");
  fs::create_symlink(file, folder / "link");
  CHECK_FALSE(write(folder / "link", "new"));
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(test::read(file) == "new");
  CHECK(folder.names().size() == 2);
}

TEST_CASE("A link to a file that is not there yet stays one", "[core][output]") {
  const test::Folder folder;
  fs::create_directory(folder / "elsewhere");
  fs::create_symlink("elsewhere/second", folder / "first");
  fs::create_symlink("x", folder / "elsewhere/second");
  CHECK_FALSE(write(folder / "first", "new"));
  CHECK(fs::is_symlink(folder / "first"));
  CHECK(fs::is_symlink(folder / "elsewhere/second"));
  CHECK(test::read(folder / "elsewhere/x") == "new");
  CHECK(folder.names().size() == 2);
}

TEST_CASE("Links that lead nowhere are no file to write", "[core][output]") {
  const test::Folder folder;
  fs::create_symlink("b", folder / "a");
  fs::create_symlink("a", folder / "b");
  const auto error = write(folder / "a", "new");
  REQUIRE(error);
  CHECK(error->message.find("cannot create") == 0);
  CHECK(fs::is_symlink(folder / "a"));
}

TEST_CASE("A name may be as long as names of files are", "[core][output]") {
  const test::Folder folder;
  const std::string name(255, 'n');
  CHECK_FALSE(write(folder / name, "ours"));
  CHECK(test::read(folder / name) == "ours");
}

TEST_CASE("A link that waits where the temporary file would be is not followed", "[core][output]") {
  const test::Folder folder;
  const std::string victim = folder.write("victim", "untouched");
  for (int i = 0; i < 100; ++i)
    fs::create_symlink(victim, folder / (".rigcast-" + std::to_string(::getpid()) + "-" +
                                         std::to_string(i) + ".tmp"));
  CHECK_FALSE(write(folder / "x", "ours"));
  CHECK(test::read(victim) == "untouched");
  CHECK(test::read(folder / "x") == "ours");
  CHECK_FALSE(fs::is_symlink(folder / "x"));
}
