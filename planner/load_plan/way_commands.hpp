#pragma once
// The commands that run the servers of a way.

#include <string>
#include <vector>

#include "planner/load_plan/served_way.hpp"

namespace rigcast::planner {

/// The command of each server of one machine, in one line; of copies, each with the one GPU that it
/// sees and a port of its own, the program's default for the first. Empty: no command is known.
std::vector<std::string> commands_of(const ServedWay& way);
/// The commands, one a line.
std::string text_of(const std::vector<std::string>& commands);

}  // namespace rigcast::planner
