#!/usr/bin/env bash
# Whether llama.cpp loads and decodes what `rigcast synth` writes: one model of every architecture that
# synth knows, few layers of it in true width, and every weight format; and whether tokens spread over
# experts there.
#
#   scripts/llama-cpp-loads.sh [--program RIGCAST] [--fetch] [MODEL...]
#
#   $RIGCAST_LLAMA_CPP   the folder of libllama.so and libggml.so. Without it nothing is tested (77).
#   --fetch              takes the libraries of two releases from npm packages instead
#   MODEL                these alone, of the list below
#
# Needs a C compiler, 7 GB of disk and of memory for one model of 27 layers, else 5 GB, and 10 minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
releases=(3.14.5 3.22.1) # of @node-llama-cpp/linux-x64: llama.cpp b7347 (2025-12), v0.5.0 (2026-09)
program=build/release/rigcast
fetch=
while [[ ${1:-} == --* ]]; do
  case $1 in
    --program) program=$2 && shift 2 ;;
    --fetch) fetch=1 && shift ;;
    *) echo "llama-cpp-loads: $1 is no option" >&2 && exit 2 ;;
  esac
done
[ -x "$program" ] || { echo "llama-cpp-loads: $program is not built: scripts/setup.sh" >&2 && exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folders=()
if [ -n "$fetch" ]; then
  for release in "${releases[@]}"; do
    mkdir "$work/$release"
    (cd "$work/$release" && npm pack --silent "@node-llama-cpp/linux-x64@$release" > packed &&
      tar -xzf "$(cat packed)")
    folders+=("$(dirname "$(find "$work/$release" -name 'libllama.*so*' | head -1)")")
  done
elif [ -n "${RIGCAST_LLAMA_CPP:-}" ]; then
  folders=("$RIGCAST_LLAMA_CPP")
else
  echo "llama-cpp-loads: SKIPPED, NOTHING WAS TESTED: RIGCAST_LLAMA_CPP names no folder of libllama.so" >&2
  exit 77
fi
cc -O1 -Wall -Wextra -o "$work/loads" tests/peers/llama_cpp_loads.c -ldl -lm

only=" $* "
failed=0
loads() { # MODEL and FLAGS of rigcast synth
  [[ $only == "  " || $only == *" $1 "* ]] || return 0
  "$program" synth "$@" -o "$work/model.gguf" > /dev/null || { failed=1 && return; }
  for folder in "${folders[@]}"; do
    printf '%-46s' "$*"
    LD_LIBRARY_PATH="$folder" "$work/loads" "$folder" "$work/model.gguf" 2>&1 | sed "s|$work/||" || failed=1
  done
  rm "$work/model.gguf"
}

for quant in F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q3_K_M Q4_K_M Q5_K_M Q6_K IQ4_NL IQ4_XS; do
  loads smollm2-135m --quant $quant --layers 2
done
# Formats of 256 weights alone: rows of a multiple of as many.
for quant in IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_M IQ3_XXS IQ3_M; do
  loads qwen3-0.6b --quant $quant --layers 2
done
# A model of each architecture, and as many layers as have one of every kind.
while read -r model layers; do
  loads "$model" --quant Q2_K --layers "$layers"
done << 'END'
tinyllama-1.1b 2
llama-3.2-1b 2
mistral-7b-v0.1 2
mixtral-8x7b 2
apertus-8b 2
command-r7b 4
command-r-35b 2
deepseek-v2-lite 27
ernie-4.5-0.3b 2
ernie-4.5-21b-a3b 2
exaone-4.0-1.2b 2
falcon-7b 2
falcon2-11b 2
falcon-h1-0.5b 2
gemma-2b 2
gemma-2-2b 2
gemma-3-1b 6
gemma-3n-e2b 30
glm-4-9b 2
glm-4.5-air 2
glm-4.7-flash 2
gpt-oss-20b 2
granite-3.1-2b 2
granite-4.0-h-micro 6
granite-4.0-h-tiny 6
hunyuan-a13b 1
dots.llm1 2
lfm2-350m 3
lfm2-8b-a1b 3
ling-mini-2.0 2
llama-4-scout 4
minimax-m2 1
ministral-3-3b 2
nemotron-nano-9b-v2 15
olmo-2-1b 2
olmo-3-7b 4
olmoe-1b-7b 2
phi-3-mini-4k 2
phi-3-mini-128k 2
phi-3.5-moe 1
qwen2.5-0.5b 2
qwen2-57b-a14b 1
qwen2.5-vl-3b 2
qwen3-0.6b 2
qwen3-30b-a3b 2
qwen3-next-80b-a3b 4
qwen3-vl-2b 2
qwen3-vl-30b-a3b 2
seed-oss-36b 2
smollm3-3b 4
END
loads mixtral-8x7b --quant MXFP4_MOE --layers 1
exit $failed
