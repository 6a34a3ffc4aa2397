#pragma once
// How much of RAM, and of swap, programs may have.

#include "perfmodel/context/step_context.hpp"

namespace rigcast {

/// RAM without what the rig reserves and what the kernel keeps free (its watermarks).
Bytes room_of_ram(const StepContext& context);

/// The scenario's swap, as far as it makes room. A disk's does. Pages in zram take RAM, and those
/// of caches of floating-point numbers hardly compress: they make room of a control group with a
/// limit, as far as RAM has some beside it, and none of RAM.
Bytes swap_with_room(const StepContext& context);

}  // namespace rigcast
