#include "library/data_folder.hpp"

#include <dlfcn.h>

#include <system_error>

namespace rigcast {
namespace fs = std::filesystem;

namespace {
// From lib/python3/dist-packages/rigcast/ up to the folder that has lib/ and share/.
constexpr int kMaxFoldersUp = 5;
}  // namespace

fs::path beside_data() {
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&beside_data), &here) == 0) return {};
  std::error_code ignored;
  const fs::path library = fs::canonical(here.dli_fname, ignored);
  fs::path folder = library.parent_path();
  for (int up = 0; up < kMaxFoldersUp; ++up, folder = folder.parent_path())
    if (fs::is_directory(folder / "share" / "rigcast" / "hwprofiles", ignored))
      return folder / "share" / library.filename();
  return library;
}

}  // namespace rigcast
