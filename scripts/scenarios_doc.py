#!/usr/bin/env python3
"""Writes docs/scenarios.md: statements of the source documents, compared with rigcast's forecasts.

Usage: scripts/scenarios_doc.py [--program build/release/rigcast] [--check]
With --check it writes nothing and fails if the file is not what it would write.
"""
import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Rigcast:
    def __init__(self, program):
        self.program = program

    def report(self, example, *flags):
        command = [self.program, "simulate", f"examples/{example}.toml", "--format", "json", *flags]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode not in (0, 1):
            sys.exit(f"{' '.join(command)}: {done.stderr}")
        return json.loads(done.stdout)

    def speeds(self, example, positions, *flags):
        flags = ("--no-advice", "--positions", ",".join(map(str, positions)), *flags)
        report = self.report(example, *flags)
        return [p["tokens_per_s"] for p in report["decode"]["by_position"]]

    def plan(self, *flags):
        command = [self.program, "plan", "--rig", "handbook-8gb", "--model", "mistral-7b-v0.3",
                   "--prompt-tokens", "512", "--output-tokens", "256", "--context", "4096",
                   "--start", "resident", "--format", "json", *flags]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def size_gb(self, model, quant):
        command = [self.program, "inspect", model, "--quant", quant, "--format", "json"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)["tensor_bytes"] / 1e9


def number(value):
    if value is None:
        return "-"
    if value >= 99.5:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.95 else f"{value:.2f}"


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(c) for c in row) + " |" for row in rows]
    return "\n".join(lines)


def cliff_text(report):
    found = [c for c in report["cliffs"] if c["axis"] == "position"]
    if not found:
        return "none"
    c = found[0]
    return (f"{c['at_tokens']:,} tokens: {number(c['before_tokens_per_s'])} -> "
            f"{number(c['after_tokens_per_s'])} tok/s; {c['cause']}")


def bound(report, phase):
    b = report["bottleneck"][phase]
    return f"{b['resource']} {100 * b['share']:.0f} %"


def s1(r):
    positions = [0, 4000, 4500, 5000, 7000]
    stated = [25, 20, 10, 6, 3]
    written = r.speeds("s1-as-written", positions)
    ahead = r.speeds("s1-as-written", positions, "--set", "kv.prefetch=true")
    lru = r.speeds("s1-as-written", positions, "--set", "kv.evict=lru")
    mistral = r.speeds("s1-mistral", positions)
    rows = [[f"{p:,}", s, number(a), number(b), number(c), number(d)]
            for p, s, a, b, c, d in zip(positions, stated, written, ahead, lru, mistral)]
    report = r.report("s1-as-written", "--no-advice")
    real = r.report("s1-mistral", "--no-advice")
    ttft = report["ttft"]
    starts = [[name, number(ttft[name]["total_s"]),
               *(number(1e3 * ttft[name]["breakdown_s"][k])
                 for k in ("load", "tokenize", "transfer", "prefill", "sample"))]
              for name in ("resident", "warm", "cold")]
    return f"""## S1: the guided scenario (Mistral 7B, 8 GB VRAM, 32 GB RAM, PCI-E 16 GB/s, SSD 500 MB/s)

`examples/s1-as-written.toml`, `examples/s1-mistral.toml`

Tokens per second by tokens in the cache:

{table(["tokens", "document", "as written", "... read ahead", "... LRU", "Mistral 7B v0.3 Q4_K_M"], rows)}

Time to first token as written (the document: 0.5 s warm):

{table(["start", "total s", "load ms", "tokenize ms", "transfer ms", "prefill ms", "sample ms"], starts)}

- Cliff as written: {cliff_text(report)}.
- Cliff with Mistral: {cliff_text(real)}.

**Where it agrees.** The shape: a slow decline while the cache grows in VRAM, a knee when 95 % of it
is full, then a fall by a factor of nine, earlier than the document's: beside cache and weights the
engine holds what a prompt's products are written out to and the blocks of its longest step. With the
weights in VRAM, the first token of a 512-token prompt takes about what the document says.

**Where it does not.** The text cannot be about Mistral 7B: with 8 KV heads a cached token takes
131,072 bytes, so after the Q4_K_M weights the card has room for nearly 20,000 tokens, not 4,000.
The figures fit full multi-head attention (32 KV heads, 524,288 bytes a token) with 6-bit weights,
which is the shape of Llama 2 7B. Its decline from 25 to 20 over 4,000 tokens is 2.1 GB more to read
in 10 ms, 210 GB/s: a card of about 224 GB/s. From 4,000 to 7,000 tokens it loses 283 ms for 1.57 GB
of cold blocks: 5.5 GB/s, a third of the link it names. Pinned copies one after the other reach
about 11 GB/s here and so end at a higher speed; pageable ones reach 6. "Compressed" blocks would
cross in less than a third of the time, and reading ahead hides the first of them. LRU
eviction, which the document's diagram mentions, would be the worst choice: attention reads every
block in order for every token, so the block that was used longest ago is always the one needed next,
and nothing stays. "TTFT is CPU/SSD latency" holds only for a cold start.
"""


