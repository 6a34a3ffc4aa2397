#pragma once
// Dispatch from a format known at run time to a kernel compiled for it.

#include <utility>

#include "core/model/quant_format.hpp"

namespace rigcast::engine::cuda {

template <class Call, int... kFormats>
void for_format_among(QuantFormat format, const Call& call,
                      std::integer_sequence<int, kFormats...>) {
  ((int(format) == kFormats ? call.template operator()<QuantFormat(kFormats)>() : void()), ...);
}

/// call.operator()<format>()
template <class Call>
void for_format(QuantFormat format, const Call& call) {
  for_format_among(format, call, std::make_integer_sequence<int, kComputedFormatCount>());
}

#ifdef __CUDACC__
template <class Call, int... kFormats>
__device__ void on_device_for_format_among(QuantFormat format, const Call& call,
                                           std::integer_sequence<int, kFormats...>) {
  ((int(format) == kFormats ? call.template operator()<QuantFormat(kFormats)>() : void()), ...);
}

/// The same dispatch within a kernel, which then contains the code of every format.
template <class Call>
__device__ void on_device_for_format(QuantFormat format, const Call& call) {
  on_device_for_format_among(format, call, std::make_integer_sequence<int, kComputedFormatCount>());
}
#endif

}  // namespace rigcast::engine::cuda
