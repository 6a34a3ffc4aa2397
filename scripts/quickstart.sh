#!/usr/bin/env bash
# From a clean clone to a first forecast: installs packages, builds, and asks what a 7B model does
# on a PC with an 8 GB card. Code for GPUs is built where this machine has one; scripts/test.sh
# builds all of it.
set -euo pipefail
cd "$(dirname "$0")/.."
cuda=OFF
nvidia-smi -L > /dev/null 2>&1 && cuda=AUTO
scripts/setup.sh release "-DRIGCAST_CUDA=$cuda" -DRIGCAST_TESTS=OFF
cmake --build --preset release --target rigcast
command=(build/release/rigcast simulate examples/s1-as-written.toml
         --positions 0,4000,4500,5000,7000)
printf '\n$ %s\n\n' "${command[*]}"
exec "${command[@]}"
