#pragma once
// RIGCAST_HOST_DEVICE marks functions that run on both CPU and GPU; they use nothing that only one
// of them has.

#ifdef __CUDACC__
#define RIGCAST_HOST_DEVICE __host__ __device__
#else
#define RIGCAST_HOST_DEVICE
#endif
