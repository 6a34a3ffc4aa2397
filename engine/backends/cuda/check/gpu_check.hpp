#pragma once
// Whether a GPU computes what the CPU does, asked before the first model runs on it: a program
// without the right code for a card must not answer wrongly in silence.

#include <filesystem>
#include <optional>
#include <string>

#include "core/base/error.hpp"
#include "engine/run/executor.hpp"

namespace rigcast::engine {

/// Runs tiny models (checked_models) on the first GPU and on the CPU, and compares their logits:
/// single tokens, short batches and long ones. A second or two; a GPU
/// that has passed is noted in `passed_file` under its name, its driver and this program, and is
/// not asked again. An empty path, or a file that cannot be written: it is asked every time.
/// Errors: kMachine where the GPU computes otherwise or fails, kDoesNotFit where not even tiny
/// models fit into its memory. No other executor of a GPU may live.
std::optional<Error> check_gpu(const std::filesystem::path& passed_file);

/// Where check_gpu notes what has passed: $XDG_CACHE_HOME/rigcast/gpu-check, or under ~/.cache;
/// empty where the environment names neither.
std::filesystem::path gpu_check_file();

/// Squared difference of logits over their variance that roundings may make. Both sides round
/// activations, to 8 bits or to halves: 2^-8 of the largest of 32 at most, which 14 products of
/// layers take to some 1e-3. Logits that have nothing to do with each other are 2 apart, those of
/// which one is constant 1.
inline constexpr double kMaxRoundingDifference = 0.02;

/// What the executors make of the same tokens, batch by batch: the first way of batching in which
/// their logits differ by more than roundings explain, and by how much; nullopt: none. Both have
/// nothing cached, a vocabulary of the same size, and room for 256 tokens.
std::optional<std::string> difference(Executor& got, Executor& expected);

}  // namespace rigcast::engine
