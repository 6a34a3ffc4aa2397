#!/usr/bin/env bash
# llama.cpp's own llama-server, llama-bench and llama-batched-bench, built from its sources, which
# node-llama-cpp's npm package holds as a git bundle. Needs npm, git and cmake; ten minutes on two
# cores, half an hour for cpu.
#
#   scripts/llama-server.sh [cpu|cuda] [FLAGS...]
#
# builds them once, in a folder of the cache, and prints llama-server's path; with flags it runs it.
#   cpu    llama.cpp v0.5.0 for this machine's CPU
#   cuda   llama.cpp b7347 over the CUDA library of scripts/llama-bench.sh cuda, which is of the same
#          sources; needs CUDA 13's libcudart and libcublas to run, and no nvcc. Its CPU libraries are
#          built with OpenMP, as those of releases: llama-server over those of the package, without it,
#          starts threads anew for every part of a graph that the CPU computes (a millisecond each).
set -euo pipefail
scripts=$(dirname "$0")
kind=cpu
case ${1:-} in cpu | cuda) kind=$1 && shift ;; esac
case $kind in
  cpu) release=3.22.1 flags=(-DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=OFF) ;;
  cuda) release=3.14.5 flags=(-DGGML_NATIVE=OFF -DGGML_BACKEND_DL=ON -DGGML_CPU_ALL_VARIANTS=ON -DBUILD_SHARED_LIBS=ON) ;;
esac
folder=${XDG_CACHE_HOME:-$HOME/.cache}/rigcast/llama.cpp-built-$kind
program=$folder/llama-server
tools=(llama-server llama-bench llama-batched-bench)

# The package's CUDA libraries beside the tools, under the names that the tools were linked with.
take_cuda_libraries() {
  local from library
  from=$(dirname "$("$scripts/llama-bench.sh" cuda)")
  cp -P "$from"/lib*.so* "$folder"
  cp "$folder"/build/bin/libggml-cpu-*.so "$folder"
  for library in llama ggml; do
    ln -sf "$(basename "$(ls "$from/lib$library.cuda".*.so.0)")" "$folder/lib$library.so.0"
  done
}

if [ ! -x "$program" ]; then
  mkdir -p "$folder"
  if [ ! -d "$folder/source" ]; then
    work=$(mktemp -d "$folder/fetched.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    (cd "$work" && npm pack --silent "node-llama-cpp@$release" > packed &&
      tar -xzf "$(cat packed)" package/llama/gitRelease.bundle)
    git clone --quiet "$work/package/llama/gitRelease.bundle" "$work/source" 2> /dev/null
    mv "$work/source" "$folder/source" # whole or not at all
  fi
  cmake -G Ninja -S "$folder/source" -B "$folder/build" -DCMAKE_BUILD_TYPE=Release -DLLAMA_CURL=OFF \
    -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_UI=OFF \
    -DLLAMA_USE_PREBUILT_UI=OFF "${flags[@]}" > /dev/null
  ninja -C "$folder/build" "${tools[@]}" >&2
  if [ $kind = cuda ]; then
    ninja -C "$folder/build" >&2 $(ninja -C "$folder/build" -t targets all | grep -oE '^ggml-cpu-[a-z0-9_]+' | sort -u)
    take_cuda_libraries
    cp -P "$folder"/build/bin/libmtmd.so* "$folder"
  fi
  # llama-server last: it says that the folder is complete.
  for tool in llama-bench llama-batched-bench llama-server; do cp "$folder/build/bin/$tool" "$folder"; done
fi
if [ $# = 0 ]; then
  echo "$program"
else
  [ $kind = cpu ] || export LD_LIBRARY_PATH=$folder:${LD_LIBRARY_PATH:-}
  exec "$program" "$@"
fi
