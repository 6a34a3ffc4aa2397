#pragma once
// Files' bytes, however often the system stops short of what was asked for.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/base/stop_flag.hpp"

namespace rigcast {

/// Reads from byte `at` on until `to` is full or the file ends, and gives the number of bytes.
/// nullopt: errno says what failed.
std::optional<std::size_t> read_at(int file, std::span<std::byte> to, std::uint64_t at);

/// Writes all bytes where the file stands. false: errno says what failed.
bool write_all(int file, std::span<const std::byte> bytes);

/// Returns when the file's first `bytes` bytes are on the disk; piece after piece, since the system
/// lets nobody go before all that it was asked to write is written. Throws Interrupted. false:
/// errno says what failed.
bool write_back(int file, std::uint64_t bytes, const StopFlag& stop = {});

}  // namespace rigcast
