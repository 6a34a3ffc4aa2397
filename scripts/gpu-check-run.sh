#!/usr/bin/env bash
# Runs `rigcast run --device cuda` as people do: from a file and from random weights, with room and
# without, interrupted, without a GPU; and the forecast beside it.
#
#   scripts/gpu-check-run.sh PROGRAM FOLDER [PART...]    FOLDER: for what it writes, some GB
#
# Parts: from_file random_weights limits with_host interrupts prompts_interrupted launches_one_by_one
# no_gpu forecast; all without one. Those from `limits` on need the first two but prompts_interrupted.
set -uo pipefail

program=$1 folder=$2
model=tinyllama-1.1b # its input embedding is a matrix of its own
workload=(--prompt-tokens 512 --output-tokens 64 --context 1024)
failed=0

check() { # what, then a command that succeeds
  local what=$1
  shift
  if "$@"; then echo "ok      $what"; else
    echo "FAILED  $what"
    failed=1
  fi
}

# Runs the program; $code is its exit code, its output is in the files out and err.
rigcast() {
  code=0
  timeout 60 "$program" "$@" > out 2> err || code=$?
}
says() { grep -qE -e "$1" "${2:-out}" || { cat out err && false; }; }
is() { [ "$1" = "$2" ] || { echo "$1 is not $2" && cat err && false; }; }
json() { python3 -m json.tool "$1" > /dev/null; }

# Checks that no figure of the report is below zero, and that the figures of a GPU exist.
whole_report() {
  python3 - "$1" << 'PYTHON'
import json, sys
r = json.load(open(sys.argv[1]))
assert r["schema"] == "rigcast.report/1" and r["origin"] == "measured"
for start in ("resident", "warm", "cold"):
    assert r["ttft"][start]["total_s"] > 0, start
load = {s: r["ttft"][s]["breakdown_s"]["load"] for s in ("warm", "cold")}
assert load["warm"] < load["cold"], load
vram, ram = r["memory"]
assert vram["tier"] == "vram" and ram["tier"] == "ram"
for device in (vram, ram):
    for what, figure in device.items():
        assert not isinstance(figure, (int, float)) or figure >= 0, (what, figure)
    assert device["total"] <= device["capacity"], device
assert vram["weights"] > 1e8 and vram["kv"] > 1e6
assert r["decode"]["tokens_per_s"] > 0 and r["prefill_tokens_per_s"] > 0
assert r["measured"]["read_bytes_per_s"] < r["measured"]["ceiling_bytes_per_s"]
assert r["bottleneck"]["decode"]["resource"] in ("vram", "launch"), r["bottleneck"]
PYTHON
}

trace_of_gpu() {
  python3 - "$1" << 'PYTHON'
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
tracks = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
assert "GPU 0" in tracks, tracks
assert sum(e.get("ph") == "X" for e in events) > 1000
PYTHON
}

# The engine's GPU memory in the report, in MiB: weights and everything else.
taken() {
  python3 -c 'import json, sys; v = json.load(open(sys.argv[1]))["memory"][0]
print(int((v["weights"] + v["kv"] + v["activations"] + v["staging"]) / 2**20) + 1)' "$1"
}

from_file() {
  rigcast synth $model -o model.gguf
  check "a file of random weights" is $code 0
  rigcast run --weights model.gguf --device cuda "${workload[@]}"
  cat out
  check "a run from it" is $code 0
  rigcast run --weights model.gguf --device cuda "${workload[@]}" --format json -o run.json \
    --trace trace.json
  check "its report as JSON" is $code 0
  check "is JSON" json run.json
  check "and whole" whole_report run.json
  check "its trace shows the GPU" trace_of_gpu trace.json
}

random_weights() {
  rigcast run --model $model --synthetic --device cuda "${workload[@]}"
  check "random weights" is $code 0
}

