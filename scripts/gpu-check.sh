#!/usr/bin/env bash
# Runs what needs a GPU: tests, the sanitizer, and benches with their bars; a short table last.
#
#   scripts/gpu-check.sh                     from build/release
#   scripts/gpu-check.sh pack DIR [PART...]  puts stripped programs and the libraries they need there
#   scripts/gpu-check.sh run DIR [PART...]   runs what was packed, on another machine too
#   scripts/gpu-check.sh --validate          probes twice, then forecasts and runs every suite of a GPU
#
# Parts: tests code-80 code-75 sanitizer sanitizer-80 matvec small_batch_gemm attention sample upload engine
# hybrid run; all without one.
# code-80 and code-75 are the tests and the sanitizer with nothing but PTX of that capability, which
# any later GPU compiles when it starts: what cards of 8.x and 7.5 run, without having one. pack
# builds them.
# When they are asked for: kernels, where a token's time goes, kernel by kernel; soak, which decodes for
# minutes; batch and prompt_steps, benchmarks of steps of many sequences; peers, which sets llama.cpp's llama-batched-bench beside the first; peers-families, one
# sequence of a model of each family; probes; gpu-resident, gpu-files, gpu-files-2, gpu-shared, gpu-kv,
# gpu-kv-2, gpu-kv-3, gpu-users, gpu-users-kv, gpu-families, gpu-families-2, gpu-families-fit, gpu-fit, gpu-fit-2, quick and transformers, suites of
# rigcast validate; llama-cpp-*, suites that llama.cpp runs, its libraries packed
# along (scripts/llama-bench.sh); llama-server, which is forecast and timed as it runs
# (scripts/llama-server.sh).
# Files are left in $OUT, or in a folder that is named; runs of suites in $KEPT, if it is set.
set -euo pipefail

validation_parts="probes gpu-resident gpu-files gpu-files-2 gpu-shared gpu-kv gpu-kv-2 gpu-kv-3"
all_parts="tests code-80 code-75 sanitizer sanitizer-80 matvec small_batch_gemm attention sample upload engine hybrid run"

fail() {
  echo "gpu-check: $1" >&2
  exit 1
}

program_of() {
  case $1 in
    tests | sanitizer | soak) echo test_cuda ;;
    code-* | sanitizer-*) echo "test_cuda_${1#*-}" ;;
    matvec | small_batch_gemm | attention | sample | upload | engine | hybrid | batch | prompt_steps | kernels)
      echo "bench_gpu_$1" ;;
    run | peers | peers-families | probes | quick | gpu-* | transformers | llama-cpp-* | llama-server) echo rigcast ;;
    *) fail "no part $1: $all_parts soak $validation_parts peers peers-families gpu-fit gpu-fit-2 quick transformers llama-cpp-* llama-server" ;;
  esac
}

# Lists a program's libraries, except the C and C++ libraries, the driver and cuBLAS, which the
# other machine has.
libraries_of() {
  ldd "$1" | awk '/=> \// {print $3}' | sort -u |
    grep -vE '/(libc|libm|libstdc\+\+|libgcc_s|ld-linux.*|libpthread|libdl|librt)\.so'
}

# Packs a program, and next to it lib/ with the libraries that it needs.
pack_program() {
  local program=$1 target=$2 folder=${3:-release} built
  built=$(find "$(dirname "$0")/../build/$folder" -name "${program%_[0-9]*}" -type f 2>/dev/null |
    head -1)
  [ -n "$built" ] || fail "$program is not built: cmake --build --preset release, with nvcc found"
  mkdir -p "$target/lib"
  strip -o "$target/$program" "$built"
  libraries_of "$target/$program" | while read -r library; do
    strip --strip-unneeded -o "$target/lib/$(basename "$library")" "$library"
  done
}

# Packs llama.cpp's libraries, the CUDA ones with code of Hopper alone, and llama-bench over them.
pack_llama_cpp() {
  local kind=$1 target=$2 from
  from=$(dirname "$("$(dirname "$0")/llama-bench.sh" "$kind")")
  mkdir -p "$target"
  cp -P "$from"/lib*.so* "$from"/llama-b* "$target"
  [ "$kind" = cpu ] ||
    "$(dirname "$0")/one_capability.py" "$from/libggml-cuda.so" 90 "$target/libggml-cuda.so"
}

