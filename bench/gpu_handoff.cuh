#pragma once

namespace rigcast::bench {

/// The time in seconds of a round trip of a hidden state with `floats` elements from the GPU to the
/// host and back, over many round trips in one graph; the host only copies it.
double handoff_seconds(int floats);

}  // namespace rigcast::bench
