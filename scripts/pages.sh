#!/usr/bin/env bash
# Makes one page of every kind, and of every state that the browser tests look at, in a folder.
#   scripts/pages.sh PROGRAM FOLDER [NAME...]     NAME: of the list below; default: all
set -euo pipefail
program=$(realpath "$1")
mkdir -p "$2"
folder=$(realpath "$2")
shift 2
cd "$(dirname "$0")/.."
export XDG_DATA_HOME=$folder/own-data

# Names as somebody might choose them to run a script in a page.
evil='</script><script>window.hacked=1</script><!--<img src=x onerror=window.hacked=1>'
own=$folder/own-data/rigcast/models
mkdir -p "$own"
sed "s|^name = .*|name = \"$evil\"|" models/llama-3.2-1b.toml >"$own/hostile.toml"
{
  head -n 1 runtimes/measurements/benchmarks.csv
  grep -m 5 'RTX 4090' runtimes/measurements/benchmarks.csv | sed "s|^[^,]*|$evil|"
} >"$folder/hostile.csv"

rtx=(--gpu rtx-3060-12gb --cpu core-i7-8700 --ram 2xddr4-2666:32GiB --ssd sata-ssd --pcie 3x16)
printf 'arrival_s,input_tokens,output_tokens\n0,32,8\n0.5,40,8\n1,24,6\n' >"$folder/load.csv"

declare -A pages=(
  [simulate]="simulate ${rtx[*]} --model llama-3.1-8b --quant Q6_K --context 32768"
  [misfit]="simulate ${rtx[*]} --model llama-3.1-8b --quant F16 --gpu-layers 33 --context 32768"
  [disk]="simulate ${rtx[*]} --model llama-3.3-70b --quant Q6_K --context 32768"
  [split]="simulate ${rtx[*]} --model qwen2.5-32b --quant Q4_K_M --context 8192"
  [unified]="simulate --rig strix-halo-128gb --model gpt-oss-120b --context 32768"
  [cpu]="simulate --cpu core-i7-8700 --model llama-3.2-1b --quant Q8_0"
  [several]="simulate --rig dual-rtx-3090 --model llama-3.3-70b --start cold"
  [load]="simulate --gpu rtx-4090 --model llama-3.1-8b --quant Q4_K_M --users 14 --load chat"
  [run]="run --model llama-3.2-1b --quant Q8_0 --synthetic --prompt-tokens 32 --output-tokens 16"
  [run-load]="run --model llama-3.2-1b --quant Q8_0 --synthetic --load $folder/load.csv --context 2048"
  [plan]="plan --gpu rtx-3060-12gb --model qwen2.5-14b --context 16384"
  [plan-disk]="plan --gpu rtx-3060-12gb --model deepseek-v3"
  [plan-misfit]="plan --gpu rtx-3060-12gb --ram 2xddr4-2666:4GiB --model llama-3.3-70b
                 --context 131072 --kv vram --quant Q8_0"
  [plan-load]="plan --gpu rtx-4090 --model llama-3.1-8b --load chat --users 200"
  [compare]="compare --model llama-3.3-70b,qwen3-30b-a3b --context 16384 --rig desktop-ddr5
             --budget 3000 --gpus rtx-3090,rtx-4090,rtx-5090,2xrtx-3090,strix-halo-128gb"
  [compare-load]="compare --model llama-3.1-8b --load chat --users 60 --gpus rtx-3090,rtx-4090"
  [capacity]="capacity --rig gaming-rtx-4090 --model llama-3.1-8b --quant Q4_K_M --load chat
              --slots 16 --no-advice"
  [capacities]="capacity --gpus rtx-3090,rtx-5090 --model qwen3-8b --load chat"
  [validate]="validate --against runtimes/measurements/benchmarks.csv"
  [replay]="validate --replay tests/validation/zen5-2-cores.jsonl.gz
            --bars tests/validation/bars.toml"
  [hostile]="simulate --gpu rtx-4090 --model hostile --quant Q8_0"
  [hostile-rows]="validate --against $folder/hostile.csv"
  [sweep]="sweep --gpu rtx-3060-12gb --model llama-3.1-8b --set placement.gpu_layers=0..33"
  [sweep-map]="sweep --gpu rtx-3060-12gb --model llama-3.1-8b
               --set model.quant=Q4_K_M,Q5_K_M,Q6_K,Q8_0 --set workload.context=4096..65536:4096"
  [sweep-many]="sweep --gpu rtx-3060-12gb --model llama-3.1-8b --set model.quant=Q4_K_M,Q6_K
                --set kv.type_k=f16,q8_0 --set workload.context=4096..32768:4096"
)
names=("$@")
((${#names[@]})) || mapfile -t names < <(printf '%s\n' "${!pages[@]}" | sort)
for name in "${names[@]}"; do
  rm -f "$folder/$name.html"
  # 1: the answer is no, and stands in the page all the same.
  code=0
  # shellcheck disable=SC2086  # several words
  "$program" ${pages[$name]} --format json -o "$folder/$name.json" --html "$folder/$name.html" \
    >"$folder/$name.out" 2>"$folder/$name.err" || code=$?
  if ((code > 1)) || [ ! -s "$folder/$name.html" ]; then
    echo "no page $name: exit code $code" >&2
    cat "$folder/$name.err" >&2
    exit 1
  fi
done
