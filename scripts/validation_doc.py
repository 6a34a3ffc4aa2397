#!/usr/bin/env python3
"""Writes docs/validation.md, which compares recorded forecasts with the runs that followed, and the
README's summaries of it.

Usage: scripts/validation_doc.py [--build build/release] [--runs DIR] [--output FILE] [--check]
Reads the packed runs of tests/validation/. The README is written with docs/validation.md alone.
"""
import sys

sys.dont_write_bytecode = True
from layout import ROOT, README, arguments, filled, percent, readme_with, table, write
from validation_runs import RUNS, machines

TARGET = ROOT / "docs" / "validation.md"
PICTURES = ROOT / "docs" / "pictures"
MIB = 2**20
COLUMNS = {
    "decode": ("decode, tok/s", 1), "prefill": ("prefill, tok/s", 1), "resident": ("resident, s", 1),
    "warm": ("warm, s", 1), "cold": ("cold, s", 1), "memory": ("memory, MiB", MIB),
    "vram": ("VRAM, MiB", MIB), "ram": ("RAM, MiB", MIB), "cliff": ("falls at, tokens", 1),
    "ttft50": ("TTFT p50, ms", 1e-3), "ttft95": ("TTFT p95, ms", 1e-3),
    "tpot50": ("TPOT p50, ms", 1e-3), "tpot95": ("TPOT p95, ms", 1e-3), "served": ("requests/s", 1),
    "disk": ("from the disk, MB a token", 1e6), "swap": ("from swap, MB a token", 1e6),
}
REGIMES = [
    ("All on the GPU", {"resident"}, ["decode", "prefill", "warm", "cold", "vram", "ram"]),
    ("Layers and experts shared with the host", {"layer split", "experts in RAM"},
     ["decode", "prefill", "cold", "vram", "ram"]),
    ("KV cache not all in VRAM", {"KV in RAM"}, ["decode", "prefill", "cliff", "vram", "ram"])]
ALONE = ["decode", "prefill", "resident", "warm", "cold", "memory"]
PRESSED = ["decode", "disk", "swap"]
LOADS = ["ttft50", "ttft95", "tpot50", "tpot95", "served", "vram", "ram"]


def bar_text(bar):
    if bar["metric"].startswith("cliffs"):
        return "2 % of the context, or a block"
    if bar["allowed_inside"] is not None:
        return f"{100 * bar['allowed_inside']:.0f} % inside"
    worst = "" if bar["allowed_worst"] is None else f" / {100 * bar['allowed_worst']:.0f}"
    text = f"{100 * bar['allowed_median']:.0f}{worst} %"
    return text + (", or 100 MiB" if bar["metric"].startswith("memory") else "")


def summary(machine):
    rows = []
    for bar in machine.judged["bars"]:
        worst = bar["worst"]
        holds = bar["median_holds"] and bar["worst_holds"] and bar["inside_holds"]
        known = f"{bar['inside']} of {bar['with_interval']}" if bar["with_interval"] else "-"
        rows.append([bar["label"], bar["runs"], percent(bar["median_abs_error"]),
                     f"{percent(worst['error'], '+')} ({worst['id']})", bar_text(bar),
                     "holds" if holds else "**missed**", known])
    return table(["", "runs", "median error", "worst", "allowed", "", "inside 80 %"], rows)


def coverage(machine):
    speeds = machine.judged["speed_intervals"]
    share = 100 * speeds["share"]
    said = "70 to 90 % is accepted" if 70 <= share <= 90 else "**they should hold 70 to 90 %**"
    return (f"The 80 % intervals of speeds hold {share:.0f} % of {speeds['with_interval']} measured "
            f"ones ({said}).")


def number(value):
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def cell(run, key):
    if key not in run.figures:
        return "-"
    figure, scale = run.figures[key], COLUMNS[key][1]
    return (f"{number(figure['predicted'] / scale)} / {number(figure['measured'] / scale)} "
            f"{percent(figure['error'], '+')}")


def all_runs(runs, columns):
    return table(["forecast / measured"] + [COLUMNS[c][0] for c in columns],
                 [[r.name] + [cell(r, c) for c in columns] for r in runs])