def s2(r):
    report = r.report("s2-diagnosis")
    rows = [[a["change"], number(a["tokens_per_s"]), number(a["ttft_s"]), f"{100 * a['gain']:.0f} %"]
            for a in report["advice"]]
    return f"""## S2: the checkpoint ("TTFT 0.5 s, then 20 to 3 tokens per second: why?")

`examples/s2-diagnosis.toml`

- Prefill is bound by {bound(report, "prefill")}, decode by {bound(report, "decode")} on average.
- Cliff: {cliff_text(report)}.
- The best of the alternatives that were simulated:

{table(["change", "tok/s", "TTFT s", "request faster by"], rows)}

The document's answer (KV offloading over PCI-E) is right. Its first remedy, a 4-bit model, helps for
two reasons: less to read for every token, and more room before the first block leaves VRAM.
"""


def front(plan):
    rows = []
    for c in sorted(plan["choices"], key=lambda c: c["quality"]["loss_nats"]):
        if c["on_front"]:
            rows.append([("**best** " if c is plan["choices"][0] else "") + c["what"],
                         f"{c['quality']['loss_nats']:.3f}",
                         number(c["report"]["decode"]["tokens_per_s"]), f"{c['request_s']:.1f}"])
    return table(["way", "loss, nats", "tok/s", "request s"], rows)


def s3(r):
    mixes = ["F16", "Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0", "Q3_K_M", "Q2_K"]
    rows = []
    full = r.size_gb("mistral-7b-v0.3", "F16")
    for mix in mixes:
        report = r.report("s3-f16", "--no-advice", "--quant", mix)
        size = r.size_gb("mistral-7b-v0.3", mix)
        rows.append([mix, f"{size:.2f}", f"{100 * (1 - size / full):.1f} %",
                     report["scenario"]["placement"]["gpu_layers"],
                     number(report["decode"]["tokens_per_s"]),
                     number(report["ttft"]["warm"]["total_s"])])
    return f"""## S3: quantize before you offload

`examples/s3-f16.toml`, `examples/s3-q4-k-m.toml`: Mistral 7B v0.3 on the 8 GB rig, llama.cpp, as many
layers on the GPU as fit (33 is all, with the output head).

{table(["mix", "tensors GB", "saved", "GPU layers", "tok/s", "TTFT warm s"], rows)}

The document states 14 GB to 4.4 GB, "68.5 % saved". The sizes are right to its rounding
(14.5 GB to 4.37 GB is 69.8 %; 68.5 % is 14 to 4.41). The rule holds, and as a result: the mix that
fits entirely is several times faster than a larger one of which part runs on the CPU.

`rigcast plan` of the same request (512 + 256 tokens, caches of F16), where no rule says it:

{front(r.plan("--kv", "vram", "--kv-type", "f16"))}
"""


