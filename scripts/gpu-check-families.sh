#!/usr/bin/env bash
# Tokens per second of one sequence after 512 tokens, for one model of each family: of the engine, and of
# llama.cpp on the same GPU with a file of the same shapes and formats. Exits with 1 where llama.cpp is
# ahead.
#
#   scripts/gpu-check-families.sh BENCH_GPU_ENGINE RIGCAST LLAMA_BENCH FOLDER OUT [MODEL QUANT]...
#
# FOLDER: for a model's file, up to 13 GB of those that are compared without a list.
set -euo pipefail

bench=$1 rigcast=$2 llama=$3 folder=$4 out=$5
shift 5
[ $# -gt 0 ] || set -- gpt-oss-20b MXFP4 gemma-3-12b Q4_K_M
mkdir -p "$folder"

: > "$out/families-engine.txt"
: > "$out/families-llama.jsonl"
while [ $# -gt 1 ]; do
  file=$folder/model.gguf
  "$bench" "$1 $2 decode 512" >> "$out/families-engine.txt"
  "$rigcast" synth "$1" --quant "$2" -o "$file" > "$out/families-synth.txt"
  echo "{\"name\": \"$1 $2\"}" >> "$out/families-llama.jsonl"
  "$llama" -m "$file" -ngl 99 -fa on -p 0 -n 64 -d 496 -r 3 -o jsonl \
    >> "$out/families-llama.jsonl" 2>> "$out/families-llama.err" || tail -2 "$out/families-llama.err"
  rm "$file"
  shift 2
done
python3 - "$out/families-engine.txt" "$out/families-llama.jsonl" << 'PYTHON'
import json, re, sys
ours, theirs, name = {}, {}, None
for line in open(sys.argv[1]):
    row = re.match(r"(\S+ \S+) decode 512 +([\d,]+) tok/s", line)
    if row:
        ours[row[1]] = float(row[2].replace(",", ""))
for line in open(sys.argv[2]):
    row = json.loads(line)
    name = row.get("name", name)
    if "avg_ts" in row:
        theirs[name] = row["avg_ts"]
print("model                         engine tok/s   llama.cpp tok/s   ratio")
for name in ours:
    beside = f"{theirs[name]:17.0f} {ours[name] / theirs[name]:7.2f}" if name in theirs else "                -"
    print(f"{name:29} {ours[name]:12.0f} {beside}")
sys.exit(not theirs or any(ours.get(n, 0) < theirs[n] for n in theirs))
PYTHON
