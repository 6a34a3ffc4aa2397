#pragma once
// GPUs that have whole experts each: expert parallelism.

namespace rigcast {

/// What the GPU with the most has, over what each would have if all had as much.
struct FullestShare {
  double experts = 1;  // distinct ones that tokens go to
  double rows = 1;     // tokens, each counted for every expert that it goes to
};

/// The mean over all ways in which `tokens` tokens may choose `used` experts each, all as likely,
/// where each of `gpus` GPUs has as many of the experts. Counts of GPUs are taken to be independent
/// of one another. Requires tokens > 0 and a number of experts that `gpus` divides.
FullestShare fullest_share(int experts, int used, double tokens, int gpus);

}  // namespace rigcast