def s4(r):
    commands = r.plan()["choices"][0]["commands"]
    return f"""## S4: what other programs are told

The best way for the 8 GB rig as each program takes it; `plan --emit` writes the same, and a test
holds every flag against lists of what the programs have (`runtimes/options/`).

```
{commands["llama-server"]}
{chr(10).join(commands["llama-bench"])}
```
```
{commands["ollama"].rstrip()}
```

Only what a program can be told is searched for it: Ollama has no flag for experts, FFNs or a cache in
RAM. vLLM and TGI, which keep all weights in VRAM, have no profile yet.
"""


def s5(r):
    rows = []
    for layers in (0, 8, 16, 20, 24, 28, 30, 31, 32, 33):
        report = r.report("s5-layer-split", "--no-advice", "--gpu-layers", str(layers))
        rows.append([layers, number(report["decode"]["tokens_per_s"]),
                     number(report["ttft"]["resident"]["total_s"]),
                     bound(report, "decode"), bound(report, "prefill")])
    splits = []
    for gib in (8, 5, 4, 3, 2):
        best = r.plan("--quant", "Q4_K_M", "--kv", "vram", "--kv-type", "f16", "--vram-limit",
                      f"{gib}GiB")["choices"][0]
        splits.append([f"{gib} GiB", best["what"],
                       number(best["report"]["decode"]["tokens_per_s"]),
                       f"{best['request_s']:.1f}"])
    return f"""## S5: layer splitting

`examples/s5-layer-split.toml`: Mistral 7B v0.3 Q4_K_M, the last N of 32 layers on the GPU, 33 with
the output head.

{table(["GPU layers", "tok/s", "TTFT resident s", "decode bound by", "prefill bound by"], rows)}

Time adds up, speed does not: a token takes the GPU layers' time plus the CPU layers' time, so speed
is a harmonic mean and most of the gain comes with the last few layers. The document calls the lower
layers compute-heavy and the upper ones memory-intensive; in a transformer all blocks are alike, and
which ones go first makes no difference to a forecast.

The best split that `rigcast plan` finds as VRAM gets smaller:

{table(["VRAM", "way", "tok/s", "request s"], splits)}

With a short cache whole layers in RAM cost less than FFNs alone, of which each crosses to the CPU and
back; with a long one it is the other way round, and the plan names the prompt length where it turns.
"""


def s6(r):
    rows = []
    for prompt in (8, 16, 32, 64, 128, 256, 512, 1024, 2048):
        report = r.report("s6-compute-bound", "--no-advice", "--prompt-tokens", str(prompt),
                          "--output-tokens", "16")
        rows.append([prompt, f"{1e3 * report['ttft']['resident']['total_s']:.1f}",
                     f"{report['prefill_tokens_per_s']:,.0f}", bound(report, "prefill")])
    return f"""## S6: when FLOPS matter

`examples/s6-compute-bound.toml`: Mistral 7B v0.3 F16 on an RTX 4090, weights resident.

{table(["prompt tokens", "TTFT ms", "prefill tok/s", "bound by"], rows)}

The appendix says that prefill is bound by memory bandwidth 95 % of the time. With weights in VRAM it
is bound by compute from some tens of tokens on: one reading of the weights serves the whole ubatch.
The later version's key takeaway contradicts the earlier one's ("prefill is compute-bound"); the
earlier one is right. Bandwidth binds prefill when the prompt is short, or when the weights cross
PCI-E for every ubatch.
"""


