// Reads of even size without a GPU, and whole uploads with one.
#include "engine/backends/cuda/weights/upload.cuh"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "engine/gguf/writer.hpp"
#include "engine/load/load.hpp"
#include "engine/load/upload_reader.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/device_data.cuh"
#include "tests/folder.hpp"
#include "tests/machine_error.hpp"
#include "tests/page_cache.hpp"

namespace rigcast::engine {
namespace {

using Bytewise = std::vector<std::byte>;

Bytewise random_bytes(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Bytewise bytes(count);
  for (std::byte& b : bytes) b = std::byte(random());
  return bytes;
}

struct Shape {
  QuantFormat format;
  std::uint64_t columns, rows;
};

// Tensors of odd sizes: rows that divide no piece, vectors between matrices, one that is long.
const std::vector<Shape> kOddShapes = {
    {QuantFormat::kQ6_K, 768, 333}, {QuantFormat::kF32, 777, 1},     {QuantFormat::kF32, 1, 1},
    {QuantFormat::kMXFP4, 96, 999}, {QuantFormat::kQ4_0, 4096, 77},  {QuantFormat::kF16, 3, 1001},
    {QuantFormat::kQ8_0, 32, 1},    {QuantFormat::kQ4_K, 2048, 2000}};

std::string name_of(std::size_t i) { return "blk." + std::to_string(i) + ".attn_q.weight"; }

// A file of random bytes in a folder of its own, and the same bytes.
struct RandomFile {
  test::Folder folder;
  std::filesystem::path path = folder / "random.gguf";
  std::vector<Bytewise> contents;

  explicit RandomFile(const std::vector<Shape>& shapes) {
    GgufHeader header;
    header.set("general.architecture", std::string("llama"));
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const std::vector<std::uint64_t> shape = {shapes[i].columns, shapes[i].rows};
      header.add_tensor(name_of(i), shapes[i].format,
                        std::span(shape).first(shapes[i].rows > 1 ? 2 : 1));
      contents.push_back(random_bytes(
          tensor_bytes(shapes[i].format, shapes[i].columns, shapes[i].rows), unsigned(i)));
    }
    auto writer = GgufWriter::create(path, std::move(header));
    REQUIRE(writer.ok());
    for (const Bytewise& c : contents) REQUIRE_FALSE(writer->write(c));
    REQUIRE_FALSE(writer->finish());
  }
  GgufFile open() const {
    auto file = GgufFile::open(path);
    REQUIRE(file.ok());
    return *std::move(file);
  }
};

std::vector<HostTensor> tensors_of(const GgufFile& file) {
  std::vector<HostTensor> out;
  for (const TensorInfo& t : file.tensors()) out.push_back(host_tensor(t));
  return out;
}

std::vector<HostTensor> in_memory(const std::vector<Bytewise>& contents, std::uint64_t row_bytes) {
  std::vector<HostTensor> out;
  for (const Bytewise& c : contents) out.push_back({"in memory", c.data(), c.size(), row_bytes});
  return out;
}

struct PieceOf {
  std::size_t tensor;
  std::uint64_t first_byte, bytes;
};

// Every byte of every tensor once, in whole rows.
void check_cover(std::vector<PieceOf> pieces, const std::vector<HostTensor>& tensors) {
  std::ranges::sort(pieces, [](const PieceOf& a, const PieceOf& b) {
    return std::tie(a.tensor, a.first_byte) < std::tie(b.tensor, b.first_byte);
  });
  std::vector<std::uint64_t> end(tensors.size());
  bool whole_rows = true, without_gaps = true;
  for (const PieceOf& p : pieces) {
    without_gaps &= p.first_byte == end[p.tensor];
    whole_rows &= p.bytes > 0 && p.bytes % tensors[p.tensor].row_bytes == 0;
    end[p.tensor] += p.bytes;
  }
  CHECK(without_gaps);
  CHECK(whole_rows);
  for (std::size_t i = 0; i < tensors.size(); ++i) CHECK(end[i] == tensors[i].bytes);
}

std::vector<UploadRead> plan_of(const std::vector<HostTensor>& tensors, const GgufFile* file,
                                std::uint64_t most_bytes) {
  auto plan = plan_upload(tensors, file, most_bytes);
  REQUIRE(plan.ok());
  return *std::move(plan);
}

std::vector<Bytewise> read_by_source(const std::vector<HostTensor>& tensors, const GgufFile* file,
                                     std::uint64_t most_bytes) {
  const auto reads = plan_of(tensors, file, most_bytes);
  const UploadReader source(tensors, file, reads);
  const std::size_t room = most_bytes + UploadReader::kSlack;
  const std::unique_ptr<std::byte, void (*)(void*)> buffer(
      static_cast<std::byte*>(std::aligned_alloc(
          UploadReader::kAlignment, (room + UploadReader::kAlignment - 1) /
                                        UploadReader::kAlignment * UploadReader::kAlignment)),
      std::free);
  std::vector<Bytewise> out;
  for (const HostTensor& t : tensors) out.emplace_back(t.bytes);
  for (const UploadRead& read : reads) {
    const auto filled = source.fill(read, buffer.get());
    for (const UploadPiece& p : read.pieces)
      std::memcpy(out[p.tensor].data() + p.first_byte, filled.first + p.at, p.bytes);
  }
  return out;
}

}  // namespace

