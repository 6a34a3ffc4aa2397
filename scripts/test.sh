#!/usr/bin/env bash
# Builds everything and runs all tests, or those that the arguments are for: they go to ctest. GPU code
# is compiled for two capabilities, the oldest and one whose kernels use all there is: all of them take
# four times as long.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh release "-DRIGCAST_CUDA_ARCHITECTURES=75-virtual;90" \
  -DRIGCAST_CUDA=AUTO -DRIGCAST_TESTS=ON
cmake --build --preset release
ctest --preset release -j "$(nproc)" "$@"

# A browser looks at a page of each kind. Without npm, or without a network, it cannot be installed; with
# both, a failure to install it is one of the tests.
if (($# == 0)); then
  installed=0
  timeout 180 scripts/setup-browser.sh || installed=$?
  if ((installed == 0)); then
    scripts/browser-test.sh --short
  elif ((installed != 3)) && curl -sfm 10 -o /dev/null "$(npm config get registry)"; then
    echo "test.sh: the browser could not be installed (exit code $installed), see above" >&2
    exit 1
  else
    echo "test.sh: SKIPPED the browser's tests: it could not be installed, see above" >&2
  fi
fi
