// Files on the disk are complete or do not exist.

#include "engine/gguf/writer.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>

#include "tests/engine/gguf/gguf_fixture.hpp"

namespace rigcast::engine {
namespace {

using namespace fixtures;
using test::Folder;

GgufHeader two_tensors() {
  GgufHeader header;
  header.set("general.architecture", "llama");
  header.add_tensor("a", QuantFormat::kF32, {3});
  header.add_tensor("b", QuantFormat::kQ8_0, {64, 2});
  return header;
}

std::string pattern(std::size_t count, int first) {
  std::string out(count, '\0');
  for (std::size_t i = 0; i < count; ++i) out[i] = char(first + int(i));
  return out;
}

std::string data_of(const GgufFile& file, std::string_view name) {
  const TensorInfo* t = file.find_tensor(name);
  REQUIRE(t != nullptr);
  return std::string(as_text(std::span(t->data, std::size_t(t->bytes))));
}

// While it lives, files cannot grow beyond a number of bytes, as on a full disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = ::signal(SIGXFSZ, SIG_IGN);
    const rlimit now{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

}  // namespace

TEST_CASE("Tensors are written in order, whole or in chunks, and read back", "[gguf]") {
  const Folder folder;
  auto writer = GgufWriter::create(folder / "m.gguf", two_tensors());
  REQUIRE(writer.ok());
  CHECK(folder.names().size() == 1);
  CHECK_FALSE(std::filesystem::exists(folder / "m.gguf"));
  REQUIRE(writer->next() != nullptr);
  CHECK(writer->next()->name == "a");
  CHECK(writer->next()->bytes == 12);
  CHECK_FALSE(writer->write(bytes_of(pattern(12, 1))));
  CHECK(writer->next()->name == "b");
  std::uint64_t blocks = 0;
  CHECK_FALSE(writer->write_chunks([&](std::uint64_t first, std::span<std::byte> out) {
    CHECK(first == blocks);
    CHECK(out.size() % 34 == 0);
    blocks += out.size() / 34;
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = std::byte(first * 34 + i);
  }));
  CHECK(blocks == 4);
  CHECK(writer->next() == nullptr);
  CHECK_FALSE(writer->finish());
  CHECK(folder.names() == std::vector<std::string>{"m.gguf"});

  const auto file = GgufFile::open(folder / "m.gguf");
  REQUIRE(file.ok());
  CHECK(data_of(*file, "a") == pattern(12, 1));
  CHECK(data_of(*file, "b") == pattern(136, 0));
  CHECK(file->bytes() % 32 == 0);
}

TEST_CASE("Large tensors come in chunks of whole blocks", "[gguf]") {
  const Folder folder;
  GgufHeader header;
  header.add_tensor("large", QuantFormat::kQ6_K, {256, 50'000});
  auto writer = GgufWriter::create(folder / "m.gguf", std::move(header));
  REQUIRE(writer.ok());
  std::uint64_t next = 0;
  int chunks = 0;
  CHECK_FALSE(writer->write_chunks([&](std::uint64_t first, std::span<std::byte> out) {
    CHECK(first == next);
    CHECK(out.size() % 210 == 0);
    for (std::size_t i = 0; i < out.size(); i += 210) out[i] = std::byte(first + i / 210);
    next += out.size() / 210;
    ++chunks;
  }));
  CHECK(next == 50'000);
  CHECK(chunks > 1);
  CHECK_FALSE(writer->finish());
  const auto file = GgufFile::open(folder / "m.gguf");
  REQUIRE(file.ok());
  const TensorInfo& t = file->tensors().front();
  bool every = true;
  for (std::uint64_t i = 0; i < 50'000; ++i) every = every && t.data[i * 210] == std::byte(i);
  CHECK(every);
}

TEST_CASE("A writer that does not finish leaves nothing", "[gguf]") {
  const Folder folder;
  const std::string old = folder.write("m.gguf", "what was there");
  {
    auto writer = GgufWriter::create(old, two_tensors());
    REQUIRE(writer.ok());
    CHECK_FALSE(writer->write(bytes_of(pattern(12, 1))));
    const auto moved = *std::move(writer);
    CHECK(folder.names().size() == 2);
  }
  CHECK(folder.names() == std::vector<std::string>{"m.gguf"});
  CHECK(test::read(old) == "what was there");
}

TEST_CASE("Two writers of one target do not write over each other", "[gguf]") {
  const Folder folder;
  auto first = GgufWriter::create(folder / "m.gguf", GgufHeader());
  auto second = GgufWriter::create(folder / "m.gguf", two_tensors());
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  CHECK_FALSE(first->finish());
  CHECK(GgufFile::open(folder / "m.gguf")->tensors().empty());
  CHECK_FALSE(second->write(bytes_of(pattern(12, 1))));
  CHECK_FALSE(second->write(bytes_of(pattern(136, 1))));
  CHECK_FALSE(second->finish());
  CHECK(GgufFile::open(folder / "m.gguf")->tensors().size() == 2);
}

TEST_CASE("What cannot be written is an error of the machine, with a reason", "[gguf]") {
  const Folder folder;
  const auto nowhere = GgufWriter::create(folder / "no/such/folder/m.gguf", two_tensors());
  REQUIRE_FALSE(nowhere.ok());
  CHECK(nowhere.error().kind == ErrorKind::kMachine);
  CHECK(contains(nowhere.error().message, "m.gguf: No such file or directory"));
  for (const std::string& target :
       {folder.path().string(), std::string("/dev/null"), folder.path().string() + "/"}) {
    const auto refused = GgufWriter::create(target, two_tensors());
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().kind == ErrorKind::kBadInput);
  }
  if (::geteuid() == 0) return;  // root writes everywhere
  std::filesystem::permissions(
      folder.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  const auto denied = GgufWriter::create(folder / "m.gguf", two_tensors());
  std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_all);
  REQUIRE_FALSE(denied.ok());
  CHECK(denied.error().kind == ErrorKind::kMachine);
}

TEST_CASE("A full disk is an error, and what was written goes away", "[gguf]") {
  const Folder folder;
  std::optional<Error> error;
  {
    const FullDisk full(64 << 10);
    GgufHeader header;
    header.add_tensor("large", QuantFormat::kF32, {1024, 1024});
    auto writer = GgufWriter::create(folder / "m.gguf", std::move(header));
    REQUIRE(writer.ok());
    error = writer->write_chunks([](std::uint64_t, std::span<std::byte>) {});
  }
  REQUIRE(error.has_value());
  CHECK(error->kind == ErrorKind::kMachine);
  CHECK(contains(error->message, "cannot write"));
  CHECK(contains(error->hint, "4194304 bytes"));
  CHECK(folder.names().empty());
}

}  // namespace rigcast::engine
