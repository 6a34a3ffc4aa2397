#!/usr/bin/env python3
"""Writes docs/scenarios.md: statements of the source documents, compared with rigcast's forecasts.

Usage: scripts/scenarios_doc.py [--build build/release] [--check]
The text is scripts/templates/scenarios.md; here are the tables that it names.
"""
import gzip
import json
import sys

sys.dont_write_bytecode = True
from layout import ROOT, arguments, filled, json_of, table, write

LEFT = ()  # no column is aligned to the right
# Runs of --suite transformers, as `rigcast validate --pack` writes them.
TRANSFORMERS = ROOT / "tests" / "validation" / "transformers.jsonl.gz"


class Rigcast:
    def __init__(self, program):
        self.program = program

    def json(self, *words):
        return json_of(self.program, *words, "--format", "json")

    def report(self, example, *flags):
        return self.json("simulate", f"examples/{example}.toml", *flags)

    def speeds(self, example, positions, *flags):
        report = self.report(example, "--no-advice", "--positions", ",".join(map(str, positions)),
                             *flags)
        return [p["tokens_per_s"] for p in report["decode"]["by_position"]]

    def plan(self, *flags):
        return self.json("plan", "--rig", "handbook-8gb", "--model", "mistral-7b-v0.3",
                         "--prompt-tokens", "512", "--output-tokens", "256", "--context", "4096",
                         "--start", "resident", *flags)

    def size_gb(self, model, quant):
        return self.json("inspect", model, "--quant", quant)["tensor_bytes"] / 1e9


def number(value):
    if value is None:
        return "-"
    if value >= 99.5:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.95 else f"{value:.2f}"


def cliff_text(report):
    found = [c for c in report["cliffs"] if c["axis"] == "position"]
    if not found:
        return "none"
    c = found[0]
    until = c["until_tokens"]
    where = f"from {c['at_tokens']:,} to {until:,}" if until else f"at {c['at_tokens']:,}"
    return (f"{where} tokens: {number(c['before_tokens_per_s'])} -> "
            f"{number(c['after_tokens_per_s'])} tok/s; {c['cause']}")


def bound(report, phase):
    b = report["bottleneck"][phase]
    return f"{b['resource']} {100 * b['share']:.0f} %"


def decode(report):
    return number(report["decode"]["tokens_per_s"])


def ttft(report, start="resident"):
    return number(report["ttft"][start]["total_s"])


def vram(report):
    return next((m for m in report["memory"] if m["tier"] == "vram"), None)


def best_way(choice):
    return [choice["what"], decode(choice["report"]), f"{choice['request_s']:.1f}"]


def s1(r):
    positions = [0, 4000, 4500, 5000, 7000]
    stated = [25, 20, 10, 6, 3]
    columns = [r.speeds("s1-as-written", positions),
               r.speeds("s1-as-written", positions, "--set", "kv.prefetch=true"),
               r.speeds("s1-as-written", positions, "--set", "kv.evict=lru"),
               r.speeds("s1-mistral", positions)]
    rows = [[f"{p:,}", s, *map(number, own)] for p, s, *own in zip(positions, stated, *columns)]
    report = r.report("s1-as-written", "--no-advice")
    parts = ("load", "tokenize", "transfer", "prefill", "sample")
    starts = [[name, ttft(report, name),
               *(number(1e3 * report["ttft"][name]["breakdown_s"][part]) for part in parts)]
              for name in ("resident", "warm", "cold")]
    return {"s1_speeds": table(["tokens", "document", "as written", "... read ahead", "... LRU",
                                "Mistral 7B v0.3 Q4_K_M"], rows, LEFT),
            "s1_starts": table(["start", "total s", *(f"{part} ms" for part in parts)], starts,
                               LEFT),
            "s1_cliff": cliff_text(report),
            "s1_cliff_mistral": cliff_text(r.report("s1-mistral", "--no-advice"))}


def s2(r):
    report = r.report("s2-diagnosis")
    rows = [[a["change"], number(a["tokens_per_s"]), number(a["ttft_s"]), f"{100 * a['gain']:.0f} %",
             f"{a['loss_nats']:.3f}" if a["loss_nats"] is not None else "-"]
            for a in report["advice"]]
    return {"s2_prefill_bound": bound(report, "prefill"), "s2_decode_bound": bound(report, "decode"),
            "s2_cliff": cliff_text(report),
            "s2_advice": table(["change", "tok/s", "TTFT s", "request faster by", "loses nats"], rows, LEFT)}


