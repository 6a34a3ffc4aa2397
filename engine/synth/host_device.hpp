#pragma once
// Functions that the CPU and kernels share: RIGCAST_HOST_DEVICE in front of them, and nothing in
// them that only one of the two has.

#ifdef __CUDACC__
#define RIGCAST_HOST_DEVICE __host__ __device__
#else
#define RIGCAST_HOST_DEVICE
#endif