# Runs with a limit that has room for the buffers of an upload, too, then with decreasing limits.
limits() {
  local mib
  mib=$(taken run.json)
  rigcast run --weights model.gguf --device cuda "${workload[@]}" --repeat 1 \
    --vram-limit $((mib + 64))MiB --format json -o limited.json
  check "a limit of $((mib + 64)) MiB holds it" is $code 0
  check "and the report is whole" whole_report limited.json
  local limit
  for limit in $((mib - 2)) $((mib * 9 / 10)) $((mib / 2)) 64; do
    rigcast run --weights model.gguf --device cuda "${workload[@]}" --gpu-layers 23 \
      --vram-limit ${limit}MiB
    check "$limit MiB do not: exit code 1" is $code 1
    check "and it is said what was asked, for what, and what is free" \
      says "GPU memory.*(weights|KV cache|activations|buffers|workspace).* free" err
    cat err
  done
}

# Checks the report of a run that is split with the host: both memories, and bytes over the link.
shared_report() {
  python3 - "$1" << 'PYTHON'
import json, sys
r = json.load(open(sys.argv[1]))
vram, ram = r["memory"]
assert vram["weights"] > 0 and ram["weights"] > 0, r["memory"]
for device in (vram, ram):
    assert device["total"] <= device["capacity"], device
bytes = r["traffic_bytes"]
assert bytes["ram"] > 0 and bytes["vram"] > 0, bytes
assert bytes["pcie_h2d"] > 0 and bytes["pcie_d2h"] > 0, bytes
assert r["decode"]["tokens_per_s"] > 0
PYTHON
}

# Arguments: name of the check, expected text, then flags.
shared() {
  local what=$1 says=$2
  shift 2
  rigcast run "$@" --device cuda "${workload[@]}" --repeat 1
  check "$what" is $code 0
  check "and it is said who has what" says "$says"
  grep -E "^  (speed|shared|moved) " out
  rigcast run "$@" --device cuda "${workload[@]}" --repeat 1 --format json -o shared.json
  check "and the report shows both" shared_report shared.json
}

with_host() {
  shared "half of the layers" "11 of 22 layers on GPU 0, head on the CPU" \
    --weights model.gguf --gpu-layers 11
  shared "all caches in RAM" "22 of 22 layers and the head on GPU 0, KV in RAM" \
    --weights model.gguf --kv ram
  shared "tokens on the CPU" "prompts: 22 of 22 layers on GPU 0; decode: all on the CPU" \
    --weights model.gguf --decode-device cpu
  shared "prompts of half of the layers" "prompts: 11 of 22 layers on GPU 0; decode" \
    --weights model.gguf --decode-device cpu --gpu-layers 11
  shared "layers streamed to the GPU" "11 of 22 layers on GPU 0, 11 streamed to it, head on the CPU" \
    --weights model.gguf --gpu-layers 11 --decode-device gpu
  shared "experts in RAM" "and the head on GPU 0, experts of 12 layers in RAM" \
    --model qwen3-30b-a3b --synthetic --cpu-moe 12
  rigcast run --weights model.gguf --device cuda "${workload[@]}" --gpu-layers 11 --ram-limit 256MiB
  check "256 MiB of the host's memory are too few: exit code 1" is $code 1
  check "and parts are named" says "memory are needed .weights .*free by --ram-limit" err
  cat err
  rigcast run --weights model.gguf --device cuda "${workload[@]}" --gpu-layers 22 --vram-limit 400MiB
  check "22 layers do not fit into 400 MiB: exit code 1" is $code 1
  check "and it is said how many do" says "--gpu-layers [0-9]+, or" err
  rigcast run --weights model.gguf --device cuda "${workload[@]}" --vram-limit 400MiB --repeat 1
  check "without a number those that fit are taken" is $code 0
  check "and it is said" says "of 22 layers fit into the GPU's memory"
}

# Checks that written files are complete, and that no other files are left.
whole_or_absent() {
  local file
  for file in "$1"/*; do
    case $file in
      */\*) ;; # none
      *.json) json "$file" || return 1 ;;
      *.npy) [ $(($(stat -c %s "$file") % 128000)) = 128 ] || return 1 ;; # rows, and the header
      *) echo "left behind: $file" && return 1 ;;
    esac
  done
}

