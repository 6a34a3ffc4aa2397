#include "probe/detect/detect_memory.hpp"

#include <cstdlib>
#include <sstream>

#include "core/text/freetext.hpp"
#include "probe/detect/system.hpp"

namespace rigcast::probe {
namespace {

constexpr const char* kModule = "Memory Device";

void add_module(MemoryModules& modules, const std::string& text) {
  // "No Module Installed" has no number.
  if (std::atoi(value_in(text, "Size").c_str()) <= 0) return;
  ++modules.count;
  modules.type = freetext::lower(value_in(text, "Type"));
  std::string speed = value_in(text, "Configured Memory Speed");
  if (speed.empty()) speed = value_in(text, "Configured Clock Speed");  // before dmidecode 3.2
  if (std::atoi(speed.c_str()) > 0) modules.mega_transfers = std::atoi(speed.c_str());
}

}  // namespace

std::optional<MemoryModules> modules_of(const std::string& dmidecode) {
  MemoryModules modules;
  std::string one;
  bool is_module = false;
  std::istringstream in(dmidecode);
  for (std::string line; std::getline(in, line);) {
    const bool is_title = !line.empty() && line[0] != '\t' && line[0] != ' ';
    if (is_title) {
      if (is_module) add_module(modules, one);
      is_module = line.starts_with(kModule);
      one.clear();
    }
    one += line + "\n";
  }
  if (is_module) add_module(modules, one);
  const bool is_ddr = modules.type.starts_with("ddr");
  if (modules.count == 0 || !is_ddr || modules.mega_transfers <= 0) return std::nullopt;
  return modules;
}

}  // namespace rigcast::probe
