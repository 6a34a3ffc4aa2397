#include "engine/kernels/cpu/int8/int8.hpp"

#include <vector>

#include "engine/kernels/cpu/int8/targets.hpp"

namespace rigcast::engine::cpu {
namespace {

std::vector<const Int8Kernels*> runnable() {
  std::vector<const Int8Kernels*> all = {&kInt8Plain};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) all.push_back(&kInt8Avx2);
  if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
    all.push_back(&kInt8Avx512);
#endif
  return all;
}

}  // namespace

std::span<const Int8Kernels* const> all_int8_kernels() {
  static const std::vector<const Int8Kernels*> all = runnable();
  return all;
}

const Int8Kernels& int8_kernels() { return *all_int8_kernels().back(); }

bool has_int8_kernel(QuantFormat format) {
  return format != QuantFormat::kF32 && format != QuantFormat::kF16 &&
         format != QuantFormat::kBF16;
}

}  // namespace rigcast::engine::cpu
