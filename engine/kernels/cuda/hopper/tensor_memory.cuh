#pragma once
// Device code for Hopper: barriers and bulk copies in shared memory, and products on its tensor
// cores. Other code does not compile the instructions; kernels that use them are not launched
// there.

#include <cstdint>

#include "engine/cuda/shared_address.cuh"

namespace rigcast::engine::cuda {

// Instructions of 9.0 alone (wgmma) need code for "sm_90a".
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define RIGCAST_HOPPER_CODE 1
#else
#define RIGCAST_HOPPER_CODE 0
#endif

#if RIGCAST_HOPPER_CODE

__device__ __forceinline__ void init_barrier(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// Makes initialised barriers visible to bulk copies and to the other blocks of a cluster.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Waits until the phase of this parity has ended.
__device__ __forceinline__ void await(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again_%=:\n"
      "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
      "@done bra end_%=;\n"
      "bra again_%=;\n"
      "end_%=:\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

/// True if the phase of this parity has ended.
__device__ __forceinline__ bool has_ended(std::uint32_t barrier, std::uint32_t parity) {
  std::uint32_t ended;
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "mbarrier.test_wait.parity.shared.b64 done, [%1], %2;\n"
      "selp.u32 %0, 1, 0, done;\n"
      "}"
      : "=r"(ended)
      : "r"(barrier), "r"(parity)
      : "memory");
  return ended != 0;
}

/// Arrives at `barrier`, whose phase then ends when bulk copies have brought so many bytes, too.
__device__ __forceinline__ void expect_copies(std::uint32_t barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
/// Copies `bytes` bytes, a multiple of 16, to shared memory; `barrier` expects them.
__device__ __forceinline__ void bulk_copy(std::uint32_t to, const void* from, std::uint32_t bytes,
                                          std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(barrier)
      : "memory");
}

// The rank of this block in its cluster.
__device__ __forceinline__ std::uint32_t cluster_rank() {
  std::uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
/// Where the shared memory of a block of the cluster is for the others. `address`: that block's
/// own.
__device__ __forceinline__ std::uint32_t address_in_block(std::uint32_t address, int rank) {
  std::uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}
__device__ __forceinline__ void store_in_cluster(std::uint32_t address, float value) {
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}
/// Adds to values in memory; nothing waits for it. `to` is aligned to 16 bytes.
__device__ __forceinline__ void add_to_memory(float* to, const float4& v) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(
                   __cvta_generic_to_global(to)),
               "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
               : "memory");
}
__device__ __forceinline__ void add_to_memory(float* to, float v) {
  asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(__cvta_generic_to_global(to)),
               "f"(v)
               : "memory");
}

// What blocks wrote before they arrived is seen by those that have waited.
__device__ __forceinline__ void arrive_at_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void await_cluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// Loads four matrices of 8 x 8 F16: lane i passes the address of row i % 8 of matrix i / 8.
__device__ __forceinline__ void load_matrices(std::uint32_t (&to)[4], std::uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}

/// A warp's product of 16 rows of weights, 16 columns and 8 tokens, added to `sums`.
__device__ __forceinline__ void warp_multiply(float* sums, const std::uint32_t (&w)[4],
                                              std::uint32_t x0, std::uint32_t x1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "r"(x0), "r"(x1));
}

/// Where four warps read 16 columns of tokens in shared memory: two groups of 8 columns that are
/// `columns_apart` bytes apart, each with 8 tokens in 128 bytes.
__device__ __forceinline__ std::uint64_t inputs_at(std::uint32_t address,
                                                   std::uint32_t columns_apart) {
  constexpr std::uint64_t kTokensApart = 128;
  return std::uint64_t(address >> 4 & 0x3FFF) | std::uint64_t(columns_apart >> 4) << 16 |
         kTokensApart >> 4 << 32;
}

__device__ __forceinline__ void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most `kPending` committed groups of products have not ended.
template <int kPending>
__device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
/// Keeps the compiler from moving registers that products in flight use.
template <int kCount>
__device__ __forceinline__ void hold(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(values[i])::"memory");
}

#define RIGCAST_F4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define RIGCAST_F16(i) RIGCAST_F4(i), RIGCAST_F4(i + 4), RIGCAST_F4(i + 8), RIGCAST_F4(i + 12)
#define RIGCAST_W "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])

/// Begins the product of four warps: 64 rows, 16 columns and kTokens tokens, added to `d`. `w`: the
/// weights of the warp's 16 rows, as for warp_multiply(). kTransposed: `x` has a row for each
/// column, not for each token.
template <int kTokens, bool kTransposed = false>
__device__ __forceinline__ void multiply_async(float (&d)[kTokens / 2], const std::uint32_t (&w)[4],
                                               std::uint64_t x) {
  static_assert(kTokens == 32 || kTokens == 64 || kTokens == 128 || kTokens == 256);
  if constexpr (kTokens == 32)
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
        "{%16, %17, %18, %19}, %20, 1, 1, 1, %21;"
        : RIGCAST_F16(0)
        : RIGCAST_W, "l"(x), "n"(int(kTransposed)));
  else if constexpr (kTokens == 64)
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
        "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, 1, 1, 1, %37;"
        : RIGCAST_F16(0), RIGCAST_F16(16)
        : RIGCAST_W, "l"(x), "n"(int(kTransposed)));
  else if constexpr (kTokens == 128)
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
        "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
        "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, "
        "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, 1, 1, 1, %69;"
        : RIGCAST_F16(0), RIGCAST_F16(16), RIGCAST_F16(32), RIGCAST_F16(48)
        : RIGCAST_W, "l"(x), "n"(int(kTransposed)));
  else
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
        "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
        "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
        "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, "
        "%66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, "
        "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, "
        "%98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, "
        "%126, %127}, "
        "{%128, %129, %130, %131}, %132, 1, 1, 1, %133;"
        : RIGCAST_F16(0), RIGCAST_F16(16), RIGCAST_F16(32), RIGCAST_F16(48), RIGCAST_F16(64),
          RIGCAST_F16(80), RIGCAST_F16(96), RIGCAST_F16(112)
        : RIGCAST_W, "l"(x), "n"(int(kTransposed)));
}

/// Begins the same of 64 rows in shared memory, at `w`: d = (adds ? d : 0) + the product.
template <int kTokens>
__device__ __forceinline__ void multiply_shared(float (&d)[kTokens / 2], std::uint64_t w,
                                                std::uint64_t x, bool adds) {
  static_assert(kTokens == 64 || kTokens == 128);
  if constexpr (kTokens == 64)
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        "setp.ne.b32 adds, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
        "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, adds, 1, 1, 0, 0;\n"
        "}"
        : RIGCAST_F16(0), RIGCAST_F16(16)
        : "l"(w), "l"(x), "r"(int(adds)));
  else
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        "setp.ne.b32 adds, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
        "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
        "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, "
        "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, adds, 1, 1, 0, 0;\n"
        "}"
        : RIGCAST_F16(0), RIGCAST_F16(16), RIGCAST_F16(32), RIGCAST_F16(48)
        : "l"(w), "l"(x), "r"(int(adds)));
}

#undef RIGCAST_F4
#undef RIGCAST_F16
#undef RIGCAST_W

#endif  // RIGCAST_HOPPER_CODE

}  // namespace rigcast::engine::cuda
