#pragma once
// One command of llama-bench for several tests.

#include <optional>
#include <span>

#include "planner/commands.hpp"

namespace rigcast::validation {

/// Commands of one program, of flags that each have a value, as one command that measures all of
/// them in their order: they differ in one flag, whose values it lists. Repetitions are the fewest
/// of any. nullopt: they differ in more, or in a flag whose default is not known. Never of none.
std::optional<planner::Words> joined(std::span<const planner::Words> commands);

}  // namespace rigcast::validation
