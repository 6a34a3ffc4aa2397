#pragma once
// The data that ships with rigcast: parts, rigs, model specs and runtime profiles, found by id,
// name or alias, ignoring case and punctuation. What was read is kept in memory until its file
// changes.

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/hardware/rig.hpp"
#include "core/model/model_file.hpp"
#include "core/model/model_spec.hpp"
#include "core/runtime/runtime_profile.hpp"

namespace rigcast {

class Catalogue {
 public:
  /// `root` holds hwprofiles/, models/ and runtimes/.
  explicit Catalogue(std::filesystem::path root);

  /// RIGCAST_DATA if set, else the data beside the program, else that of the source tree.
  static Result<Catalogue> open(const std::filesystem::path& program);

  Result<GpuPart> gpu(std::string_view name) const;
  Result<CpuPart> cpu(std::string_view name) const;
  Result<SsdPart> ssd(std::string_view name) const;
  /// "2xddr4-2666", "2xddr4-2666:64GiB", or any channels x JEDEC speed of that form.
  Result<RamKit> ram(std::string_view text) const;
  Result<ModelSpec> model(std::string_view name) const;
  /// The model file, from the reader; an Error if no reader was given.
  Result<ModelFile> model_file(const std::filesystem::path& file) const;
  void read_model_files_with(ModelFileReader reader) { read_model_file_ = std::move(reader); }
  /// The rates of a link of that generation, for all its lanes.
  Result<HostLink> host_link(PcieLink link) const;
  Result<std::filesystem::path> rig_file(std::string_view name) const;
  Result<std::filesystem::path> runtime_file(std::string_view name) const;
  /// The profile in that file, with its fitted figures.
  Result<RuntimeProfile> runtime(const std::filesystem::path& file) const;

  /// Ids, sorted.
  std::vector<std::string> ids(std::string_view folder) const;
  const std::filesystem::path& root() const { return root_; }

 private:
  Result<std::filesystem::path> find(std::string_view folder, std::string_view noun,
                                     std::string_view plural, std::string_view name) const;

  // Names and aliases of a folder's files, as ids; read when something is not found by its id.
  using Names = std::map<std::string, std::filesystem::path, std::less<>>;
  using NamesByFolder = std::map<std::string, Names, std::less<>>;
  const Names& names(std::string_view folder) const;

  std::filesystem::path root_;
  std::shared_ptr<NamesByFolder> called_;
  struct CachedEntry;
  std::shared_ptr<CachedEntry> cache_;  // what was read, shared by copies
  ModelFileReader read_model_file_;
};

/// The file with the correction from a user's own runs of a rig: "my-rig.toml" ->
/// "my-rig.measured.toml".
std::filesystem::path measured_file(const std::filesystem::path& rig_file);
bool is_measured_file(const std::filesystem::path& file);

}  // namespace rigcast
