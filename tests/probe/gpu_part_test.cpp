// GPUs as drivers call them, found in the catalogue.
#include "probe/gpu_part.hpp"

#include <string>

#include "tests/catch.hpp"
#include "tests/paths.hpp"

using namespace rigcast;

namespace {

std::string part(const std::string& name, double memory_mib) {
  static const Catalogue catalogue{test::source_dir()};
  probe::Gpu gpu;
  gpu.name = name;
  gpu.memory = 1_MiB * memory_mib;
  return probe::gpu_of_catalogue(gpu, catalogue);
}

}  // namespace

TEST_CASE("A driver's name for a GPU finds its part", "[probe]") {
  CHECK(part("NVIDIA H100 80GB HBM3", 81559) == "h100-sxm");
  CHECK(part("NVIDIA H100 PCIe", 81559) == "h100-pcie-80gb");
  CHECK(part("NVIDIA H200", 143771) == "h200-sxm");
  CHECK(part("NVIDIA A100-SXM4-80GB", 81920) == "a100-sxm-80gb");
  CHECK(part("NVIDIA A100-SXM4-40GB", 40960) == "a100-sxm-40gb");
  CHECK(part("NVIDIA A100 80GB PCIe", 81920) == "a100-pcie-80gb");
  CHECK(part("NVIDIA A100-PCIE-40GB", 40960) == "a100-pcie-40gb");
  CHECK(part("NVIDIA L4", 23034) == "l4");
  CHECK(part("NVIDIA L40S", 46068) == "l40s");
  CHECK(part("NVIDIA RTX A6000", 49140) == "rtx-a6000");
  CHECK(part("NVIDIA RTX 6000 Ada Generation", 49140) == "rtx-6000-ada-48gb");
  CHECK(part("NVIDIA GeForce RTX 4090", 24564) == "rtx-4090");
  CHECK(part("NVIDIA GeForce RTX 3070 Laptop GPU", 8192) == "rtx-3070-laptop");
  CHECK(part("Tesla T4", 15360) == "t4-16gb");
  CHECK(part("Tesla V100-SXM2-32GB", 32768) == "v100-sxm2-32gb");
  CHECK(part("Tesla P40", 24576) == "p40");
}

TEST_CASE("One name of two sizes is told apart by its memory", "[probe]") {
  CHECK(part("NVIDIA GeForce RTX 3060", 12288) == "rtx-3060-12gb");
  CHECK(part("NVIDIA GeForce RTX 3060", 8192) == "rtx-3060-8gb");
  CHECK(part("NVIDIA GeForce RTX 4060 Ti", 16380) == "rtx-4060-ti-16gb");
  CHECK(part("NVIDIA GeForce RTX 4060 Ti", 8188) == "rtx-4060-ti-8gb");
  CHECK(part("NVIDIA GeForce RTX 4090", 49140) == "rtx-4090-48gb");
}

TEST_CASE("A GPU of another name or size is none of the catalogue's", "[probe]") {
  CHECK(part("NVIDIA GeForce RTX 4090", 32768).empty());
  CHECK(part("NVIDIA Unheard Of", 8192).empty());
  CHECK(part("", 8192).empty());
}