TEST_CASE("Reads cover all tensors in whole rows and are nearly full", "[cuda][upload]") {
  const RandomFile random(kOddShapes);
  const GgufFile file = random.open();
  const auto tensors = tensors_of(file);
  for (const std::uint64_t most : {4096u, 10'000u, 65'536u, 1u << 20}) {
    INFO("reads of " << most);
    const auto reads = plan_of(tensors, &file, most);
    std::vector<PieceOf> pieces;
    std::uint64_t bytes = 0;
    for (const UploadRead& read : reads) {
      CHECK(read.bytes <= most);
      CHECK(read.part == 0);
      bytes += read.bytes;
      for (const UploadPiece& p : read.pieces) pieces.push_back({p.tensor, p.first_byte, p.bytes});
    }
    check_cover(pieces, tensors);
    // Rows have at most 3 KiB: of all reads but the last that much may be empty.
    if (most >= 65'536) CHECK(reads.size() <= 1 + bytes / (most - 3072));
  }
}

TEST_CASE("What lies apart is not read along", "[cuda][upload]") {
  const RandomFile random(kOddShapes);
  const GgufFile file = random.open();
  const auto all = tensors_of(file);
  const std::vector<HostTensor> ends = {all.front(), all.back()};
  const auto reads = plan_of(ends, &file, 64 << 20);
  REQUIRE(reads.size() == 2);
  CHECK(reads[0].bytes == ends[0].bytes);
  CHECK(reads[1].bytes == ends[1].bytes);
}

TEST_CASE("A row longer than a read is refused", "[cuda][upload]") {
  const Bytewise bytes(5000);
  const std::vector<HostTensor> one = {{"token_embd.weight", bytes.data(), 5000, 5000}};
  const auto plan = plan_upload(one, nullptr, 4096);
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.error().message ==
        "a row of token_embd.weight has 5000 bytes, and uploads take 4096 at a time");
}

