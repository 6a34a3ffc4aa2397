#!/usr/bin/env bash
# Starts llama-server with a GPU, forecasts and times it with rigcast validate --server, and sets beside
# it what llama-bench says of the same file.
#
#   scripts/gpu-check-server.sh PROGRAM OUT SCRATCH [NAME...]
#
# PROGRAM lies beside llama.cpp-built-cuda, as scripts/gpu-check.sh packs it. NAME: of the servers below; all
# of them without one.
set -uo pipefail

program=$1 out=$2 scratch=$3
shift 3
llama=$(dirname "$program")/llama.cpp-built-cuda
mkdir -p "$scratch" "$out"
failed=0

# name | model | mix | llama-server's flags | the scenario's
servers='
8b            | llama-3.1-8b   | Q4_K_M | -ngl 99                   | --gpu-layers 33
8b-deep       | llama-3.1-8b   | Q4_K_M | -ngl 99                   | --gpu-layers 33 --depth 16384
8b-split      | llama-3.1-8b   | Q4_K_M | -ngl 24                   | --gpu-layers 24
8b-kv-in-ram  | llama-3.1-8b   | Q4_K_M | -ngl 99 -nkvo             | --gpu-layers 33 --kv ram --depth 4096
8b-q8-cache   | llama-3.1-8b   | Q4_K_M | -ngl 99 -ctk q8_0 -ctv q8_0 | --gpu-layers 33 --kv-type q8_0 --depth 8192
1.5b          | qwen2.5-1.5b   | Q4_K_M | -ngl 99                   | --gpu-layers 29
30b-a3b       | qwen3-30b-a3b  | Q4_K_M | -ngl 99                   | --gpu-layers 49
30b-a3b-ram   | qwen3-30b-a3b  | Q4_K_M | -ngl 99 -ncmoe 24         | --gpu-layers 49 --cpu-moe 24
'

with_libraries() { LD_LIBRARY_PATH=$llama:$LD_LIBRARY_PATH "$@"; }

# Waits until the server answers, at most a minute and a half.
answers() {
  local i
  for i in $(seq 450); do
    python3 -c 'import urllib.request as u; u.urlopen("http://127.0.0.1:8091/health", timeout=1)' \
      2> /dev/null && return 0
    kill -0 "$1" 2> /dev/null || return 1
    sleep 0.2
  done
  return 1
}

check() {
  local name=$1 model=$2 mix=$3 flags=$4 scenario=$5 file server
  file=$scratch/$model-$mix.gguf
  [ -e "$file" ] || { rm -f "$scratch"/*.gguf && "$program" synth "$model" --quant "$mix" -o "$file"; } ||
    return 1
  LD_LIBRARY_PATH=$llama:$LD_LIBRARY_PATH "$llama/llama-server" -m "$file" -c 20480 -np 1 -fa on --port 8091 --no-webui $flags \
    > "$out/$name.server.txt" 2>&1 &
  server=$!
  if answers $server; then
    "$program" validate --server http://127.0.0.1:8091 --rig "$out/rig.toml" --model "$model" \
      --quant "$mix" --build 2025-12 $scenario --prompt-tokens 1024 --output-tokens 129 --keep "$out/$name" \
      > "$out/$name.txt" 2>&1
    grep -E '^    (decode|prefill|error)' "$out/$name.txt" || tail -5 "$out/$name.txt"
  else
    tail -5 "$out/$name.server.txt"
  fi
  kill $server && wait $server
}

# The first context of a process beside later ones, by llama.cpp's own llama-bench.
first_contexts() {
  local file=$1 flags
  for flags in "-p 0 -n 128" "-p 1024 -n 128" "-p 0 -n 128,128,128"; do
    with_libraries "$llama/llama-bench" -m "$file" -ngl 99 -fa 1 -r 5 $flags -o jsonl 2> /dev/null |
      python3 -c 'import json, sys
for line in sys.stdin:
    r = json.loads(line)
    print("llama-bench", sys.argv[1], "|", r["n_prompt"], r["n_gen"], *(f"{s:.1f}" for s in r["samples_ts"]))' "$flags"
  done
}

[ -e "$out/rig.toml" ] || "$program" probe -o "$out/rig.toml" --scratch "$scratch" > "$out/rig.txt" 2>&1
while IFS='|' read -r name model mix flags scenario; do
  name=$(echo $name)
  [ -n "$name" ] || continue
  [ $# = 0 ] || [[ " $* " == *" $name "* ]] || continue
  echo "== $name: $flags"
  check "$name" $model $mix "$flags" "$scenario" || failed=1
  case $name in 8b | 1.5b | 30b-a3b) first_contexts "$scratch/$(echo $model)-$(echo $mix).gguf" ;; esac
done <<< "$servers"
exit $failed
