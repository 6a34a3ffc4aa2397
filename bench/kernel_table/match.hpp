#pragma once
// Finds what each recorded kernel of a token multiplied.

#include <span>
#include <vector>

#include "bench/kernel_table/kernel_run.hpp"
#include "bench/kernel_table/products.hpp"

namespace rigcast::bench {

/// The product of each of a token's kernels, which are in the order of their ends; nullptr: it
/// multiplies no weights. Error: the products' number, kinds or formats are others.
Result<std::vector<const Product*>> match(std::span<const KernelRun> token,
                                          std::span<const Product> products);

}  // namespace rigcast::bench
