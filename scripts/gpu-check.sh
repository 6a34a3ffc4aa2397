#!/usr/bin/env bash
# Runs what needs a GPU: tests, the sanitizer, and benches with their bars; a short table last.
#
#   scripts/gpu-check.sh                     from build/release
#   scripts/gpu-check.sh pack DIR            puts stripped programs and the libraries they need there
#   scripts/gpu-check.sh run DIR [PART...]   runs what was packed, on another machine too
#
# Parts: tests sanitizer matvec attention upload engine; all without one.
set -euo pipefail

programs=(test_cuda bench_gpu_matvec bench_gpu_attention bench_gpu_upload bench_gpu_engine)

fail() {
  echo "gpu-check: $1" >&2
  exit 1
}

pack() {
  local target=$1 build
  build="$(dirname "$0")/../build/release"
  mkdir -p "$target/lib"
  for program in "${programs[@]}"; do
    local built
    built=$(find "$build" -name "$program" -type f 2>/dev/null | head -1)
    [ -n "$built" ] || fail "$program is not built: cmake --build --preset release, with nvcc found"
    strip -o "$target/$program" "$built"
  done
  # The C and C++ libraries, the driver and cuBLAS are the other machine's own.
  ldd "${programs[@]/#/$target/}" | awk '/=> \// {print $3}' | sort -u |
    grep -vE '/(libc|libm|libstdc\+\+|libgcc_s|ld-linux.*|libpthread|libdl|librt)\.so' |
    xargs -r -I{} cp -L {} "$target/lib/"
}

# cuBLAS is found where the loader looks, or where toolkits put it.
library_path() {
  local cublas
  cublas=$(find /usr/local /usr/lib /opt -name 'libcublas.so.1[23]' 2>/dev/null | head -1)
  echo "$1/lib:$(dirname "${cublas:-/usr/local/cuda/lib64/none}"):${LD_LIBRARY_PATH:-}"
}

run() {
  local dir=$1 log failed=0
  shift
  [ -x "$dir/test_cuda" ] || fail "$dir holds no test_cuda: scripts/gpu-check.sh pack $dir"
  local parts=("${@:-tests sanitizer matvec attention upload engine}")
  LD_LIBRARY_PATH=$(library_path "$dir")
  RIGCAST_DATA=${RIGCAST_DATA:-$(cd "$(dirname "$0")/.." && pwd)}
  export LD_LIBRARY_PATH RIGCAST_DATA
  log=${OUT:-$(mktemp -d)}
  nvidia-smi --query-gpu=name,clocks.sm,clocks.mem,driver_version --format=csv,noheader || true
  for part in ${parts[*]}; do
    echo "== $part"
    case $part in
      tests) "$dir/test_cuda" "[gpu]" > "$log/tests.txt" 2>&1 || failed=1
             tail -3 "$log/tests.txt" ;;
      sanitizer)
        for tool in memcheck racecheck initcheck; do
          compute-sanitizer --error-exitcode 1 --tool $tool "$dir/test_cuda" "[sanitize]" \
            > "$log/$tool.txt" 2>&1 || failed=1
          echo "$tool: $(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$log/$tool.txt" | tail -1)"
        done ;;
      matvec | attention | upload | engine)
        "$dir/bench_gpu_$part" > "$log/$part.txt" 2>&1 || failed=1
        cat "$log/$part.txt" ;;
      *) fail "no part $part: tests sanitizer matvec attention upload engine" ;;
    esac
  done
  [ $failed = 0 ] || fail "something above failed; all output is in $log"
}

case ${1:-} in
  -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0" ;;
  pack) pack "${2:?which folder?}" ;;
  run) shift; run "${@:?which folder?}" ;;
  *) pack "${TMPDIR:-/tmp}/rigcast-gpu" && run "${TMPDIR:-/tmp}/rigcast-gpu" "$@" ;;
esac