def front(plan):
    rows = []
    for c in sorted(plan["choices"], key=lambda c: c["quality"]["loss_nats"]):
        if c["on_front"]:
            what, speed, request = best_way(c)
            mark = "**best** " if c is plan["choices"][0] else ""
            rows.append([mark + what, f"{c['quality']['loss_nats']:.3f}", speed, request])
    return table(["way", "loss, nats", "tok/s", "request s"], rows, LEFT)


def s3(r):
    rows = []
    full = r.size_gb("mistral-7b-v0.3", "F16")
    for mix in ("F16", "Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0", "Q3_K_M", "Q2_K"):
        report = r.report("s3-f16", "--no-advice", "--quant", mix)
        size = r.size_gb("mistral-7b-v0.3", mix)
        rows.append([mix, f"{size:.2f}", f"{100 * (1 - size / full):.1f} %",
                     report["scenario"]["placement"]["gpu_layers"], decode(report),
                     ttft(report, "warm")])
    return {"s3_mixes": table(["mix", "tensors GB", "saved", "GPU layers", "tok/s", "TTFT warm s"],
                              rows, LEFT),
            "s3_plan": front(r.plan("--kv", "vram", "--kv-type", "f16"))}


def s4(r):
    commands = r.plan()["choices"][0]["commands"]
    return {"s4_llama_server": commands["llama-server"],
            "s4_llama_bench": "\n".join(commands["llama-bench"]),
            "s4_ollama": commands["ollama"].rstrip()}


def s5(r):
    rows = []
    for layers in (0, 8, 16, 20, 24, 28, 30, 31, 32, 33):
        report = r.report("s5-layer-split", "--no-advice", "--gpu-layers", str(layers))
        rows.append([layers, decode(report), ttft(report), bound(report, "decode"),
                     bound(report, "prefill")])
    splits = [[f"{gib} GiB", *best_way(r.plan("--quant", "Q4_K_M", "--kv", "vram", "--kv-type",
                                              "f16", "--vram-limit", f"{gib}GiB")["choices"][0])]
              for gib in (8, 5, 4, 3, 2)]
    return {"s5_layers": table(["GPU layers", "tok/s", "TTFT resident s", "decode bound by",
                                "prefill bound by"], rows, LEFT),
            "s5_splits": table(["VRAM", "way", "tok/s", "request s"], splits, LEFT)}


def s6(r):
    rows = []
    for prompt in (8, 16, 32, 64, 128, 256, 512, 1024, 2048):
        report = r.report("s6-compute-bound", "--no-advice", "--prompt-tokens", str(prompt),
                          "--output-tokens", "16")
        rows.append([prompt, f"{1e3 * report['ttft']['resident']['total_s']:.1f}",
                     f"{report['prefill_tokens_per_s']:,.0f}", bound(report, "prefill")])
    return {"s6_prompts": table(["prompt tokens", "TTFT ms", "prefill tok/s", "bound by"], rows,
                                LEFT)}


def s7(r):
    positions = [512, 2000, 4200, 8000, 12000]
    changes = [(), ("--set", "kv.cold_type=f16"), ("--set", "kv.prefetch=true"),
               ("--set", "kv.block_tokens=512")]
    columns = [r.speeds("s7-clinic", positions, *change) for change in changes]
    rows = [[f"{p:,}", *map(number, own)] for p, *own in zip(positions, *columns)]
    beside = [("none", ()), *((f"{n}", (f"runtime.neighbours={n}",)) for n in (1, 2, 4)),
              ("2, with isolated cores", ("runtime.neighbours=2", "runtime.isolated=true",
                                          "runtime.threads=4")),
              ("none, the GPU behind a far node, 34 GB/s between",
               ("rig.gpu_on_far_node=true", "rig.remote_read=34 GB/s"))]
    shared = []
    for name, sets in beside:
        flags = [word for s in sets for word in ("--set", s)]
        shared.append([name, *(number(r.speeds("s7-clinic", [12000], *flags, *more)[0])
                               for more in ((), ("--set", "kv.cold_type=f16")))])
    return {"s7_speeds": table(["tokens", "q4_0 cold", "F16 cold", "q4_0, read ahead",
                                "q4_0, blocks of 512"], rows, LEFT),
            "s7_neighbours": table(["neighbours", "tok/s, q4_0 cold", "tok/s, F16 cold"], shared,
                                   LEFT)}


