#!/usr/bin/env bash
# Tokens per second of many sequences that decode together: of the engine, and of llama.cpp on the same GPU
# with a model of the same shape and formats, 512 tokens each in the cache. Exits with 1 if llama.cpp is
# ahead at a number of sequences up to 64.
#
#   scripts/gpu-check-peers.sh BENCH_GPU_BATCH RIGCAST LLAMA_BATCHED_BENCH FOLDER OUT
#
# FOLDER: for the model's file, 5 GB.
set -euo pipefail

bench=$1 rigcast=$2 llama=$3 folder=$4 out=$5
model=llama-3.1-8b quant=Q4_K_M cached=512 output=64 most=64
mkdir -p "$folder"

"$rigcast" synth $model --quant $quant -o "$folder/model.gguf" > "$out/peers-synth.txt"
"$bench" $model $quant $cached > "$out/peers-engine.txt"
"$llama" -m "$folder/model.gguf" -ngl 99 -fa on -c $((most * (cached + output))) -npp $cached -ntg $output \
  -npl 1,2,4,8,16,32,$most --output-format jsonl > "$out/peers-llama.jsonl" 2> "$out/peers-llama.err"
rm "$folder/model.gguf"
python3 - "$out/peers-engine.txt" "$out/peers-llama.jsonl" << 'PYTHON'
import json, re, sys
ours = {}
for line in open(sys.argv[1]):
    row = re.match(r" *(\d+) +(\d+) ", line)
    if row:
        ours[int(row[1])] = float(row[2])
theirs = {}
for line in open(sys.argv[2]):
    if line.startswith("{"):
        row = json.loads(line)
        theirs[row["pl"]] = row["speed_tg"]
both = sorted(ours.keys() & theirs.keys())
if not both:
    sys.exit("no number of sequences was measured with both")
print("sequences   engine tok/s   llama.cpp tok/s   ratio")
for n in both:
    print(f"{n:9} {ours[n]:14.0f} {theirs[n]:17.0f} {ours[n] / theirs[n]:7.2f}")
sys.exit(any(ours[n] < theirs[n] for n in both))
PYTHON