# Packs llama.cpp's own server and bench, beside the package's libraries, whose CUDA code they run.
pack_llama_server() {
  local target=$1 built
  built=$(dirname "$("$(dirname "$0")/llama-server.sh" cuda)")
  mkdir -p "$target"
  cp -P "$built"/libmtmd.so* "$built"/libllama.* "$built"/libggml.* "$built"/libggml-base.* "$built"/libggml-cpu-*.so \
    "$target"
  ln -s ../llama.cpp-cuda/libggml-cuda.so "$target"
  strip "$built/llama-server" -o "$target/llama-server"
  strip "$built/llama-bench" -o "$target/llama-bench"
}

# Builds the tests with PTX of a single capability.
build_code() {
  local source
  source=$(cd "$(dirname "$0")/.." && pwd)
  cmake -S "$source" --preset release -B "$source/build/$1" \
    -DRIGCAST_CUDA_ARCHITECTURES="${1#code-}-virtual" > /dev/null
  cmake --build "$source/build/$1" --target test_cuda > /dev/null
}

pack() {
  local target=$1 part
  shift
  mkdir -p "$target"
  for part in ${*:-$all_parts}; do
    if [[ $part = code-* || $part = sanitizer-* ]]; then
      build_code "code-${part#*-}"
      pack_program "$(program_of "$part")" "$target" "code-${part#*-}"
      continue
    fi
    if [ "$(program_of "$part")" != rigcast ]; then
      pack_program "$(program_of "$part")" "$target"
      continue
    fi
    pack_program rigcast "$target/unpacked"
    case $part in
      peers)
        pack_program bench_gpu_batch "$target"
        pack_llama_cpp cuda "$target/unpacked/llama.cpp-cuda" ;;
      peers-families)
        pack_program bench_gpu_engine "$target"
        pack_llama_cpp cuda "$target/unpacked/llama.cpp-cuda" ;;
      llama-server)
        pack_llama_cpp cuda "$target/unpacked/llama.cpp-cuda"
        pack_llama_server "$target/unpacked/llama.cpp-built-cuda" ;;
      llama-cpp-gpu-*) pack_llama_cpp cuda "$target/unpacked/llama.cpp-cuda" ;;
      llama-cpp-*) pack_llama_cpp cpu "$target/unpacked/llama.cpp-cpu" ;;
    esac
  done
  [ -d "$target/unpacked" ] || return 0
  # SimGrid's libraries and their dependencies have 100 MB.
  tar -C "$target/unpacked" -c . | xz -T0 > "$target/rigcast.tar.xz" && rm -r "$target/unpacked"
}

# Searches cuBLAS in the loader's path and where toolkits install it.
library_path() {
  local cublas
  cublas=$(find /usr/local /usr/lib /opt -name 'libcublas.so.1[23]' 2>/dev/null | head -1)
  echo "$1/lib:$(dirname "${cublas:-/usr/local/cuda/lib64/none}"):${LD_LIBRARY_PATH:-}"
}

# Runs a program; the files of a suite of rigcast validate go to the folder of its name.
run_program() {
  local dir=$1 suite=${2:-} log=${3:-} unpacked status=0
  unpacked=$(mktemp -d)
  tar -C "$unpacked" -xJf "$dir/rigcast.tar.xz" || return 1
  local -x LD_LIBRARY_PATH
  LD_LIBRARY_PATH=$(library_path "$unpacked")
  if [ -z "$suite" ]; then
    "$(dirname "$0")/gpu-check-run.sh" "$unpacked/rigcast" "$unpacked/written" || status=1
  elif [ "$suite" = peers ]; then
    "$(dirname "$0")/gpu-check-peers.sh" "$dir/bench_gpu_batch" "$unpacked/rigcast" \
      "$unpacked/llama.cpp-cuda/llama-batched-bench" "$unpacked/written" "$log" || status=1
  elif [ "$suite" = peers-families ]; then
    "$(dirname "$0")/gpu-check-families.sh" "$dir/bench_gpu_engine" "$unpacked/rigcast" \
      "$unpacked/llama.cpp-cuda/llama-bench" "$unpacked/written" "$log" || status=1
  elif [ "$suite" = llama-server ]; then
    "$(dirname "$0")/gpu-check-server.sh" "$unpacked/rigcast" "${KEPT:-$log}/llama-server" \
      "$unpacked/written" || status=1
  else
    "$(dirname "$0")/gpu-check-validate.sh" "$unpacked/rigcast" "$suite" "$log" \
      "$unpacked/written" || status=1
  fi
  rm -r "$unpacked"
  return $status
}

