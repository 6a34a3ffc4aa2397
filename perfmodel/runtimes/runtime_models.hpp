#pragma once
// The runtimes whose rules are known.

#include "perfmodel/runtimes/runtime_model.hpp"

namespace rigcast {

/// The implementation of the rules that the profile names. It lives as long as the program.
const RuntimeModel& runtime_model(const RuntimeProfile& profile);

}  // namespace rigcast