def s7(r):
    positions = [512, 2000, 4200, 8000, 12000]
    q4 = r.speeds("s7-clinic", positions)
    f16 = r.speeds("s7-clinic", positions, "--set", "kv.cold_type=f16")
    ahead = r.speeds("s7-clinic", positions, "--set", "kv.prefetch=true")
    big = r.speeds("s7-clinic", positions, "--set", "kv.block_tokens=512")
    rows = [[f"{p:,}", number(a), number(b), number(c), number(d)]
            for p, a, b, c, d in zip(positions, q4, f16, ahead, big)]
    return f"""## S7: a 12,000-token history on 8 GB

`examples/s7-clinic.toml`: Mistral 7B, little more than the last 512 tokens in VRAM, older KV in RAM.

{table(["tokens", "q4_0 cold", "F16 cold", "q4_0, read ahead", "q4_0, blocks of 512"], rows)}

The document reports a stable 8 tok/s at 12,000 tokens after the fix. The forecast for 4-bit cold
blocks, read when needed, is higher; F16 blocks would be below. Between the two lies a link that
is not pinned. Its crash at 4,200 tokens cannot come from this model's cache, which
takes 0.55 GB there. Core isolation and NUMA placement are not in the model yet.
"""


def s10(r):
    rows = []
    for layers in (0, 8, 16, 24, 32):
        row = [layers]
        for mix in ("F16", "Q4_K_M"):
            report = r.report("s10-weight-offload", "--no-advice", "--gpu-layers", str(layers),
                              "--quant", mix)
            tps = report["decode"]["tokens_per_s"]
            row += ([f"{1e3 / tps:.0f}", bound(report, "decode")] if report["fits"]
                    else ["does not fit", ""])
        rows.append(row)
    ways = []
    for mix in ("F16", "Q8_0", None):
        best = r.plan("--runtime", "rigcast", *(["--quant", mix] if mix else []))["choices"][0]
        ways.append([mix or "any", best["what"], number(best["report"]["decode"]["tokens_per_s"]),
                     f"{best['request_s']:.1f}"])
    return f"""## S10: weights over PCI-E for every token

`examples/s10-weight-offload.toml`: Mistral 7B v0.3, N of 32 layers resident, the others streamed.

{table(["resident layers", "F16 ms per token", "bound by", "Q4_K_M ms per token", "bound by"], rows)}

The document says that weight offload costs 200 to 500 ms a token. That is right for a 4-bit model on
this link; F16 takes two to three times as long, since 436 MB a layer cross at 11 GB/s. Either way the
CPU, which reads the same layers from RAM, is faster (S5).

`rigcast plan --runtime rigcast` of the same request, where weights may be streamed, computed by the
CPU, or quantised:

{table(["mix", "best way", "tok/s", "request s"], ways)}
"""


def s11(r):
    cases = [("32K, GPU, dynamic", "s11-gpu-dynamic", "45.00"),
             ("32K, GPU, offloaded", "s11-gpu-offloaded", "29.06"),
             ("32K, decode on the CPU", "s11-cpu-decode", "4.15"),
             ("64K, GPU, dynamic", "s11-gpu-64k", "out of memory"),
             ("64K, CPU", "s11-cpu-64k", "1.85")]
    rows = []
    for label, example, stated in cases:
        report = r.report(example, "--no-advice")
        gpu = next((m for m in report["memory"] if m["tier"] == "vram"), None)
        speed = number(report["decode"]["tokens_per_s"]) if report["fits"] else "does not fit"
        rows.append([label, stated, speed, f"{gpu['total'] / 2**30:.1f}" if gpu else "-"])
    lengths = []
    for tokens, stated in ((4000, "21.39"), (16000, "12.54"), (32000, "5.49")):
        one = ("--no-advice", "--prompt-tokens", str(tokens))
        gpu = r.report("s11-gpu-dynamic", *one)
        cpu = r.report("s11-cpu-decode", *one)
        g, c = gpu["decode"]["tokens_per_s"], cpu["decode"]["tokens_per_s"]
        lengths.append([f"{tokens:,}", stated, number(g), number(c), f"{c / g:.2f}"])
    return f"""## S11: decode on the CPU (Llama 3.2 1B, RTX 6000, Hugging Face transformers)

`examples/s11-*.toml`

{table(["case", "table 1 tok/s", "forecast tok/s", "forecast VRAM GiB"], rows)}

{table(["tokens", "section 5.1 tok/s", "GPU forecast", "CPU decode forecast", "CPU / GPU"], lengths)}

The document contradicts itself: section 5.1 has 5.49 tok/s and more than 18 GB at 32K, table 1 has
45.00 tok/s and 2.5 GB for the same case. 2.5 GB are the weights alone; a 32K cache of this model
takes 1 GiB more, and the logits of the whole prompt, which this runtime computed, 16 GB. So table 1's
memory cannot be of a 32K context, while section 5.1's can. The forecast reproduces what the mechanism
allows: the cache is written out again for every token and once for every query head, logits decide
what fits (64K does not), an offloaded cache is bound by PCI-E, and the CPU reaches a tenth to a fifth
of the GPU.

What it does not reproduce: the document's ratio grows with the context (0.1 to 0.3), the forecast's
falls towards the ratio of the two memory bandwidths as the cache comes to dominate. A growing ratio
needs a fixed cost that is larger on the CPU than on the GPU; nothing in the document says what it
would be. Its GPU figures at short contexts are less than half of the forecast's, which points to more
host time for each launch than is assumed here.
"""