TEST_CASE("Reads bring a file's bytes, cached or not", "[cuda][upload]") {
  const RandomFile random(kOddShapes);
  const GgufFile file = random.open();
  for (const std::uint64_t most : {4096u, 100'000u, 8u << 20}) {
    INFO("reads of " << most);
    CHECK(read_by_source(tensors_of(file), &file, most) == random.contents);
    REQUIRE_FALSE(drop_from_page_cache(random.path));
    CHECK(read_by_source(tensors_of(file), &file, most) == random.contents);
  }
}

TEST_CASE("Reads bring a model's bytes from all of its parts", "[cuda][upload]") {
  const test::Folder folder;
  std::vector<Bytewise> contents;
  for (std::size_t i = 0; i < 3; ++i) {
    GgufHeader header;
    if (i == 0) header.set("general.architecture", std::string("llama"));
    header.set("split.no", std::uint16_t(i));
    header.set("split.count", std::uint16_t(3));
    header.set("split.tensors.count", std::int32_t(3));
    header.add_tensor(name_of(i), QuantFormat::kF32, {100, 70});
    contents.push_back(random_bytes(28'000, unsigned(40 + i)));
    auto writer = GgufWriter::create(folder / ("m-0000" + std::to_string(i + 1) + "-of-00003.gguf"),
                                     std::move(header));
    REQUIRE(writer.ok());
    REQUIRE_FALSE(writer->write(contents.back()));
    REQUIRE_FALSE(writer->finish());
  }
  const auto file = GgufFile::open(folder / "m-00001-of-00003.gguf");
  REQUIRE(file.ok());
  const auto tensors = tensors_of(*file);
  const auto reads = plan_of(tensors, &*file, 1 << 20);
  CHECK(reads.size() == 3);
  CHECK(read_by_source(tensors, &*file, 1 << 20) == contents);
  CHECK(read_by_source(tensors, &*file, 9000) == contents);
}

TEST_CASE("What is to stay in the page cache is read through it", "[cuda][upload]") {
  const RandomFile random(kOddShapes);
  const GgufFile file = random.open();
  const auto tensors = tensors_of(file);
  const auto reads = plan_of(tensors, &file, 65'536);
  REQUIRE_FALSE(drop_from_page_cache(random.path));
  const UploadReader source(tensors, &file, reads, false);
  Bytewise buffer(65'536 + UploadReader::kSlack);
  for (const UploadRead& read : reads) CHECK_FALSE(source.fill(read, buffer.data()).direct);
  CHECK(test::cached_bytes(random.path) == std::filesystem::file_size(random.path));
}

TEST_CASE("Reads bring bytes of memory, with a file and without", "[cuda][upload]") {
  const RandomFile random({kOddShapes[0], kOddShapes[4]});
  const GgufFile file = random.open();
  const std::vector<Bytewise> vectors = {random_bytes(12'300, 91), random_bytes(300, 92)};
  auto tensors = in_memory(vectors, 4);
  CHECK(read_by_source(tensors, nullptr, 8192) == vectors);
  for (const HostTensor& t : tensors_of(file)) tensors.push_back(t);
  auto expected = vectors;
  for (const Bytewise& c : random.contents) expected.push_back(c);
  CHECK(read_by_source(tensors, &file, 8192) == expected);
}

TEST_CASE("A file that has become shorter is an error", "[cuda][upload]") {
  const RandomFile random(kOddShapes);
  const GgufFile file = random.open();
  const auto read = [&] { read_by_source(tensors_of(file), &file, 65'536); };
  std::filesystem::resize_file(random.path, std::filesystem::file_size(random.path) - 1);
  CHECK(test::machine_error(read).find("it is not the file any more that was opened") !=
        std::string::npos);
}

TEST_CASE("A file that is gone or has made way for another is read all the same",
          "[cuda][upload]") {
  const RandomFile random(kOddShapes);
  const GgufFile file = random.open();
  std::filesystem::remove(random.path);
  CHECK(read_by_source(tensors_of(file), &file, 65'536) == random.contents);
  std::ofstream(random.path) << std::string(file.bytes(), 'x');
  CHECK(read_by_source(tensors_of(file), &file, 65'536) == random.contents);
}

TEST_CASE("A file that ends while it is read is an error", "[cuda][upload]") {
  const RandomFile random(kOddShapes);
  const GgufFile file = random.open();
  const auto tensors = tensors_of(file);
  const auto reads = plan_of(tensors, &file, 65'536);
  const UploadReader source(tensors, &file, reads);
  std::filesystem::resize_file(random.path, 100'000);
  Bytewise buffer(65'536 + UploadReader::kSlack);
  const std::string text = test::machine_error([&] { source.fill(reads.back(), buffer.data()); });
  CHECK(text.find("reading the weights failed: it ends at byte ") != std::string::npos);
}

namespace cuda {
namespace {

using fixtures::OnDevice;

// GPU memory in which pieces are assembled.
class Collected {
 public:
  explicit Collected(const std::vector<HostTensor>& tensors) {
    for (const HostTensor& t : tensors) places_.push_back(std::make_unique<Place>(t.bytes));
  }
  void take(const ArrivedPiece& piece) {
    aligned_ &= reinterpret_cast<std::uintptr_t>(piece.on_device) % 256 == 0;
    pieces_.push_back({piece.tensor, piece.first_byte, piece.bytes});
    RIGCAST_CUDA_CALL(cudaMemcpyAsync(places_[piece.tensor]->get() + piece.first_byte,
                                      piece.on_device, piece.bytes, cudaMemcpyDeviceToDevice,
                                      piece.stream.get()));
  }
  std::vector<Bytewise> read() const {
    std::vector<Bytewise> out;
    for (const auto& place : places_) out.push_back(place->read());
    return out;
  }
  const std::vector<PieceOf>& pieces() const { return pieces_; }
  bool aligned() const { return aligned_; }

 private:
  using Place = OnDevice<std::byte>;
  std::vector<std::unique_ptr<Place>> places_;
  std::vector<PieceOf> pieces_;
  bool aligned_ = true;
};

struct Upload {
  std::vector<Bytewise> bytes;
  UploadReport report;
};

Upload upload_all(Uploader& uploader, const std::vector<HostTensor>& tensors,
                  const GgufFile* file) {
  Collected collected(tensors);
  const UploadReport report =
      uploader.upload(tensors, file, [&](const ArrivedPiece& p) { collected.take(p); });
  check_cover(collected.pieces(), tensors);
  CHECK(collected.aligned());
  return {collected.read(), report};
}

std::uint64_t sum_of(const std::vector<HostTensor>& tensors) {
  std::uint64_t sum = 0;
  for (const HostTensor& t : tensors) sum += t.bytes;
  return sum;
}

}  // namespace

TEST_CASE("What is uploaded is the file, cached or not", "[cuda][gpu][upload]") {
  const RandomFile random(kOddShapes);
  const GgufFile file = random.open();
  const auto tensors = tensors_of(file);
  Vram vram(0, std::nullopt);
  for (const UploadOptions& options :
       {UploadOptions{4096, 1}, UploadOptions{100'000, 3}, UploadOptions{}}) {
    INFO("pieces of " << options.piece_bytes);
    Uploader uploader(vram, options);
    for (int take = 0; take < 2; ++take) {
      const Upload cached = upload_all(uploader, tensors, &file);
      CHECK(cached.bytes == random.contents);
      CHECK(cached.report.bytes == sum_of(tensors));
      CHECK(cached.report.time > Seconds{0});
      REQUIRE_FALSE(drop_from_page_cache(random.path));
      CHECK(upload_all(uploader, tensors, &file).bytes == random.contents);
    }
  }
  CHECK(vram.held() == 0_B);
}

TEST_CASE("Many tiny tensors are uploaded, from memory and from a file", "[cuda][gpu][upload]") {
  const RandomFile random(std::vector<Shape>(700, {QuantFormat::kF32, 5, 1}));
  const GgufFile file = random.open();
  const auto tensors = tensors_of(file);
  Vram vram(0, std::nullopt);
  Uploader uploader(vram, {64 << 10, 4});
  CHECK(upload_all(uploader, tensors, &file).bytes == random.contents);
  CHECK(upload_all(uploader, tensors, nullptr).bytes == random.contents);
  const auto loose = in_memory(random.contents, 20);
  CHECK(upload_all(uploader, loose, &file).bytes == random.contents);
}

TEST_CASE("No tensors are an upload of nothing", "[cuda][gpu][upload]") {
  Vram vram(0, std::nullopt);
  Uploader uploader(vram, {4096, 2});
  CHECK(upload_all(uploader, {}, nullptr).report.bytes == 0);
}

TEST_CASE("An upload that is stopped in its middle leaves nothing running", "[cuda][gpu][upload]") {
  const RandomFile random(kOddShapes);
  const GgufFile file = random.open();
  const auto tensors = tensors_of(file);
  Vram vram(0, std::nullopt);
  Uploader uploader(vram, {16 << 10, 4});
  std::stop_source stop;
  int pieces = 0;
  const auto stop_at_third = [&](const ArrivedPiece&) {
    if (++pieces == 3) stop.request_stop();
  };
  const std::string text = test::machine_error(
      [&] { uploader.upload(tensors, &file, stop_at_third, stop.get_token()); });
  CHECK(text == "stopped before the weights were on the GPU");
  CHECK(pieces < 10);
  // Asked for before it begins.
  CHECK(test::machine_error([&] {
          uploader.upload(
              tensors, &file, [&](const ArrivedPiece&) { ++pieces; }, stop.get_token());
        }) == "stopped before the weights were on the GPU");
  CHECK(upload_all(uploader, tensors, &file).bytes == random.contents);
}

TEST_CASE("What a piece's user throws ends the upload", "[cuda][gpu][upload]") {
  struct Refused {};
  const RandomFile random(kOddShapes);
  const GgufFile file = random.open();
  const auto tensors = tensors_of(file);
  Vram vram(0, std::nullopt);
  Uploader uploader(vram, {16 << 10, 4});
  int pieces = 0;
  const auto refuse_second = [&](const ArrivedPiece&) {
    if (++pieces == 2) throw Refused();
  };
  CHECK_THROWS_AS(uploader.upload(tensors, &file, refuse_second), Refused);
  CHECK(pieces == 2);
  CHECK(upload_all(uploader, tensors, &file).bytes == random.contents);
}

TEST_CASE("An upload says what cannot be read", "[cuda][gpu][upload]") {
  const RandomFile random(kOddShapes);
  const GgufFile file = random.open();
  const auto tensors = tensors_of(file);
  Vram vram(0, std::nullopt);
  Uploader uploader(vram, {16 << 10, 4});
  // Shorter by what the first piece's user cuts off.
  const auto cut_file = [&](const ArrivedPiece&) {
    std::filesystem::resize_file(random.path, 10'000);
  };
  CHECK(test::machine_error([&] {
          uploader.upload(tensors, &file, cut_file);
        }).find("reading the weights failed: it ends at byte ") != std::string::npos);
  std::filesystem::remove(random.path);
  CHECK(test::machine_error([&] {
          upload_all(uploader, tensors, &file);
        }).find(random.path.string()) == 0);
  const auto loose = in_memory(random.contents, 1);
  CHECK(upload_all(uploader, loose, nullptr).bytes == random.contents);
}

TEST_CASE("Upload buffers count against the limit", "[cuda][gpu][upload]") {
  Vram vram(0, 1_MiB);
  CHECK(test::machine_error([&] {
          Uploader uploader(vram, {8 << 20, 2});
        }).find("asked for the upload buffers") != std::string::npos);
  CHECK(vram.held() == 0_B);
}

}  // namespace cuda
}  // namespace rigcast::engine
