#pragma once
// The data that ships with rigcast, and the user's own: parts, rigs, model specs and runtime
// profiles, found by id, name or alias, ignoring case and punctuation, or by their file. What was
// read is kept in memory until its file changes.

#include <filesystem>
#include <functional>
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
  /// `root` holds hwprofiles/, models/, runtimes/ and loads/. So may `own`, whose files come before
  /// those of the same id; empty: none.
  explicit Catalogue(std::filesystem::path root, std::filesystem::path own = {});

  /// RIGCAST_DATA if set, else the data beside the program, else that of the source tree; the
  /// user's own in $XDG_DATA_HOME/rigcast, by default ~/.local/share/rigcast.
  static Result<Catalogue> open(const std::filesystem::path& program);

  /// Also by the names that nvidia-smi, lspci and other programs give it. A name that several cards
  /// have ("RTX 5060 Ti", with 8 and 16 GB) is an Error, unless it is an alias of one.
  Result<GpuPart> gpu(std::string_view name) const;
  /// Ids of the cards that a name without a size stands for; fewer than two: it is one card's.
  std::vector<std::string> gpus_called(std::string_view name) const;
  Result<CpuPart> cpu(std::string_view name) const;
  Result<SsdPart> ssd(std::string_view name) const;
  /// "2xddr4-2666", "2xddr4-2666:64GiB", or any channels x JEDEC speed of that form.
  Result<RamKit> ram(std::string_view text) const;
  /// From here on names are ids, names and aliases of the catalogue alone: no file is looked at
  /// because somebody named it. For questions that come from others.
  void refuse_files() { takes_files_ = false; }
  bool takes_files() const { return takes_files_; }

  /// By id, name or alias alone; core/catalogue/find_model.hpp understands what people write. If
  /// found by an alias, that is the spec's name.
  Result<ModelSpec> model(std::string_view name) const;
  /// The model file, from the reader; an Error if no reader was given.
  Result<ModelFile> model_file(const std::filesystem::path& file) const;
  void read_model_files_with(ModelFileReader reader) { read_model_file_ = std::move(reader); }
  /// Bytes of the tensors of a vision projector's file; an Error if no reader was given.
  Result<Bytes> projector_file(const std::filesystem::path& file) const;
  void read_projector_files_with(ProjectorReader reader) { read_projector_ = std::move(reader); }
  /// The rig file's text of the machine on which the program runs; an Error if no reader was given.
  Result<std::string> this_machine() const;
  void read_this_machine_with(std::function<Result<std::string>(const Catalogue&)> reader) {
    read_this_machine_ = std::move(reader);
  }
  /// The rates of a link of that generation, for all its lanes.
  Result<HostLink> host_link(PcieLink link) const;
  Result<std::filesystem::path> rig_file(std::string_view name) const;
  Result<std::filesystem::path> runtime_file(std::string_view name) const;
  /// The profile in that file, with its fitted figures.
  Result<RuntimeProfile> runtime(const std::filesystem::path& file) const;

  /// Ids, sorted.
  std::vector<std::string> ids(std::string_view folder) const;
  /// The file of an id that ids() has.
  std::filesystem::path file_of(std::string_view folder, std::string_view id) const;
  /// The file is in the user's own folder.
  bool is_own(const std::filesystem::path& file) const;
  const std::filesystem::path& root() const { return root_; }
  /// The user's own folder; empty: none.
  const std::filesystem::path& own_root() const { return own_; }

 private:
  struct Found {
    std::filesystem::path file;
    std::string alias;  // as the file writes it; empty: found by id or name
  };
  Result<Found> find(std::string_view folder, std::string_view noun, std::string_view plural,
                     std::string_view name) const;

  Result<CpuPart> cpu_called(std::string_view name) const;

  // Names and aliases of a folder's files, as ids; read when something is not found by its id.
  using Names = std::map<std::string, Found, std::less<>>;
  using NamesByFolder = std::map<std::string, Names, std::less<>>;
  const Names& names(std::string_view folder) const;
  std::vector<std::string> ids_under(const std::filesystem::path& folder) const;

  std::filesystem::path root_;
  std::filesystem::path own_;
  std::shared_ptr<NamesByFolder> called_;
  struct CachedEntry;
  std::shared_ptr<CachedEntry> cache_;  // what was read, shared by copies
  bool takes_files_ = true;
  ModelFileReader read_model_file_;
  ProjectorReader read_projector_;
  std::function<Result<std::string>(const Catalogue&)> read_this_machine_;
};

/// The file with the correction from a user's own runs of a rig: "my-rig.toml" ->
/// "my-rig.measured.toml".
std::filesystem::path measured_file(const std::filesystem::path& rig_file);
bool is_measured_file(const std::filesystem::path& file);

}  // namespace rigcast
