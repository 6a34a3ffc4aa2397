// Reading a GPU's slot from the Linux kernel's files.
#include "probe/gpu_link.hpp"

#include <filesystem>
#include <string>

#include "tests/catch.hpp"
#include "tests/folder.hpp"

using namespace rigcast;
using probe::GpuLink;
using probe::pcie_generation;
using probe::read_gpu_link;

namespace {

namespace fs = std::filesystem;

// As the kernel lays it out: the list holds links, and a device lies in the folder of its bridge.
class FakeSys {
 public:
  FakeSys() {
    fs::create_directories(device());
    fs::create_directories(devices());
    fs::create_directory_symlink(device(), devices() / "0000:0a:00.0");
  }
  fs::path devices() const { return folder_.path() / "bus/pci/devices"; }
  fs::path bridge() const { return folder_.path() / "devices/pci0000:00/0000:00:01.0"; }
  fs::path device() const { return bridge() / "0000:0a:00.0"; }

  static void write(const fs::path& file, const std::string& text) {
    std::ofstream(file) << text << "\n";
  }
  static void link(const fs::path& place, const std::string& which, const std::string& speed,
                   const std::string& width) {
    write(place / (which + "_link_speed"), speed);
    write(place / (which + "_link_width"), width);
  }

 private:
  test::Folder folder_;
};

}  // namespace

TEST_CASE("A rate of transfers is a generation of PCI-E", "[probe]") {
  CHECK(pcie_generation("2.5 GT/s PCIe") == 1);
  CHECK(pcie_generation("5.0 GT/s PCIe") == 2);
  CHECK(pcie_generation("8.0 GT/s PCIe") == 3);
  CHECK(pcie_generation("16.0 GT/s PCIe") == 4);
  CHECK(pcie_generation("32.0 GT/s PCIe") == 5);
  CHECK(pcie_generation("64.0 GT/s PCIe") == 6);
  CHECK(pcie_generation("8 GT/s") == 3);  // as older kernels write it
  for (const char* none :
       {"", "Unknown", "Unknown speed", "7 GT/s PCIe", "16", "16 GB/s", "-8 GT/s"})
    CHECK(pcie_generation(none) == 0);
}

TEST_CASE("A GPU's link is read with what the card and the slot can do", "[probe]") {
  const FakeSys sys;
  FakeSys::link(sys.device(), "current", "8.0 GT/s PCIe", "8");
  FakeSys::link(sys.device(), "max", "16.0 GT/s PCIe", "16");
  FakeSys::link(sys.bridge(), "max", "8.0 GT/s PCIe", "8");
  const GpuLink link = read_gpu_link(sys.devices(), "0000:0A:00.0");  // CUDA writes capitals
  CHECK(text(link.now) == "3x8");
  CHECK(text(link.card) == "4x16");
  CHECK(text(link.slot) == "3x8");
  CHECK(link.is_known());
  CHECK(link.is_narrower());
  const std::string said = probe::narrow_link(link);
  CHECK(said.find("runs at PCI-E 3x8, the card can do 4x16") != std::string::npos);
  CHECK(said.find("its slot can do 3x8") != std::string::npos);
}

TEST_CASE("A link that is narrower than card and slot is for the user to look at", "[probe]") {
  GpuLink link{{4, 8}, {4, 16}, {4, 16}};
  CHECK(probe::narrow_link(link).find("seat it anew") != std::string::npos);
  link.slot = {};
  CHECK(probe::narrow_link(link).find("seat it anew") != std::string::npos);
  link.now = link.card;
  CHECK(probe::narrow_link(link).empty());
  link.now = {};
  CHECK(probe::narrow_link(link).empty());
}

TEST_CASE("What is not told of a link is not made up", "[probe]") {
  const FakeSys sys;
  CHECK_FALSE(read_gpu_link(sys.devices(), "0000:0a:00.0").is_known());  // no files
  CHECK_FALSE(read_gpu_link(sys.devices(), "0000:0b:00.0").is_known());  // no device
  CHECK_FALSE(read_gpu_link("/nonexistent", "0000:0a:00.0").is_known());
  FakeSys::link(sys.device(), "current", "Unknown", "16");
  CHECK_FALSE(read_gpu_link(sys.devices(), "0000:0a:00.0").is_known());
  FakeSys::link(sys.device(), "current", "16.0 GT/s PCIe", "63");  // "not known", in the register
  CHECK_FALSE(read_gpu_link(sys.devices(), "0000:0a:00.0").is_known());
  FakeSys::link(sys.device(), "current", "16.0 GT/s PCIe", "16");
  CHECK(read_gpu_link(sys.devices(), "0000:0a:00.0").is_known());
}