def s9(r):
    """The hours of case study 3, and what changes them."""
    def cells(example, name, *flags):
        hours = r.report(example, "--no-advice", *flags)["hours"]
        last, first = hours["points"][-1], hours["first_page_s"]
        low, high = last["interval"]
        speed = number(last["tokens_per_s"]) if last["tokens_per_s"] else "none"
        interval = f" ({number(low)} to {number(high)})" if high > 1.001 * low else ""
        return [name, "never" if first is None else f"{first / 3600:.1f} h", speed + interval,
                number(last["disk_bytes_per_step"] / 1e9), number(last["swap_bytes_per_step"] / 1e6),
                f"{hours['tokens']:,.0f}"]

    def change(name, *sets):
        return cells("s9-pressure", name, *(word for s in sets for word in ("--set", s)))
    rows = [cells("s9-as-written", "as written"),
            change("16 GiB of others, swappiness 60"),
            change("swappiness 10", "memory.swappiness=10"),
            change("swappiness 0", "memory.swappiness=0"),
            change("no swap", "memory.swap=0 B"),
            change("KV locked", "memory.lock=kv"),
            change("pages of weights in order", "memory.in_order=true"),
            change("weights locked", "memory.lock=weights"),
            change("swap on zram", "memory.swap_on=zram"),
            change("KV in Q8_0", "kv.type_k=q8_0", "kv.type_v=q8_0"),
            change("10 sessions at once", "memory.max_sessions=10"),
            change("96 GB of RAM", "rig.ram_capacity=96 GiB")]
    return {"s9_hours": table(["", "first page leaves", "tok/s of a session after 6 h",
                               "GB from the disk a step", "MB from swap a step",
                               "tokens of all sessions in 6 h"], rows, LEFT)}


def s10(r):
    def cells(layers, mix):
        report = r.report("s10-weight-offload", "--no-advice", "--gpu-layers", str(layers),
                          "--quant", mix)
        if not report["fits"]:
            return ["does not fit", ""]
        return [f"{1e3 / report['decode']['tokens_per_s']:.0f}", bound(report, "decode")]

    rows = [[layers, *cells(layers, "F16"), *cells(layers, "Q4_K_M")]
            for layers in (0, 8, 16, 24, 32)]
    ways = [[mix or "any", *best_way(r.plan("--runtime", "rigcast", *(["--quant", mix] if mix else [])
                                            )["choices"][0])] for mix in ("F16", "Q8_0", None)]
    return {"s10_layers": table(["resident layers", "F16 ms per token", "bound by",
                                 "Q4_K_M ms per token", "bound by"], rows, LEFT),
            "s10_plans": table(["mix", "best way", "tok/s", "request s"], ways, LEFT)}


class TransformersRuns:
    """Speeds of kept runs of transformers, with the forecast for the machine that ran them."""

    def __init__(self, r, path=TRANSFORMERS):
        self.rows, self.machine, self.versions = {}, None, ""
        if not path.exists():
            return
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            runs = [run for run in map(json.loads, list(lines)[1:]) if run["measured"]]
        self.machine = runs[0]["forecast"]["scenario"]["rig"]["name"]
        self.versions = runs[0]["measured"]["warnings"][0]
        for row in r.json("validate", "--replay", path)["rows"]:
            if row["metric"] == "decode.tokens_per_s":
                self.rows[row["id"]] = [number(row["measured"]), number(row["predicted"])]

    def header(self):
        if not self.machine:
            return ["measured"]
        return [f"measured on another machine, {self.machine}, tok/s", "forecast for that machine"]

    def cells(self, run):
        """Of the run of that name in the suite; None: the suite has none of the case."""
        if not self.machine:
            return ["not measured"]
        return self.rows.get(run, ["not measured", "-"])

    def text(self):
        if not self.machine:
            return ("Transformers itself was not measured yet: `rigcast validate --suite transformers` "
                    "runs it on a machine with\na GPU.")
        ways = ("dynamic", "offloaded", "decode on the CPU")
        rows = [[f"{k}K", *(" / ".join(self.cells(f"{way}, {k}K")) for way in ways)]
                for k in (1, 2, 4, 8, 16, 32)]
        return (f"Transformers itself was measured on another machine than the tables' RTX 6000:\n"
                f"{self.machine} ({self.versions};\n`examples/suites/transformers.toml`). Tokens "
                f"per second, measured / forecast for that machine:\n\n"
                + table(["prompt", *ways], rows, LEFT))