def by_regime(machine):
    alone = [r for r in machine.counted if not r.is_load]
    found = [(heading, [r for r in alone if r.regime in regimes], columns)
             for heading, regimes, columns in REGIMES]
    found.append(("Several users", [r for r in machine.counted if r.is_load], LOADS))
    return "\n\n".join(f"### {heading}\n\n{all_runs(runs, columns)}"
                       for heading, runs, columns in found if runs)


def largest(machine):
    return table(["the largest errors", "", "error"],
                 [[e["id"], e["label"], percent(e["error"], "+")]
                  for e in machine.judged["largest_errors"]])


def activities(machine):
    rows = [[a["activity"], a["runs"], f"{100 * a['share']:.0f} %", percent(a["median_abs_error"]),
             percent(a["median_error"], "+"), percent(a["worst_error"], "+")]
            for a in machine.judged["activity_summary"] if a["share"] >= 0.01]
    return table(["", "runs", "of its phase", "median error", "middle", "worst"], rows)


def subject(machine):
    kinds = {r.kind for r in machine.runs}
    of = {"loads": ", several users", "pressed": ", short of memory"}
    return place(machine) + (of.get(kinds.pop(), "") if len(kinds) == 1 else "")


def place(machine):
    rig = machine.rigs[0]
    cpu = f"{rig['cpu_name']}, {rig['cpu_cores']} cores, {rig['cpu_simd']}"
    return ", ".join([g["name"] for g in rig.get("gpu_measured", [])] + [cpu])


def span(rates):
    values = [float(r["value"].split()[0]) for r in rates]
    return " to ".join(dict.fromkeys(f"{v:.0f}" for v in (min(values), max(values))))


def machine_text(machine):
    times = machine.times
    first = min(t["forecast_written"] for t in times)
    last = max(t["run_started"] for t in times)
    changed = [t["run"] for t in times if float(t["machine_changed"]) > 0.1]
    again = sum(int(t["tries"]) > 1 for t in times)
    versions = ", ".join(sorted({t["rigcast"] for t in times}))
    gpu = ""
    if machine.has_gpu:
        tables = [r["gpu_measured"][0] for r in machine.rigs]
        gpu = (f"VRAM reads {span([t['vram_bandwidth'] for t in tables])} GB/s, the link to the GPU "
               f"carries {span([t['pcie_h2d'] for t in tables])} GB/s, ")
    memory, products = (span([r[key] for r in machine.rigs]) for key in ("ram_bandwidth", "cpu_int8"))
    text = f"""{place(machine)}; as probed between the runs: {gpu}memory
{memory} GB/s, 8-bit products {products} GFLOP/s. rigcast {versions}, {first} to {last}.
{again} of {len(times)} configurations were run more than once, because memory or cores had changed by more
than a tenth from before the run to after it."""
    return text + (f"\nAt the last try they still had in: {', '.join(changed)}." if changed else "")


def on_cpu(machine):
    columns = {"alone": ALONE, "loads": LOADS[:-2] + ["memory"], "pressed": PRESSED}
    return [([r for r in machine.counted if r.kind == kind], columns[kind]) for kind in columns]


def section(machine):
    runs = "Every configuration, with the forecast that was written before it was run:"
    if machine.has_gpu:
        found = sorted(PICTURES.glob(f"{machine.name}-*.svg"))
        pictures = [f"![{p.stem}](pictures/{p.name})" for p in found]
        middle = [coverage(machine), largest(machine), *pictures, runs, by_regime(machine)]
    else:
        middle = [runs] + [all_runs(some, columns) for some, columns in on_cpu(machine) if some]
    traced = ["By activity, from a traced run of each:", activities(machine)]
    return "\n\n".join([f"## {machine.name}", machine_text(machine), summary(machine), *middle,
                        *(traced if machine.judged["activity_summary"] else [])]) + "\n"


def main():
    options = arguments(__doc__, runs=RUNS, output=TARGET)
    found = machines(options.build / "rigcast", options.runs)
    sections = "\n".join(section(m) for m in found)
    documents = {options.output: filled("validation.md", {"machines": sections})}
    if options.output == TARGET:
        documents[README] = readme_with(
            "validation", "\n".join(f"{subject(m)}:\n\n{summary(m)}\n" for m in found))
    write(documents, options.check, "scripts/validation_doc.py")


if __name__ == "__main__":
    main()