# Prints one line with the tool's result for the tests that are made for it. initcheck runs one
# thing at a time, so kernels that wait for the host would wait for ever.
sanitize() {
  local program=$1 tool=$2 log=$3 status=0 sanitizer tests="[sanitize]"
  [ "$tool" != initcheck ] || tests="[sanitize]~[host_answers]"
  sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
  timeout 180 "$sanitizer" --tool "$tool" --error-exitcode 1 "$program" "$tests" \
    > "$log" 2>&1 || status=$?
  echo "$tool: $(grep -m 1 -oE '(ERROR|RACECHECK) SUMMARY: .*' "$log" ||
    echo "no summary; it ended with $status")"
  return $status
}

# Runs the tests for one capability. Products of quantized batches on tensor cores need code for
# 8.0; the other tests run without it.
test_code() {
  local program=$1 part=$2 log=$3 tests="[gpu]~[soak]" status=0
  # The engine's memory is forecast for code of 8.0 and later.
  [ "$part" != code-75 ] || tests="$tests~[sm_80]~[memory]"
  "$program" "$tests" > "$log/$part.txt" 2>&1 || status=1
  tail -3 "$log/$part.txt"
  return $status
}

run() {
  local dir=$1 log program failed=0
  shift
  [ -d "$dir" ] || fail "$dir holds nothing: scripts/gpu-check.sh pack $dir"
  LIBRARY_PATH_BEFORE=${LD_LIBRARY_PATH:-}
  LD_LIBRARY_PATH=$(library_path "$dir")
  RIGCAST_DATA=${RIGCAST_DATA:-$(cd "$(dirname "$0")/.." && pwd)}
  export LIBRARY_PATH_BEFORE LD_LIBRARY_PATH RIGCAST_DATA
  log=${OUT:-$(mktemp -d)}
  nvidia-smi --query-gpu=name,clocks.sm,clocks.mem,driver_version --format=csv,noheader || true
  for part in ${*:-$all_parts}; do
    echo "== $part"
    program=$(program_of "$part")
    [ -e "$dir/$program" ] || [ -e "$dir/$program.tar.xz" ] || fail "$dir holds no $program"
    case $part in
      tests) "$dir/test_cuda" "[gpu]~[soak]" > "$log/tests.txt" 2>&1 || failed=1
             tail -3 "$log/tests.txt" ;;
      code-*) test_code "$dir/$program" "$part" "$log" || failed=1 ;;
      soak) "$dir/test_cuda" "[soak]" -d yes > "$log/soak.txt" 2>&1 || failed=1
            tail -6 "$log/soak.txt" ;;
      sanitizer | sanitizer-*)
        for tool in memcheck racecheck initcheck; do
          sanitize "$dir/$program" $tool "$log/$tool-$program.txt" || failed=1
        done ;;
      matvec | small_batch_gemm | attention | sample | upload | engine | hybrid | batch | prompt_steps)
        "$dir/bench_gpu_$part" > "$log/$part.txt" 2>&1 || failed=1
        cat "$log/$part.txt" ;;
      kernels)
        "$dir/bench_gpu_kernels" --all > "$log/kernels.txt" 2>&1 || failed=1
        cat "$log/kernels.txt" ;;
      peers | peers-families | probes | quick | gpu-* | transformers | llama-cpp-* | llama-server)
        run_program "$dir" "$part" "$log" || failed=1 ;;
      run)
        run_program "$dir" > "$log/run.txt" 2>&1 || failed=1
        cat "$log/run.txt" ;;
    esac
  done
  [ $failed = 0 ] || fail "something above failed; all output is in $log"
}

case ${1:-} in
  -h | --help) sed -n '2,20s/^# \{0,1\}//p' "$0" ;;
  pack) shift; pack "${@:?which folder?}" ;;
  run) shift; run "${@:?which folder?}" ;;
  --validate)
    pack "${TMPDIR:-/tmp}/rigcast-gpu" run
    run "${TMPDIR:-/tmp}/rigcast-gpu" $validation_parts ;;
  *) pack "${TMPDIR:-/tmp}/rigcast-gpu" && run "${TMPDIR:-/tmp}/rigcast-gpu" "$@" ;;
esac
