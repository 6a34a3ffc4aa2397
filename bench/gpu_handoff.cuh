#pragma once

namespace rigcast::bench {

/// Seconds in which a hidden state of `floats` goes from the GPU to the host and back, of many
/// round trips within one graph; the host copies it and does nothing else.
double handoff_seconds(int floats);

}  // namespace rigcast::bench
