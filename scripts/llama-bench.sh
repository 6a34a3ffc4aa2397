#!/usr/bin/env bash
# llama.cpp's libraries and a llama-bench over them (tests/peers/llama_bench), for a machine without
# a build of llama.cpp. Needs npm, and a C++ compiler with nlohmann's JSON (scripts/setup.sh).
#
#   scripts/llama-bench.sh [cpu|cuda] [FLAGS...]
#
# fetches the npm package into a folder of the cache, once, builds the program there where it is
# older than its sources, and prints its path; with flags it runs it. Beside it llama-batched-bench is
# the same program, which by that name measures several sequences at once; as llama-server-memory it
# tells what memory llama-server's flags take.
#   cpu    llama.cpp v0.5.0 for any x86-64 CPU
#   cuda   llama.cpp b7347 with code for sm_86, sm_89 and sm_90; needs CUDA 13's libcudart and libcublas
set -euo pipefail
sources=$(cd "$(dirname "$0")/.." && pwd)
kind=cpu
case ${1:-} in cpu | cuda) kind=$1 && shift ;; esac
case $kind in
  cpu) package=@node-llama-cpp/linux-x64@3.22.1 ;;
  cuda) package=@node-llama-cpp/linux-x64-cuda@3.14.5 ;;
esac
folder=${XDG_CACHE_HOME:-$HOME/.cache}/rigcast/llama.cpp-$kind

if [ ! -d "$folder" ]; then
  mkdir -p "$(dirname "$folder")"
  work=$(mktemp -d "$folder.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  (cd "$work" && npm pack --silent "$package" > packed && tar -xzf "$(cat packed)")
  found=$(find "$work/package" -name 'libllama.*so*' -print -quit)
  [ -n "$found" ] || { echo "llama-bench: no libllama in $package" >&2 && exit 1; }
  mv "$(dirname "$found")" "$folder" # whole or not at all
fi

program=$folder/llama-bench
if [ ! -x "$program" ] || [ -n "$(find "$sources/tests/peers/llama_bench" -newer "$program" -print -quit)" ]; then
  ${CXX:-c++} -std=c++20 -O1 -I "$sources" -o "$program.new" "$sources"/tests/peers/llama_bench/*.cpp -ldl
  mv "$program.new" "$program"
fi
for name in llama-batched-bench llama-server-memory; do ln -sf llama-bench "$folder/$name"; done
if [ $# = 0 ]; then echo "$program"; else exec "$program" "$@"; fi
