#!/usr/bin/env bash
# What takes longer than CI may: fuzzing, all tests under sanitizers, and llama.cpp on files of ours.
# Run by hand or by cron where there is time; needs no GPU (what does: scripts/gpu-check.sh).
#
#   scripts/nightly.sh [MINUTES]      of fuzzing (default: 240); the rest takes two to three hours on two cores
#
# Goes on when one of them fails, and ends with 1 then.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
failed=()

step() { # NAME COMMAND...
  local name=$1
  shift
  printf '\n== %s\n' "$name"
  "$@" || failed+=("$name")
}

asan() {
  # nvcc's code is not instrumented: compute-sanitizer looks at it (scripts/gpu-check.sh).
  scripts/setup.sh asan -DRIGCAST_CUDA=OFF && cmake --build --preset asan && ctest --preset asan -j "$(nproc)"
}

step fuzzing scripts/fuzz.sh "${1:-240}"
step "llama.cpp for the tests that measure it" scripts/llama-bench.sh
step "tests under sanitizers" asan
hostile() { # command lines, with the program under sanitizers
  RIGCAST_HOSTILE=5000 RIGCAST_HOSTILE_SEED=$(date +%j) build/asan/tests/test_cli "[hostile]"
}
step "hostile command lines" hostile
grid() { # plans against an exhaustive grid of candidates, in an optimised build
  scripts/setup.sh release -DRIGCAST_CUDA=OFF && cmake --build --preset release --target test_planner &&
    RIGCAST_GRID_CASES=200 build/release/tests/test_planner "[grid]"
}
step "plans and a grid of candidates" grid
step "files that llama.cpp loads" scripts/llama-cpp-loads.sh
[ ${#failed[@]} = 0 ] || { printf '\nfailed: %s\n' "${failed[@]}" && exit 1; }
