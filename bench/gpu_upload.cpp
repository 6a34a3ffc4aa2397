// Upload of weights to the GPU: a file in the page cache, compared with copying from pinned memory
// alone and copying out of the page cache alone; and synthetic weights generated on the GPU.
// Medians of several samples in one run.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/catalogue/catalogue.hpp"
#include "engine/backends/cuda/weights/upload.cuh"
#include "engine/cuda/cuda_buffer.cuh"
#include "engine/kernels/cuda/weights/synthesize.cuh"
#include "engine/load/load.hpp"
#include "engine/synth/synthetic_file.hpp"

using namespace rigcast;
using namespace rigcast::engine;

namespace {

constexpr int kSamples = 7;
constexpr double kUploadBar = 0.70, kSynthesisBar = 500e9;
constexpr std::size_t kPinned = 256 << 20;
constexpr std::uint64_t kPiece = 8 << 20;

using Clock = std::chrono::steady_clock;

double seconds_of(const std::function<void()>& job) {
  const auto begin = Clock::now();
  job();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Bytes per second; the first sample, which allocates memory, does not count.
double median_rate(double bytes, const std::function<double()>& seconds) {
  std::vector<double> rates;
  for (int i = 0; i <= kSamples; ++i) {
    const double taken = seconds();
    if (i > 0) rates.push_back(bytes / taken);
  }
  std::ranges::sort(rates);
  return rates[rates.size() / 2];
}

// Copies pieces of an upload's size, from memory that exceeds the caches.
double pinned_rate(cuda::Vram& vram) {
  const Stream stream;
  const PinnedBuffer pinned(kPinned);
  const cuda::VramPiece on_device = vram.allocate(kPinned, "bench");
  return median_rate(double(kPinned), [&] {
    return seconds_of([&] {
      for (std::size_t at = 0; at < kPinned; at += kPiece)
        RIGCAST_CUDA_CALL(cudaMemcpyAsync(on_device.as() + at, pinned.as<std::byte>() + at, kPiece,
                                          cudaMemcpyHostToDevice, stream.get()));
      stream.wait();
    });
  });
}

// Copies from the page cache to pinned memory, with as many threads as an upload.
double cache_rate(const std::filesystem::path& path, int threads) {
  const auto size = std::filesystem::file_size(path);
  const PinnedBuffer pinned(std::size_t(threads) * kPiece);
  return median_rate(double(size), [&] {
    return seconds_of([&] {
      std::atomic<std::uint64_t> next{0};
      std::vector<std::jthread> readers;
      for (int i = 0; i < threads; ++i)
        readers.emplace_back([&, i] {
          const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
          auto* to = pinned.as<std::byte>() + std::size_t(i) * kPiece;
          for (std::uint64_t at; (at = next.fetch_add(kPiece)) < size;)
            if (::pread(fd, to, std::min(kPiece, size - at), off_t(at)) <= 0) std::abort();
          ::close(fd);
        });
    });
  });
}

// Contiguous tensors in the GPU's memory.
class Destination {
 public:
  Destination(cuda::Vram& vram, const GgufFile& file) {
    std::uint64_t bytes = 0;
    for (const TensorInfo& t : file.tensors()) {
      tensors_.push_back(host_tensor(t));
      offsets_.push_back(bytes);
      bytes += (t.bytes + 255) / 256 * 256;
    }
    memory_ = vram.allocate(bytes, "weights");
  }
  std::span<const HostTensor> tensors() const { return tensors_; }
  void take(const cuda::ArrivedPiece& p) const {
    RIGCAST_CUDA_CALL(cudaMemcpyAsync(memory_.as() + offsets_[p.tensor] + p.first_byte, p.on_device,
                                      p.bytes, cudaMemcpyDeviceToDevice, p.stream.get()));
  }

 private:
  std::vector<HostTensor> tensors_;
  std::vector<std::uint64_t> offsets_;
  cuda::VramPiece memory_;
};

double upload_rate(cuda::Uploader& uploader, const Destination& destination, const GgufFile* file) {
  const auto use = [&](const cuda::ArrivedPiece& p) { destination.take(p); };
  cuda::UploadReport report;
  const auto seconds = [&] {
    report = uploader.upload(destination.tensors(), file, use);
    return report.time.value;
  };
  const double per_second = median_rate(1, seconds);
  return per_second * double(report.bytes);
}

void print(const std::string& what, double rate, double ratio, double bar) {
  fmt::print("{:<46} {:>8.2f} GB/s {:>6.2f} >= {:.2f}  {}\n", what, rate / 1e9, ratio, bar,
             ratio >= bar ? "holds" : "FAILS");
}

void print(const std::string& what, double rate) {
  fmt::print("{:<46} {:>8.2f} GB/s\n", what, rate / 1e9);
}

// Pinned memory of the size of an 8B model's embedding, in Q4_K and in F16. Freeing it is not
// timed.
void bench_pinning() {
  for (const std::size_t bytes : {std::size_t(295) << 20, std::size_t(1) << 30}) {
    const auto rate = [&](const char* how, const std::function<void()>& take) {
      print(fmt::format("{} MiB, {}", bytes >> 20, how), double(bytes) / seconds_of(take));
    };
    std::optional<PinnedBuffer> buffer;
    rate("pinned by cudaHostAlloc", [&] { buffer.emplace(bytes); });
    std::optional<PinnedPages> pages;
    rate("pinned as large pages", [&] { pages.emplace(bytes); });
    const LargePages touched(bytes);
    rate("  of it touching them", [&] { touch_pages(touched.data(), bytes); });
  }
}

void bench_uploads(cuda::Vram& vram, const std::filesystem::path& path) {
  auto file = GgufFile::open(path);
  if (!file) throw MachineError(file.error().text());
  const Destination destination(vram, *file);
  const double pinned = pinned_rate(vram);
  print("pinned memory to the GPU", pinned);
  const auto cores = int(std::thread::hardware_concurrency());
  for (const int readers : {4, 8, 12, 16})
    if (readers <= cores) {
      const double cached = cache_rate(path, readers);
      print(fmt::format("page cache to pinned memory, {} threads", readers), cached);
      for (const std::uint64_t piece : {4u << 20, 8u << 20}) {
        cuda::Uploader uploader(vram, {piece, readers});
        const double rate = upload_rate(uploader, destination, &*file);
        print(fmt::format("  uploads of {} MiB", piece >> 20), rate,
              rate / std::min(pinned, cached), kUploadBar);
      }
    }
  const auto use = [&](const cuda::ArrivedPiece& p) { destination.take(p); };
  double rate = 0;
  const double first = seconds_of([&] {
    cuda::Uploader uploader(vram);
    rate = double(file->bytes()) / uploader.upload(destination.tensors(), &*file, use).time.value;
  });
  print("one upload as it is by default", rate);
  print("  with the making of its buffers", double(file->bytes()) / first);
  bench_pinning();
  cuda::Uploader uploader(vram);
  if (auto error = drop_from_page_cache(path)) throw MachineError(error->text());
  const auto report = uploader.upload(destination.tensors(), &*file, use);
  print(fmt::format("from the disk, {:.0f} % past the page cache",
                    100.0 * double(report.direct_bytes) / double(report.bytes)),
        double(report.bytes) / report.time.value);
  print("from the mapping, not from the file", upload_rate(uploader, destination, nullptr));
}

void bench_synthesis(cuda::Vram& vram) {
  const Stream stream;
  constexpr std::uint64_t kRows = 1 << 17, kColumns = 14336;
  for (int i = 0; i < kComputedFormatCount; ++i) {
    Tensor t;
    t.name = "blk.0.ffn_down.weight";
    t.role = TensorRole::kFfnDown;
    t.shape = {kColumns, kRows, 1};
    t.dimensions = 2;
    t.format = QuantFormat(i);
    t.bytes = tensor_bytes(t.format, kColumns, kRows);
    const cuda::VramPiece out = vram.allocate(t.bytes, "bench");
    const double rate = median_rate(double(t.bytes), [&] {
      return seconds_of([&] {
        cuda::synthesize(stream, cuda::synthetic_tensor(t, 1), 0, out.as(), t.bytes);
        stream.wait();
      });
    });
    print(fmt::format("synthetic weights, {}", info(t.format).name), rate, rate / kSynthesisBar, 1);
  }
}

void write_file(const char* program, const std::filesystem::path& path) {
  const auto catalogue = Catalogue::open(program);
  if (!catalogue) throw MachineError(catalogue.error().text());
  const auto spec = catalogue->model("llama-3.1-8b");
  if (!spec) throw MachineError(spec.error().text());
  const auto table = make_tensor_table(*spec, *QuantMix::from_name("Q4_K_M"));
  if (auto error = write_synthetic_file(*spec, *table, "Q4_K_M", 1, path, {}))
    throw MachineError(error->text());
}

}  // namespace

int main(int argc, char** argv) try {
  const std::filesystem::path folder = argc > 1 ? argv[1] : std::filesystem::temp_directory_path();
  const std::filesystem::path path = folder / fmt::format("rigcast-upload-{}.gguf", ::getpid());
  struct Removed {
    const std::filesystem::path& path;
    ~Removed() { std::filesystem::remove(path); }
  } removed{path};
  cuda::Vram vram(0, std::nullopt);
  bench_synthesis(vram);
  write_file(argv[0], path);
  bench_uploads(vram, path);
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 3;
}