def s11(r):
    cases = [("32K, GPU, dynamic", "s11-gpu-dynamic", "45.00", "dynamic, 32K"),
             ("32K, GPU, offloaded", "s11-gpu-offloaded", "29.06", "offloaded, 32K"),
             ("32K, decode on the CPU", "s11-cpu-decode", "4.15", "decode on the CPU, 32K"),
             ("64K, GPU, dynamic", "s11-gpu-64k", "out of memory", None),
             ("64K, CPU", "s11-cpu-64k", "1.85", None)]
    measured = TransformersRuns(r)
    rows = []
    for label, example, stated, run in cases:
        report = r.report(example, "--no-advice")
        gpu = vram(report)
        rows.append([label, stated, decode(report) if report["fits"] else "does not fit",
                     f"{gpu['total'] / 2**30:.1f}" if gpu else "-", *measured.cells(run)])
    lengths = []
    for tokens, stated in ((4000, "21.39"), (16000, "12.54"), (32000, "5.49")):
        gpu, cpu = (r.report(example, "--no-advice", "--prompt-tokens", str(tokens))
                    for example in ("s11-gpu-dynamic", "s11-cpu-decode"))
        ratio = cpu["decode"]["tokens_per_s"] / gpu["decode"]["tokens_per_s"]
        lengths.append([f"{tokens:,}", stated, decode(gpu), decode(cpu), f"{ratio:.2f}"])
    return {"s11_cases": table(["case", "table 1 tok/s", "forecast tok/s", "forecast VRAM GiB",
                                *measured.header()], rows, LEFT),
            "s11_measured": measured.text(),
            "s11_lengths": table(["tokens", "section 5.1 tok/s", "GPU forecast",
                                  "CPU decode forecast", "CPU / GPU"], lengths, LEFT)}


def s8(r):
    rows = []
    for example, cache in (("s8-vram", "VRAM"), ("s8-as-written", "RAM")):
        alone = None
        for users in (2, 14):
            serving = r.report(example, "--no-advice", "--users", str(users))["serving"]
            tokens = serving["throughput"]["output_tokens_per_s"]
            alone = alone or tokens
            ttft, tpot = serving["ttft_s"], serving["tpot_s"]
            rows.append([cache, users, number(1e3 * ttft["p50"]), number(1e3 * tpot["p50"]),
                         number(1 / tpot["p50"]), number(tokens), f"{tokens / alone:.1f}"])
    return {"s8_users": table(["KV cache", "users", "TTFT ms", "TPOT ms", "tok/s of a user",
                               "tok/s of all", "times 2 users"], rows, LEFT)}


def s12(r):
    rows = []
    for model in ("llama-2-7b", "llama-3.1-8b", "falcon-7b", "deepseek-v2-lite", "gemma-3-12b"):
        facts = r.json("inspect", model)
        rows.append([facts["name"], f"{facts['heads']} / {facts['kv_heads']}",
                     f"{facts['kv_bytes_per_token']:,.0f}"])
    flash = []
    for state in ("on", "off"):
        report = r.report("s12-terms", "--no-advice", "--flash-attn", state)
        flash.append([state, ttft(report), decode(report),
                      f"{vram(report)['activations'] / 2**20:,.0f}"])
    load = []
    for runtime in ("llama.cpp", "rigcast"):
        report = r.report("s12-terms", "--no-advice", "--runtime", runtime)
        load.append([runtime, *(ttft(report, start) for start in ("resident", "warm", "cold"))])
    return {"s12_models": table(["model", "heads / KV heads", "bytes a token"], rows, LEFT),
            "s12_flash": table(["flash attention", "TTFT resident s", "tok/s", "compute buffer MiB"],
                               flash, LEFT),
            "s12_load": table(["runtime", "resident", "warm", "cold"], load, LEFT)}


def main():
    options = arguments(__doc__)
    rigcast, parts = Rigcast(options.build / "rigcast"), {}
    for section in (s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12):
        parts |= section(rigcast)
    write({ROOT / "docs" / "scenarios.md": filled("scenarios.md", parts)}, options.check,
          "scripts/scenarios_doc.py")


if __name__ == "__main__":
    main()
