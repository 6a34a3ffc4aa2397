// Files by their path, and models split over several of them.

#include <fmt/format.h>
#include <sys/stat.h>

#include "tests/engine/gguf/gguf_fixture.hpp"

namespace rigcast::engine {
namespace {

using namespace fixtures;
using test::Folder;

struct Split {
  int number = 0;
  int count = 3;
  int tensors = 3;
};

GgufHeader part_header(const Split& split, const std::string& tensor) {
  GgufHeader header;
  if (split.number == 0) header.set("general.architecture", "llama");
  header.set("split.no", std::uint16_t(split.number));
  header.set("split.count", std::uint16_t(split.count));
  header.set("split.tensors.count", std::int32_t(split.tensors));
  header.add_tensor(tensor, QuantFormat::kF32, {8, 2});
  return header;
}

std::string part_path(const Folder& folder, int number, int count = 3) {
  return folder / fmt::format("m-{:05}-of-{:05}.gguf", number, count);
}

void write_parts(const Folder& folder, int tensors = 3) {
  for (int i = 0; i < 3; ++i)
    write_sparse(part_header({i, 3, tensors}, fmt::format("t{}", i)), part_path(folder, i + 1));
}

std::string error_of_open(const std::string& path) { return error_of(GgufFile::open(path)); }

}  // namespace

TEST_CASE("A file is opened and stays while its data are in use", "[gguf]") {
  const Folder folder;
  GgufHeader header;
  header.add_tensor("a", QuantFormat::kF32, {8});
  write_sparse(header, folder / "m.gguf");
  std::shared_ptr<const void> storage;
  const std::byte* data = nullptr;
  {
    const auto file = GgufFile::open(folder / "m.gguf");
    REQUIRE(file.ok());
    CHECK(file->name() == folder / "m.gguf");
    CHECK(file->parts().size() == 1);
    CHECK(file->bytes() == std::filesystem::file_size(folder / "m.gguf"));
    CHECK(file->find_tensor("b") == nullptr);
    CHECK(file->part_path(0) == folder / "m.gguf");
    storage = file->storage();
    data = file->find_tensor("a")->data;
  }
  CHECK(*data == std::byte{0});
}

TEST_CASE("Paths that are no file of a model say so", "[gguf]") {
  const Folder folder;
  CHECK(contains(error_of_open(folder / "none.gguf"), "no file"));
  CHECK(contains(error_of_open(folder.path().string()), "is a directory"));
  CHECK(contains(error_of_open(folder.write("empty.gguf", "")), "is empty"));
  CHECK(contains(error_of_open("/dev/null"), "no regular file"));
  CHECK(contains(error_of_open(""), "no file"));
  const std::string text = folder.write("text.gguf", "hello");
  CHECK(contains(error_of_open(text), text + ": not a GGUF file"));
  const std::string pipe = folder / "pipe.gguf";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(contains(error_of_open(pipe), "no regular file"));
}

TEST_CASE("Opening the first part opens all", "[gguf]") {
  const Folder folder;
  write_parts(folder);
  const auto file = GgufFile::open(part_path(folder, 1));
  INFO(error_of(file));
  REQUIRE(file.ok());
  CHECK(file->parts().size() == 3);
  CHECK(file->tensors().size() == 3);
  CHECK(file->find_tensor("t2")->bytes == 64);
  CHECK(*file->find_tensor("t2")->data == std::byte{0});
  CHECK(file->metadata().find("general.architecture")->text() == "llama");
  std::uint64_t bytes = 0;
  for (int i = 1; i <= 3; ++i) bytes += std::filesystem::file_size(part_path(folder, i));
  CHECK(file->bytes() == bytes);
}

TEST_CASE("The error of opening a later part names the first", "[gguf]") {
  const Folder folder;
  write_parts(folder);
  const std::string error = error_of_open(part_path(folder, 2));
  CHECK(contains(error, "this is part 2 of 3"));
  CHECK(contains(error, "open the first part, m-00001-of-00003.gguf"));
}

TEST_CASE("A part that is missing is named", "[gguf]") {
  const Folder folder;
  write_parts(folder);
  std::filesystem::remove(part_path(folder, 3));
  const std::string error = error_of_open(part_path(folder, 1));
  CHECK(contains(error, "part 3 of 3 is missing"));
  CHECK(contains(error, "expected " + part_path(folder, 3)));
}

TEST_CASE("Parts that contradict one another are refused", "[gguf]") {
  const Folder folder;
  write_parts(folder, 4);
  CHECK(contains(error_of_open(part_path(folder, 1)),
                 "the parts have 3 tensors, and split.tensors.count says 4"));
  write_parts(folder);
  write_sparse(part_header({1, 3, 3}, "t2"), part_path(folder, 3));
  CHECK(contains(error_of_open(part_path(folder, 1)),
                 "m-00003-of-00003.gguf: says that it is part 2 of 3, expected part 3 of 3"));
  write_sparse(part_header({2, 4, 3}, "t2"), part_path(folder, 3));
  CHECK(contains(error_of_open(part_path(folder, 1)), "part 3 of 4, expected part 3 of 3"));
  write_sparse(part_header({2, 3, 3}, "t0"), part_path(folder, 3));
  CHECK(contains(error_of_open(part_path(folder, 1)), "two parts have a tensor \"t0\""));
  folder.write("m-00003-of-00003.gguf", "GGUF");
  CHECK(contains(error_of_open(part_path(folder, 1)), "m-00003-of-00003.gguf: the file ends"));
}

TEST_CASE("Names and keys of parts go together", "[gguf]") {
  const Folder folder;
  write_sparse(part_header({0, 3, 3}, "t"), folder / "renamed.gguf");
  CHECK(contains(error_of_open(folder / "renamed.gguf"), "the first of 3 parts, and not named so"));
  write_sparse(part_header({0, 3, 3}, "t"), part_path(folder, 1, 2));
  CHECK(contains(error_of_open(part_path(folder, 1, 2)), "not named so"));
  write_sparse(part_header({5, 3, 3}, "t"), part_path(folder, 1));
  CHECK(contains(error_of_open(part_path(folder, 1)), "\"split.no\" is 5, expected 0 to 2"));
  GgufHeader plain;
  write_sparse(plain, part_path(folder, 1, 2));
  CHECK(contains(error_of_open(part_path(folder, 1, 2)), "know of no parts"));
  write_sparse(plain, part_path(folder, 1, 1));
  CHECK(GgufFile::open(part_path(folder, 1, 1)).ok());
  GgufHeader text;
  text.set("split.count", "three");
  write_sparse(text, folder / "text.gguf");
  CHECK(contains(error_of_open(folder / "text.gguf"), "\"split.count\" is of type string"));
}

TEST_CASE("Bytes in memory are one file, not a part", "[gguf]") {
  const std::string bytes = with_zeros(part_header({0, 3, 3}, "t"));
  CHECK(contains(error_of(file_of(bytes)), "one of several parts"));
}

}  // namespace rigcast::engine
