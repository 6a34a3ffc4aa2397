#!/usr/bin/env bash
# From a clean clone to a first forecast: installs packages, builds, and asks what a 7B model does
# on a PC with an 8 GB card.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh release
cmake --build --preset release --target rigcast
command=(build/release/rigcast simulate examples/s1-as-written.toml
         --positions 0,4000,4500,5000,7000)
printf '\n$ %s\n\n' "${command[*]}"
exec "${command[@]}"
