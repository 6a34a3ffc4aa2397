#!/usr/bin/env bash
# What takes longer than CI may: fuzzing, all tests under sanitizers, and llama.cpp on files of ours.
# Run by hand or by cron where there is time; needs no GPU (what does: scripts/gpu-check.sh).
#
#   scripts/nightly.sh [MINUTES] [PART...]
#
# MINUTES of fuzzing (default: 240); the rest takes two to three hours on two cores.
# PART: fuzzing, bench, peers, sanitizers, hostile, http, ui, grid, sweeps, capacity, loads, pages,
# package; default: all, in this order.
# Goes on when one of them fails, and ends with 1 then.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
minutes=240
[[ ${1:-} =~ ^[0-9]+$ ]] && minutes=$1 && shift
parts=("$@")
[ ${#parts[@]} = 0 ] && parts=(fuzzing bench peers sanitizers hostile http ui grid sweeps capacity loads pages package)
failed=()

# Runs a command on every core, with the number of the core as its last word.
on_all_cores() { # COMMAND...
  local core jobs=() bad=0
  for core in $(seq 0 $(($(nproc) - 1))); do
    "$@" "$core" &
    jobs+=($!)
  done
  for core in "${jobs[@]}"; do wait "$core" || bad=1; done
  return $bad
}

fuzzing() { scripts/fuzz.sh "$minutes"; }

bench() { scripts/llama-bench.sh; } # llama.cpp for the tests that measure it

peers() { # every family in six formats, this engine and llama.cpp beside float64; needs bench's libraries
  scripts/setup.sh release -DRIGCAST_CUDA=OFF && cmake --build --preset release --target test_peers &&
    build/release/tests/test_peers "[formats]"
}

sanitizers() { # all tests
  # nvcc's code is not instrumented: compute-sanitizer looks at it (scripts/gpu-check.sh).
  scripts/setup.sh asan -DRIGCAST_CUDA=OFF && cmake --build --preset asan && ctest --preset asan -j "$(nproc)"
}

hostile() { # command lines, with the program under sanitizers
  RIGCAST_HOSTILE=5000 RIGCAST_HOSTILE_SEED=$(date +%j) build/asan/tests/test_cli "[hostile]"
}

http() { # a million mutated requests to a server under sanitizers, and slow clients
  RIGCAST_HTTP_FUZZ=1000000 RIGCAST_HTTP_FUZZ_SEED=$(date +%j) build/asan/tests/test_engine "[serve]"
}

ui() { # a million mutated requests to the local page's server under sanitizers
  RIGCAST_UI_FUZZ=1000000 RIGCAST_UI_FUZZ_SEED=$(date +%j) build/asan/tests/test_cli "[ui]"
}

grid_shard() { # CORE
  local cores
  cores=$(nproc)
  RIGCAST_GRID_FIRST=$((200 * $1 / cores)) RIGCAST_GRID_CASES=$((200 * ($1 + 1) / cores)) \
    build/release/tests/test_planner "[grid]"
}
grid() { # plans against an exhaustive grid of candidates, in an optimised build
  scripts/setup.sh release -DRIGCAST_CUDA=OFF && cmake --build --preset release --target test_planner &&
    on_all_cores grid_shard
}

sweeps() { # 10^5 combinations in eight shards under GNU parallel, Snakemake and Slurm
  local fetch=()
  ((EUID != 0)) || fetch=(--fetch)
  scripts/setup.sh release -DRIGCAST_CUDA=OFF && cmake --build --preset release --target rigcast || return
  scripts/sweep-engines.sh "${fetch[@]}" --combinations 100000 --shards 8
}

capacity() { # whether docs/capacity.md is what the program forecasts
  scripts/setup.sh release -DRIGCAST_CUDA=OFF && cmake --build --preset release --target rigcast &&
    XDG_DATA_HOME=build/no-own-data scripts/capacity_accuracy.py --check
}

loads() { # files that llama.cpp loads: with $RIGCAST_LLAMA_CPP, else with two releases from packages
  local fetch=()
  [ -n "${RIGCAST_LLAMA_CPP:-}" ] || fetch=(--fetch)
  scripts/setup.sh release -DRIGCAST_CUDA=OFF && cmake --build --preset release --target rigcast &&
    scripts/llama-cpp-loads.sh "${fetch[@]}"
}

pages() { # of --html, in a browser
  scripts/setup.sh release -DRIGCAST_CUDA=OFF && cmake --build --preset release --target rigcast &&
    scripts/browser-test.sh
}

package() { # Debian packages on a clean Debian, and their bytes from two folders
  local fetch=()
  ((EUID != 0)) || fetch=(--fetch)
  scripts/package.sh -DRIGCAST_CUDA=OFF && scripts/check-package.sh "${fetch[@]}" &&
    scripts/reproducible.sh -DRIGCAST_CUDA=OFF
}

for part in "${parts[@]}"; do
  if ! declare -F "$part" > /dev/null || [[ $part == *_* ]]; then
    echo "nightly.sh: no part named $part: fuzzing, bench, peers, sanitizers, hostile, http, ui, grid, sweeps, capacity, loads, pages, package" >&2
    exit 2
  fi
done
for part in "${parts[@]}"; do
  printf '\n== %s, %s\n' "$part" "$(date +%T)"
  "$part" || failed+=("$part")
done
[ ${#failed[@]} = 0 ] || { printf '\nfailed: %s\n' "${failed[@]}" && exit 1; }
