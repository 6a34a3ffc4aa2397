#include "cli/shared/device_names.hpp"

#include <fmt/format.h>

#include "engine/backends/backend.hpp"

namespace rigcast::cli {

std::vector<std::string> device_names() { return engine::built_in_backends().names(); }

std::vector<std::string> device_texts() {
  std::vector<std::string> out;
  for (const engine::EngineBackend* backend : engine::built_in_backends().all())
    out.push_back(backend->hardware.empty()
                      ? backend->name
                      : fmt::format("{} ({})", backend->name, backend->hardware));
  return out;
}

}  // namespace rigcast::cli
