#!/usr/bin/env bash
# Builds everything and runs all tests. GPU code is compiled for two capabilities, the oldest and one
# whose kernels use all there is: all of them take four times as long.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh release "-DRIGCAST_CUDA_ARCHITECTURES=75-virtual;90" \
  -DRIGCAST_CUDA=AUTO -DRIGCAST_TESTS=ON
cmake --build --preset release
ctest --preset release -j "$(nproc)" "$@"
