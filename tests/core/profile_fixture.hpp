#pragma once
// A profile with every required key and figures of its own, and files of profiles in a folder.

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/runtime/load_profile.hpp"

namespace rigcast::fixtures {

inline const std::string kProfile = R"(name = "test"
era = "2026"
source = "made up for a test"
rules = "transformers"
kv_policies = ["vram", "ram"]
[memory]
kv_padding = 32
logits = "prompt"
staging = "4 MiB"
[load]
chunk = "1 MiB"
ssd_share = 0.8
host_copy = "8 GB/s"
[prefill]
staging = "pageable"
mapped_share = 0.55
[decode]
crossing = "45 us"
gpu_crossing = "130 us"
token = "120 us"
sample = "80 us"
tokenize = "1 us"
kv_cycles = 0.02
kv_cycles_quant = 0.04
expert_cycles = 1.5
kv_without_flash = 1.6
stream_share = 0.9
[kernels]
attention = 12
recurrent = 24
ffn = 7.5
moe = 14
head = 3
[gpu.default]
read = 0.78
cycles = 0.06
launch = 1.25
kv_read = 0.6
gemm = 0.42
tiles = 0.24
attention = 0.35
[gpu.ampere]
read = { value = 0.5, kind = "fitted", source = "a fit" }
[gpu."rdna3.5"]
launch = 4
[backend.default]
launch = "3 us"
[batch]
tile_half_rate_batch = 30
gemm_half_rate_batch = 67
power = 0.9
experts = 0.5
expand = 0.8
score_bytes = 24
pipeline = 0.6
[cpu]
read = 0.72
read_per_thread = "10 GB/s"
one_token = 0.5
unoverlapped_share = 0.6
experts = 0.8
attention = 0.3
cache = 0.25
barrier_time = "4 us"
half_rate_batch = 2
blas = 0.6
[cpu.int8_share]
scalar = 0.1
avx2 = 0.25
[uncertainty]
decode = 0.2
prefill = 0.45
load = 0.4
)";

/// A folder for the time of a test.
class ProfileFolder {
 public:
  ProfileFolder() {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("profiles-" + std::to_string(getpid()) + "-" + std::to_string(++count));
    std::filesystem::create_directories(path_ / "fitted");
  }
  ~ProfileFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ProfileFolder(const ProfileFolder&) = delete;
  ProfileFolder& operator=(const ProfileFolder&) = delete;

  /// Of "fitted/a" the fitted figures for "a".
  void write(const std::string& id, const std::string& text) const {
    std::ofstream(path_ / (id + ".toml"), std::ios::binary) << text;
  }
  Result<RuntimeProfile> load(const std::string& id, bool with_fit = true) const {
    return load_runtime_profile(path_ / (id + ".toml"), with_fit);
  }

 private:
  std::filesystem::path path_;
};

inline Result<RuntimeProfile> load_profile(const std::string& text) {
  const ProfileFolder folder;
  folder.write("test", text);
  return folder.load("test");
}

inline GpuPart part_of(const std::string& architecture) {
  GpuPart g;
  g.architecture = architecture;
  return g;
}

}  // namespace rigcast::fixtures
