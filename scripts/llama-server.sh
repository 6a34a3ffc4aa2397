#!/usr/bin/env bash
# llama.cpp's own llama-server, llama-bench and llama-batched-bench, built from its sources, which
# node-llama-cpp's npm package holds as a git bundle. Half an hour on two cores. Needs npm, git and cmake.
#
#   scripts/llama-server.sh [cpu|cuda] [FLAGS...]
#
# builds them once, in a folder of the cache, and prints llama-server's path; with flags it runs it.
#   cpu    llama.cpp v0.5.0 for this machine's CPU
#   cuda   llama.cpp b7347 for GPUs of capability 9.0; needs nvcc
set -euo pipefail
kind=cpu
case ${1:-} in cpu | cuda) kind=$1 && shift ;; esac
case $kind in
  cpu) release=3.22.1 flags=(-DGGML_NATIVE=ON) ;;
  cuda) release=3.14.5 flags=(-DGGML_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=90 -DGGML_NATIVE=OFF) ;;
esac
folder=${XDG_CACHE_HOME:-$HOME/.cache}/rigcast/llama.cpp-built-$kind
program=$folder/build/bin/llama-server

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
  cmake -G Ninja -S "$folder/source" -B "$folder/build" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
    -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF "${flags[@]}" > /dev/null
  ninja -C "$folder/build" llama-server llama-bench llama-batched-bench >&2
fi
if [ $# = 0 ]; then echo "$program"; else exec "$program" "$@"; fi
