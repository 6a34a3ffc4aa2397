#!/usr/bin/env bash
# Whether llama.cpp loads what `rigcast synth` writes, one model of every architecture that synth
# knows and every weight format. Needs a C compiler, and npm for the library.
#
#   scripts/llama-cpp-loads.sh [FOLDER]    FOLDER: where libllama.so and libggml.so are; without one
#                                          they are taken from the npm package of $package
set -euo pipefail
cd "$(dirname "$0")/.."
package=@node-llama-cpp/linux-x64@3.22.1 # llama.cpp v0.5.0
program=build/release/rigcast
[ -x $program ] || { echo "llama-cpp-loads: $program is not built: scripts/setup.sh" >&2 && exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folder=${1:-}
if [ -z "$folder" ]; then
  (cd "$work" && npm pack --silent "$package" > packed && tar -xzf "$(cat packed)")
  folder=$(dirname "$(find "$work/package" -name 'libllama.*so*' | head -1)")
fi
cc -O1 -Wall -Wextra -o "$work/loads" tests/peers/llama_cpp_loads.c -ldl

failed=0
loads() { # FLAGS of rigcast synth
  $program synth "$@" -o "$work/model.gguf" > /dev/null || { failed=1 && return; }
  printf '%-44s' "$*"
  LD_LIBRARY_PATH="$folder" "$work/loads" "$folder" "$work/model.gguf" | sed "s|$work/||" || failed=1
  rm "$work/model.gguf"
}

for quant in F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q3_K_M Q4_K_M Q5_K_M Q6_K IQ4_NL IQ4_XS; do
  loads smollm2-135m --quant $quant --layers 2
done
for model in tinyllama-1.1b llama-3.2-1b mistral-7b-v0.1 qwen2.5-0.5b qwen3-0.6b qwen3-30b-a3b mixtral-8x7b; do
  loads $model --layers 2
done
loads mixtral-8x7b --quant MXFP4_MOE --layers 1
exit $failed