def s12(r):
    rows = []
    for model in ("llama-2-7b", "llama-3.1-8b", "falcon-7b", "deepseek-v2-lite", "gemma-3-12b"):
        command = [r.program, "inspect", model, "--format", "json"]
        facts = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)
        rows.append([facts["name"], f"{facts['heads']} / {facts['kv_heads']}",
                     f"{facts['kv_bytes_per_token']:,.0f}"])
    flash = []
    for state in ("on", "off"):
        report = r.report("s12-terms", "--no-advice", "--flash-attn", state)
        gpu = next(m for m in report["memory"] if m["tier"] == "vram")
        flash.append([state, number(report["ttft"]["resident"]["total_s"]),
                      number(report["decode"]["tokens_per_s"]),
                      f"{gpu['activations'] / 2**20:,.0f}"])
    load = []
    for runtime in ("llama.cpp", "rigcast"):
        report = r.report("s12-terms", "--no-advice", "--runtime", runtime)
        load.append([runtime, *(number(report["ttft"][k]["total_s"])
                                for k in ("resident", "warm", "cold"))])
    return f"""## S12: the outline's terms

KV bytes of one cached token, F16, by attention kind:

{table(["model", "heads / KV heads", "bytes a token"], rows)}

Flash attention (`examples/s12-terms.toml`, 4,096-token prompt):

{table(["flash attention", "TTFT resident s", "tok/s", "compute buffer MiB"], flash)}

Cold start without overlap (llama.cpp, mapped file) and as a pipeline (rigcast), seconds to the first
token:

{table(["runtime", "resident", "warm", "cold"], load)}

Tokenization is a term of every TTFT; continuous batching waits for several users to be simulated.
"""


def document(r):
    parts = ["""# Scenarios: the source documents beside the forecast

Generated by `scripts/scenarios_doc.py`; do not edit. Forecasts rest on data-sheet figures and, for
llama.cpp, on a fit to public runs of other machines (`docs/accuracy.md`); the other runtimes' figures
are assumptions. Mechanisms and shapes are what to compare. No constant was bent to meet a sentence.
"""]
    parts += [section(r) for section in (s1, s2, s3, s4, s5, s6, s7, s10, s11, s12)]
    parts.append("""## Not yet

S8 (several users, queueing, peer to peer) and S9 (page cache and swap under pressure over hours) are
not simulated yet: `--users` above 1 is refused, and RAM that does not suffice is an answer, not a
slow-down.
""")
    return "\n".join(parts)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--program", default="build/release/rigcast")
    arguments.add_argument("--check", action="store_true")
    options = arguments.parse_args()
    text = document(Rigcast(str((ROOT / options.program).resolve())))
    target = ROOT / "docs" / "scenarios.md"
    if not options.check:
        target.write_text(text)
    elif target.read_text() != text:
        sys.exit("docs/scenarios.md is out of date: run scripts/scenarios_doc.py")


if __name__ == "__main__":
    main()
