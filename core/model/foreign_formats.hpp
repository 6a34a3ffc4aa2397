#pragma once
// Block formats of ik_llama.cpp's, known by their size alone: what a published file in one of them
// takes is a fact, how fast it is read is not known here.

#include <optional>
#include <string_view>

namespace rigcast {

/// Bits a weight of "IQ3_KS", or of "IQ3_KS_R4", whose rows are interleaved and no smaller; of
/// llama.cpp's own block formats as well. Scales of whole rows, of 2 to 4 bytes, are left out.
/// Ignores case. nullopt: no such format.
std::optional<double> bits_of_block_format(std::string_view name);

}  // namespace rigcast
