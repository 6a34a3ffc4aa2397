#pragma once
// A check, before the first model runs on a GPU, that it computes what the CPU does: a program
// without the right code for a card must not give wrong answers silently.

#include <filesystem>
#include <optional>
#include <string>

#include "core/base/error.hpp"
#include "core/model/model_spec.hpp"
#include "core/model/tensor_table.hpp"
#include "engine/run/executor.hpp"

namespace rigcast::engine {

/// Runs tiny models on the first GPU and on the CPU, and compares their logits: single tokens,
/// small batches and large ones. They are checked_models, and one like the model that is to run.
/// This takes a second or two. A GPU that has passed is recorded in `passed_file` by its name, its
/// driver and this program, for each kind of model, and is not checked again; with an empty path,
/// or a file that cannot be written, it is checked every time. Errors: kMachine if the GPU's
/// results differ or it fails, kDoesNotFit if not even tiny models fit into its memory. No other
/// executor of a GPU may exist.
std::optional<Error> check_gpu(const std::filesystem::path& passed_file, const ModelSpec& spec,
                               const TensorTable& tensors);

/// The file in which check_gpu records what has passed: $XDG_CACHE_HOME/rigcast/gpu-check, or under
/// ~/.cache; empty if the environment names neither.
std::filesystem::path gpu_check_file();

/// Largest squared difference of logits, over their variance, that rounding may cause. Both sides
/// round activations, to 8 bits or to FP16: an error of at most 2^-8 of the largest of 32 values,
/// which 14 products of layers amplify to some 1e-3. Unrelated logits have a difference of 2; if
/// one side is constant, it is 1.
inline constexpr double kMaxRoundingDifference = 0.02;

/// Compares two executors on the same tokens: returns the first way of batching in which their
/// logits differ by more than rounding explains, and by how much; nullopt: none. Both must have
/// empty caches, the same vocabulary size, and room for 256 tokens.
std::optional<std::string> difference(Executor& got, Executor& expected);

}  // namespace rigcast::engine
