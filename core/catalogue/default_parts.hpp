#pragma once
// Names of parts that stand in where nobody names one: hwprofiles/defaults.toml.

#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/catalogue/catalogue.hpp"

namespace rigcast {

struct DefaultParts {
  std::string cpu, ssd, ram;
  std::vector<std::string> cpus_with_ddr4, cpus_with_ddr5;  // fewest cores first
  std::string model;
};

Result<DefaultParts> default_parts(const Catalogue& catalogue);

}  // namespace rigcast
