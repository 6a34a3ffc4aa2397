#pragma once
// A soft bound of attention's scores: cap * tanh(score / cap).

namespace rigcast::engine::cuda {

/// For scores that are exponents of two (rope_and_store.cuh).
struct SoftCap {
  float cap = 0;   // in these units; 0: scores have no bound
  float rate = 0;  // 2^(rate * score) = e^(2 score / cap)

  /// `of_scores`: the model's bound; 0: none.
  static SoftCap of(float of_scores) {
    constexpr float kLog2E = 1.4426950408889634f;
    return of_scores > 0 ? SoftCap{of_scores * kLog2E, 2 / of_scores} : SoftCap{};
  }

#ifdef __CUDACC__
  __device__ __forceinline__ explicit operator bool() const { return cap > 0; }
  /// The tanh is 1 - 2 / (1 + e^(2 score / cap)): its error is 2^-21 of the cap.
  __device__ __forceinline__ float operator()(float score) const {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(score * rate));
    return cap - __fdividef(2 * cap, 1 + power);
  }
#endif
};

}  // namespace rigcast::engine::cuda
