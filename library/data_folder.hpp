#pragma once
// The catalogue that ships with the library.

#include <filesystem>

namespace rigcast {

/// What Catalogue::open takes as the program: beside it is share/rigcast, if one of the folders
/// above the library, or above the program that the library is linked into, has it.
std::filesystem::path beside_data();

}  // namespace rigcast
