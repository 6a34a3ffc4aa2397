// [rig] of runs on a machine whose file is known: by that file.
#include <fmt/format.h>

#include "core/catalogue/compose_rig.hpp"
#include "core/hardware/hardware_names.hpp"
#include "measurements/draft.hpp"
#include "measurements/resolve.hpp"

namespace rigcast {

Result<Resolver> Resolver::on_rig(const Catalogue& catalogue, const std::string& rig) {
  const auto file = catalogue.rig_file(rig);
  if (!file) return file.error();
  TomlDocument document(file->string());
  const std::string name = toml_text(file->string());
  if (auto error = document.set("rig.name", name, "--rig")) return *error;
  if (auto error = merge_named_rig(document, catalogue)) return *error;
  std::vector<std::string> warnings;
  const Rig composed = compose_rig(document.root().table("rig"), catalogue, warnings);
  if (auto error = document.error()) return *error;
  RigDraft draft;
  draft.toml = fmt::format("[rig]\nname = {}\n", name);
  draft.gpus = composed.gpus;
  draft.text = composed.name;
  draft.cpu_stated = draft.ram_known = draft.host_stated = true;
  Resolver resolver(catalogue);
  resolver.own_rig_ = std::make_shared<const RigDraft>(std::move(draft));
  return resolver;
}

// Names are compared no closer than by architecture: programs and catalogue write them differently.
Result<RigDraft> Resolver::own_rig(const Measurement& m) {
  const std::vector<GpuPart>& own = own_rig_->gpus;
  const std::vector<std::string> names = gpu_names(m.gpu);
  if (names.empty() && !own.empty())
    return bad_input(fmt::format("ran on the CPU alone, the rig has {}", own_rig_->text));
  const std::size_t count = std::max(names.size(), std::size_t(std::max(0, m.gpu_count)));
  if (!names.empty() && count != own.size())
    return bad_input(fmt::format("ran on {} GPUs, the rig has {}", count, own.size()));
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto part = lookup_.gpu(names[i]);
    const std::size_t at = names.size() == own.size() ? i : 0;
    if (part && part->architecture != own[at].architecture)
      return bad_input(fmt::format("ran on {}, the rig has {}", part->name, own[at].name));
  }
  return *own_rig_;
}

}  // namespace rigcast
