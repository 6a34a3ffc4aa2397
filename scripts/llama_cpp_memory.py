#!/usr/bin/env python3
"""Whether the commands that `rigcast plan --emit llama.cpp` prints take the memory that it forecasts.

    scripts/llama_cpp_memory.py --rigcast PROGRAM --server-memory PROGRAM --build YYYY-MM [--seconds N]
                                [--scratch DIR] [--output FILE] [NAME...]

For each configuration below: plan, write a file of the model's shape (zeros, sparse), load it with the
flags of the command by llama.cpp's library (scripts/llama-bench.sh: llama-server-memory), and compare the
library's account of its buffers with the forecast. Of VRAM what the library allocates counts: weights, KV
and buffers, without the driver's own. Ends with 1 if a command does not load, or is off by more than 3 %
and 100 MiB. Needs a GPU of 80 GB for commands of smaller ones, and 128 GB of memory.
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

MIB = 2**20
SHARE, ABSOLUTE = 0.03, 100 * MIB

# Architectures of llama.cpp: llama, qwen2, qwen3, qwen3moe, gemma2, gemma3, gpt-oss, phi3, deepseek2,
# granitehybrid, falcon-h1, lfm2, lfm2moe, olmoe, olmo2, glm4, glm4moe, command-r, cohere2, exaone4,
# nemotron_h, ernie4_5-moe, starred ones with windows (*) or recurrent layers (+) among them.
HOST = "--cpu ryzen-9-7950x --ram 2xddr5-5600:96GiB"
FULL = f"--gpu rtx-4090 {HOST}"
SMALL = f"--gpu rtx-3060-12gb {HOST}"
LARGE = f"--gpu rtx-5090 {HOST}"
SERVER = f"--gpu h100-sxm {HOST}"
CORES = HOST
COMMANDS = [
    ("llama-3.2-1b Q8_0", FULL, "--context 131072"),
    ("llama-3.1-8b Q4_K_M", FULL, "--context 32768"),
    ("llama-3.1-8b Q4_K_M", SMALL, "--context 65536 --kv-type q8_0"),
    ("llama-3.1-8b Q8_0", SMALL, "--context 16384"),
    ("llama-3.1-8b Q4_K_M", CORES, "--context 16384"),
    ("llama-3.3-70b Q4_K_M", SERVER, "--context 32768"),
    ("llama-3.3-70b Q4_K_M", LARGE, "--context 16384"),
    ("mistral-7b-v0.3 Q5_K_M", SMALL, "--context 32768"),
    ("mistral-small-24b Q4_K_M", FULL, "--context 32768"),
    ("mixtral-8x7b Q4_K_M", FULL, "--context 16384"),
    ("tinyllama-1.1b Q4_0", SMALL, "--context 2048"),
    ("smollm3-3b Q6_K", SMALL, "--context 32768"),
    ("qwen2.5-0.5b F16", SMALL, "--context 32768"),
    ("qwen2.5-7b Q4_K_M", SMALL, "--context 32768 --kv ram"),
    ("qwen2.5-14b Q6_K", SMALL, "--context 16384"),
    ("qwen2.5-32b Q4_K_M", FULL, "--context 16384"),
    ("qwen3-4b Q4_K_M", SMALL, "--context 40960"),
    ("qwen3-14b Q5_K_M", SMALL, "--context 32768 --kv-type q8_0"),
    ("qwen3-32b Q4_K_M", LARGE, "--context 40960"),
    ("qwen3-8b IQ4_XS", CORES, "--context 8192"),
    ("qwen3-30b-a3b Q4_K_M", FULL, "--context 32768"),
    ("qwen3-30b-a3b Q4_K_M", SMALL, "--context 32768"),
    ("qwen3-30b-a3b Q6_K", SMALL, "--context 16384 --kv-type q8_0"),
    ("qwen3-30b-a3b Q4_K_M", CORES, "--context 16384"),
    ("qwen3-next-80b-a3b Q4_K_M", SMALL, "--context 32768"),
    ("gemma-2-2b Q8_0", SMALL, "--context 8192"),
    ("gemma-2-9b Q4_K_M", SMALL, "--context 8192"),
    ("gemma-2-27b Q4_K_M", FULL, "--context 8192"),
    ("gemma-3-1b Q8_0", SMALL, "--context 32768"),
    ("gemma-3-4b Q4_K_M", SMALL, "--context 131072"),
    ("gemma-3-12b Q4_K_M", SMALL, "--context 65536"),
    ("gemma-3-27b Q4_K_M", FULL, "--context 65536"),
    ("gemma-3-12b Q4_K_M", CORES, "--context 32768"),
    ("gpt-oss-20b MXFP4", FULL, "--context 131072"),
    ("gpt-oss-20b MXFP4", SMALL, "--context 65536"),
    ("gpt-oss-120b MXFP4", LARGE, "--context 65536"),
    ("gpt-oss-20b MXFP4", CORES, "--context 32768"),
    ("phi-3-mini-4k Q4_K_M", SMALL, "--context 4096"),
    ("phi-4 Q4_K_M", SMALL, "--context 16384"),
    ("phi-3.5-moe Q4_K_M", FULL, "--context 16384"),
    ("deepseek-v2-lite Q4_K_M", SMALL, "--context 32768"),
    ("deepseek-v2-lite Q8_0", FULL, "--context 65536"),
    ("granite-3.1-8b Q4_K_M", SMALL, "--context 32768"),
    ("granite-4.0-h-tiny Q4_K_M", SMALL, "--context 65536"),
    ("granite-4.0-h-small Q4_K_M", FULL, "--context 65536"),
    ("falcon-h1-0.5b Q8_0", SMALL, "--context 16384"),
    ("lfm2-1.2b Q8_0", SMALL, "--context 32768"),
    ("lfm2-8b-a1b Q4_K_M", SMALL, "--context 32768"),
    ("olmoe-1b-7b Q4_K_M", SMALL, "--context 4096"),
    ("olmo-2-13b Q4_K_M", SMALL, "--context 4096"),
    ("olmo-3-7b Q4_K_M", SMALL, "--context 65536"),
    ("glm-4-9b Q4_K_M", SMALL, "--context 32768"),
    ("glm-4.5-air Q4_K_M", LARGE, "--context 32768"),
    ("command-r7b Q4_K_M", SMALL, "--context 65536"),
    ("command-r-35b Q4_K_M", FULL, "--context 8192"),
    ("exaone-4.0-32b Q4_K_M", FULL, "--context 65536"),
    ("nemotron-nano-9b-v2 Q4_K_M", SMALL, "--context 65536"),
    ("ernie-4.5-21b-a3b Q4_K_M", SMALL, "--context 32768"),
    ("ling-mini-2.0 Q4_K_M", SMALL, "--context 32768"),
    ("hunyuan-a13b Q4_K_M", LARGE, "--context 32768"),
    ("seed-oss-36b Q4_K_M", LARGE, "--context 32768"),
]


def output_of(words, what, **environment):
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode:
        raise RuntimeError(f"{what}: " + " ".join((done.stderr or done.stdout).split()))
    return done.stdout


def emitted(rigcast, build, model, flags):
    """The llama-server command of the best plan for a build, its quant mix and its report."""
    name, quant = model.split()
    words = [rigcast, "plan", "--model", name, "--quant", quant, "--build", build, *shlex.split(flags)]
    text = output_of([*words, "--emit", "llama.cpp"], "plan")
    line = next(line for line in text.replace("\\\n", " ").splitlines() if line.startswith("llama-server"))
    best = json.loads(output_of([*words, "--format", "json"], "plan"))["choices"][0]
    return shlex.split(line), best["scenario"]["model"]["quant"], best["report"]


def forecast_of(report):
    """Bytes that the runtime allocates by the forecast: on the GPUs together, and on the host."""
    sums = {"vram": 0, "ram": 0}
    for device in report["memory"]:
        parts = ("weights", "kv", "activations", "staging")
        sums[device["tier"]] += sum(device.get(part) or 0 for part in parts)
    return sums


def tied_matrix(shape):
    """Bytes of a matrix that is embedding and head at once."""
    sizes = {t["name"]: t["bytes"] for t in shape["tensors"]}
    return 0 if "output.weight" in sizes else sizes.get("token_embd.weight", 0)


def measured_of(account, shape, on_gpu, head_on_gpu):
    """The same by the library's buffers. A part of the file that is mapped reaches from the first to the last
    tensor that the host needs: what lies between, and is in a buffer as well, is no memory that it needs."""
    sums = {"vram": 0, "ram": 0}
    weights = mapped = 0
    for b in account["buffers"]:
        sums["vram" if re.fullmatch(r"CUDA\d+", b["name"]) else "ram"] += b["bytes"]
        if b["kind"] == "model":
            weights += b["bytes"]
            mapped += b["bytes"] if b["name"].endswith("_Mapped") else 0
    # A tied matrix is on the host once, and once more where it is multiplied: on a GPU, or in a layout of the CPU.
    tied = tied_matrix(shape)
    in_tiles = sum(b["bytes"] for b in account["buffers"] if b["name"] == "AMX") >= tied
    needed = shape["tensor_bytes"] + (tied if (head_on_gpu if on_gpu else in_tiles) else 0)
    sums["ram"] -= min(max(0, weights - needed), mapped)
    return sums


def check(args, model, flags, scratch):
    command, quant, report = emitted(args.rigcast, args.build, model, flags)
    file = scratch / "model.gguf"
    output_of([args.rigcast, "synth", model.split()[0], "--quant", quant, "--zeros", "-o", str(file)], "synth")
    shape = json.loads(output_of([args.rigcast, "inspect", str(file), "--tensors", "--format", "json"], "inspect"))
    words = [args.server_memory, *command[1:]]
    words[words.index("-m") + 1] = str(file)
    on_gpu = any(device["tier"] == "vram" for device in report["memory"])
    # A library with CUDA would offload large batches to a GPU that the forecast's machine has not.
    hidden = {} if on_gpu else {"CUDA_VISIBLE_DEVICES": ""}
    account = json.loads(output_of(words, "llama-server-memory", **hidden))
    layers = int(command[command.index("-ngl") + 1])
    blocks = {t["name"].split(".")[1] for t in shape["tensors"] if t["name"].startswith("blk.")}
    head_on_gpu = layers > (len(blocks) if account["release"] == "b7347" else 0)
    return {"model": model, "flags": flags, "command": command, "forecast": forecast_of(report),
            "memory": report["memory"], "buffers": account["buffers"], "gpus": account["gpus"],
            "release": account["release"], "measured": measured_of(account, shape, on_gpu, head_on_gpu)}


def verdict(row):
    bad = []
    for tier in ("vram", "ram"):
        forecast, measured = row["forecast"][tier], row["measured"][tier]
        off = forecast - measured
        if abs(off) > max(ABSOLUTE, SHARE * measured):
            bad.append(tier)
        print(f"  {tier:4} {forecast / MIB:10.1f} {measured / MIB:10.1f} MiB "
              f"{off / MIB:+9.1f} {100 * off / max(measured, 1):+7.2f} %", end="")
    print("  MISS " + ",".join(bad) if bad else "", flush=True)
    return not bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rigcast", required=True)
    parser.add_argument("--server-memory", required=True)
    parser.add_argument("--build", required=True, help="month of the library's release: 2025-12 of b7347")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop before the next after so many")
    parser.add_argument("--scratch", type=pathlib.Path)
    parser.add_argument("--output", type=pathlib.Path, help="a line of JSON for each command")
    parser.add_argument("--cpu-only", action="store_true", help="only commands without a GPU")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    begin, good, lines = time.time(), 0, []
    with tempfile.TemporaryDirectory(dir=args.scratch) as folder:
        for model, rig, flags in COMMANDS:
            if args.names and model.split()[0] not in args.names or args.cpu_only and rig is not CORES:
                continue
            if time.time() - begin > args.seconds:
                break
            print(f"{model:28} {rig.split()[1]:13} {flags:36}", end="")
            try:
                row = check(args, model, f"{rig} {flags}", pathlib.Path(folder))
                good += verdict(row)
            except (RuntimeError, StopIteration) as error:
                row = {"model": model, "flags": f"{rig} {flags}", "error": str(error)}
                print(f"  FAILED {error}", flush=True)
            lines.append(json.dumps(row))
    if args.output:
        args.output.write_text("".join(line + "\n" for line in lines))
    print(f"{good} of {len(lines)} commands take what was forecast, in {time.time() - begin:.0f} s")
    sys.exit(good < len(lines))


if __name__ == "__main__":
    main()
