#pragma once
// Names of kernels, as people read them.

#include <string>
#include <vector>

#include "core/model/quant_format.hpp"

namespace rigcast::bench {

struct KernelName {
  std::string text;                  // "matvec_one_format<Q4_K,Tiling<4,1>>"
  std::string function;              // "matvec_one_format"
  std::vector<QuantFormat> formats;  // those of weights, among the template's arguments
};

/// Reads a name as compilers write it. Namespaces and parameters are left out.
KernelName kernel_name(const std::string& mangled);

}  // namespace rigcast::bench