interrupts() {
  local seconds
  seq 1 2000 | tr '\n' ' ' > ids.txt
  for seconds in 0.1 0.4 0.8 1.2 1.8 2.5; do
    rm -rf kept && mkdir kept
    code=0
    timeout --foreground -s INT -k 20 $seconds "$program" run --weights model.gguf --device cuda \
      --prompt-tokens 512 --output-tokens 500 --context 2048 --repeat 500 --format json \
      -o kept/run.json --trace kept/trace.json > out 2> err || code=$?
    check "interrupted after $seconds s: $(tail -1 err)" whole_or_absent kept
    check "and it ended by itself" [ $code != 137 ]
  done
  rm -rf kept && mkdir kept
  timeout --foreground -s INT -k 20 0.6 "$program" run --weights model.gguf --device cuda --tokens ids.txt \
    --logits kept/logits.npy > out 2> err || code=$?
  check "interrupted while logits are written: $(tail -1 err)" whole_or_absent kept
}

# Arguments: seconds before the interrupt, the program's activity, its flags. The program must end
# within half a second.
ends_at_once() {
  local after=$1 what=$2
  shift 2
  check "$what: $(python3 - "$after" "$program" run --synthetic --device cuda \
    --output-tokens 2 --repeat 20 "$@" << 'PYTHON'
import signal, subprocess, sys, time
quiet = subprocess.DEVNULL
run = subprocess.Popen(sys.argv[2:], stdout=quiet, stderr=quiet)
time.sleep(float(sys.argv[1]))
if run.poll() is not None: sys.exit("it had ended")
begin = time.monotonic()
run.send_signal(signal.SIGINT)
run.wait(timeout=60)
seconds = time.monotonic() - begin
print(f"{seconds:.2f} s after an interrupt")
open("in_time" if seconds < 0.5 else "late", "w").close()
PYTHON
)" test -e in_time
  rm -f in_time
}

# Prompts of many seconds, in all configurations; interrupted first while weights are made, then
# while tokens are computed.
prompts_interrupted() {
  local dense=(--model llama-3.1-8b --context 131072 --prompt-tokens 130000)
  local experts=(--model qwen3-30b-a3b --context 40960 --prompt-tokens 40000) after
  for after in 1.5 6; do
    ends_at_once $after "a prompt of the GPU" "${dense[@]}"
    ends_at_once $after "with 16 layers in RAM" "${dense[@]}" --gpu-layers 16
    ends_at_once $after "with 16 layers streamed" "${dense[@]}" --gpu-layers 16 --decode-device gpu
    ends_at_once $after "with caches in RAM" "${dense[@]}" --kv ram
    ends_at_once $after "with experts in RAM" "${experts[@]}" --cpu-moe 48
  done
}

# With blocking launches host and GPU would wait for each other.
launches_one_by_one() {
  CUDA_LAUNCH_BLOCKING=1 rigcast run --weights model.gguf --device cuda "${workload[@]}" \
    --gpu-layers 11 --repeat 1
  check "CUDA_LAUNCH_BLOCKING and layers in RAM" is $code 0
  check "and it is said" says "CUDA_LAUNCH_BLOCKING" err
}

no_gpu() {
  CUDA_VISIBLE_DEVICES="" rigcast run --weights model.gguf --device cuda
  check "no GPU: exit code 3" is $code 3
  check "and it is said why" says "finds no GPU: CUDA_VISIBLE_DEVICES" err
  cat err
}

forecast() {
  local gpu
  gpu=$(sed -n 's/.*rigcast simulate --gpu \([^ ]*\) .*/\1/p' measured.txt)
  rigcast simulate --gpu "$gpu" --runtime rigcast --model $model "${workload[@]}" --no-advice
  check "the forecast that the report names" is $code 0
  echo "forecast:" && grep -E "^  (first token|prefill|speed|VRAM) " out
  echo "measured:" && grep -E "^  (first token|prefill|speed|VRAM) " measured.txt
}

program=$(realpath "$program")
mkdir -p "$folder" && cd "$folder" || exit 1
for part in ${*:3}; do $part; done
if [ $# = 2 ]; then
  from_file
  random_weights
  cp out measured.txt
  for part in limits with_host interrupts prompts_interrupted launches_one_by_one no_gpu forecast; do
    $part
  done
fi
rm -f model.gguf
exit $failed
