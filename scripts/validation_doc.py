#!/usr/bin/env python3
"""Writes docs/validation.md, forecasts that were written down and the runs that followed, and the
README's summaries of them.

Usage: scripts/validation_doc.py [--build build/release] [--runs DIR] [-o FILE] [--check]
Reads what `rigcast validate --keep` has left in tests/validation/. With --check it writes nothing and
fails if the files are not what it would write.
"""
import argparse
import pathlib
import statistics
import sys
from collections import defaultdict
from dataclasses import dataclass

from validation_runs import MIB, ROOT, RUNS, machines

TARGET = ROOT / "docs" / "validation.md"
README = ROOT / "README.md"
PICTURES = ROOT / "docs" / "pictures"
MEMORY_ALLOWED = 100 * MIB  # however large a share of a small model
RESIDENT = {"resident"}
SHARED = {"layer split", "experts in RAM"}
CACHES = {"KV in RAM"}


@dataclass
class Figure:
    key: str
    label: str
    median: float  # what the median and the largest error may be
    worst: float
    regimes: set | None = None  # None: all


ON_CPU = [
    Figure("decode", "decode", 0.06, 0.15),
    Figure("resident", "first token, resident", 0.10, 0.25),
    Figure("warm", "first token, warm start", 0.10, 0.25),
    Figure("cold", "first token, cold start", 0.15, 0.30),
    Figure("memory", "peak memory", 0.02, 0.04),
]
ON_GPU = [
    Figure("decode", "resident: decode", 0.06, 0.12, RESIDENT),
    Figure("prefill", "resident: prefill", 0.10, 0.20, RESIDENT),
    Figure("decode", "layers, experts shared with the host: decode", 0.08, 0.20, SHARED),
    Figure("prefill", "layers, experts shared with the host: prefill", 0.12, 0.30, SHARED),
    Figure("decode", "KV cache not all in VRAM: decode", 0.08, 0.20, CACHES),
    Figure("cold", "first token, cold start", 0.15, 0.30),
    Figure("vram", "VRAM", 0.02, 0.04),
    Figure("ram", "RAM", 0.02, 0.04),
    Figure("cliff", "where speed falls", 0.02, 0.02),
]


def figures_of(machine):
    return ON_GPU if machine.has_gpu else ON_CPU


def percent(share):
    return f"{100 * share:+.1f} %"


def table(header, rows):
    rules = ["---"] + ["---:"] * (len(header) - 1)
    lines = ["| " + " | ".join(header) + " |", "|" + "|".join(rules) + "|"]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def error(figure, run):
    """As a share; of a place, of the context."""
    pair = run.pairs[figure.key]
    if figure.key != "cliff":
        return pair.error
    return (pair.predicted - pair.measured) / run.scenario["workload"]["context"]


def within(figure, run, share):
    pair = run.pairs[figure.key]
    off = abs(pair.predicted - pair.measured)
    if figure.key in ("memory", "vram", "ram") and off <= MEMORY_ALLOWED:
        return True
    if figure.key == "cliff" and off <= run.scenario["kv"]["block_tokens"]:
        return True
    return abs(error(figure, run)) <= share


def verdict(figure, runs):
    median = statistics.median(abs(error(figure, r)) for r in runs)
    good = sum(within(figure, r, figure.median) for r in runs)
    median_holds = median <= figure.median or 2 * good > len(runs)
    worst_holds = all(within(figure, r, figure.worst) for r in runs)
    return "holds" if median_holds and worst_holds else "**missed**"


def bar_text(figure):
    if figure.key == "cliff":
        return "2 % of the context, or a block"
    bar = f"{100 * figure.median:.0f} / {100 * figure.worst:.0f} %"
    return bar + (", or 100 MiB" if figure.key in ("memory", "vram", "ram") else "")


def summary(machine):
    rows = []
    for figure in figures_of(machine):
        runs = [r for r in machine.judged if figure.key in r.pairs and
                (figure.regimes is None or r.regime in figure.regimes)]
        if not runs:
            continue
        worst = max(runs, key=lambda r: abs(error(figure, r)))
        known = [r.pairs[figure.key].inside for r in runs
                 if r.pairs[figure.key].inside is not None]
        median = statistics.median(abs(error(figure, r)) for r in runs)
        rows.append([figure.label, len(runs), f"{100 * median:.1f} %",
                     f"{percent(error(figure, worst))} ({worst.name})", bar_text(figure),
                     verdict(figure, runs), f"{sum(known)} of {len(known)}" if known else "-"])
    return table(["", "runs", "median error", "worst", "allowed", "", "inside 80 %"], rows)


def coverage(machine):
    known = [r.pairs[k].inside for r in machine.judged for k in ("decode", "prefill")
             if k in r.pairs and r.pairs[k].inside is not None]
    share = 100 * sum(known) / len(known)
    said = "as they should" if 70 <= share <= 90 else "**they should 70 to 90 %**"
    return f"The 80 % intervals of speeds hold {share:.0f} % of {len(known)} measured ones: {said}."


def number(value):
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def cell(run, key, scale=1.0):
    if key not in run.pairs:
        return "-"
    p = run.pairs[key]
    return f"{number(p.predicted / scale)} / {number(p.measured / scale)} {percent(p.error)}"


COLUMNS = {
    "decode": ("decode, tok/s", 1), "prefill": ("prefill, tok/s", 1), "resident": ("resident, s", 1),
    "warm": ("warm, s", 1), "cold": ("cold, s", 1), "memory": ("memory, MiB", MIB),
    "vram": ("VRAM, MiB", MIB), "ram": ("RAM, MiB", MIB), "cliff": ("falls at, tokens", 1),
}


def all_runs(runs, columns):
    header = ["forecast / measured"] + [COLUMNS[c][0] for c in columns]
    return table(header, [[r.name] + [cell(r, c, COLUMNS[c][1]) for c in columns] for r in runs])


def by_regime(machine):
    parts = [("All on the GPU", RESIDENT, ["decode", "prefill", "warm", "cold", "vram", "ram"]),
             ("Layers and experts shared with the host", SHARED,
              ["decode", "prefill", "cold", "vram", "ram"]),
             ("KV cache not all in VRAM", CACHES, ["decode", "prefill", "cliff", "vram", "ram"])]
    text = []
    for heading, regimes, columns in parts:
        runs = [r for r in machine.judged if r.regime in regimes]
        if runs:
            text.append(f"### {heading}\n\n{all_runs(runs, columns)}")
    return "\n\n".join(text)


def largest(machine, count=5):
    found = [(error(f, r), f.label, r) for f in figures_of(machine) for r in machine.judged
             if f.key in r.pairs and (f.regimes is None or r.regime in f.regimes)
             and not within(f, r, f.median)]
    found.sort(key=lambda e: -abs(e[0]))
    return table(["the largest errors", "", "error"],
                 [[r.name, label, percent(e)] for e, label, r in found[:count]])


def activities(runs):
    errors, shares = defaultdict(list), defaultdict(list)
    for run in runs:
        total = defaultdict(float)
        for a in run.activities:
            total[a["phase"]] += a["measured_s"]
        for a in run.activities:
            if a["predicted_s"] > 0 and a["measured_s"] > 0:
                key = a["phase"], a["kind"]
                errors[key].append(a["predicted_s"] / a["measured_s"] - 1)
                shares[key].append(a["measured_s"] / total[a["phase"]])
    rows = []
    for key, own in errors.items():
        share = statistics.median(shares[key])
        if share < 0.01:
            continue
        rows.append([" ".join(key), len(own), f"{100 * share:.0f} %",
                     f"{100 * statistics.median(map(abs, own)):.1f} %",
                     percent(statistics.median(own)), percent(max(own, key=abs))])
    return table(["", "runs", "of its phase", "median error", "middle", "worst"], rows)


def place(machine):
    rig = machine.rigs[0]
    cpu = f"{rig['cpu_name']}, {rig['cpu_cores']} cores, {rig['cpu_simd']}"
    return ", ".join([g["name"] for g in rig.get("gpu_measured", [])] + [cpu])


def machine_text(machine):
    def span(rates):
        values = [float(r["value"].split()[0]) for r in rates]
        return " to ".join(dict.fromkeys(f"{v:.0f}" for v in (min(values), max(values))))

    of = lambda key: span([r[key] for r in machine.rigs])
    first = min(t["forecast_written"] for t in machine.times)
    last = max(t["run_started"] for t in machine.times)
    changed = [t["run"] for t in machine.times if float(t["machine_changed"]) > 0.1]
    again = sum(int(t["tries"]) > 1 for t in machine.times)
    versions = ", ".join(sorted({t["rigcast"] for t in machine.times}))
    gpu = ""
    if machine.has_gpu:
        tables = [r["gpu_measured"][0] for r in machine.rigs]
        gpu = (f"VRAM reads {span([t['vram_bandwidth'] for t in tables])} GB/s, the link to the GPU "
               f"carries {span([t['pcie_h2d'] for t in tables])} GB/s, ")
    text = f"""{place(machine)}; as probed between the runs: {gpu}memory
{of("ram_bandwidth")} GB/s, 8-bit products {of("cpu_int8")} GFLOP/s. rigcast {versions}, {first} to {last}.
{again} of {len(machine.times)} configurations were run more than once, because memory or cores had changed by more
than a tenth from before the run to after it."""
    if changed:
        text += f"""
At the last try they still had in: {", ".join(changed)}."""
    return text


def pictures(machine):
    found = sorted(PICTURES.glob(f"{machine.name}-*.svg"))
    return "".join(f"![{p.stem}](pictures/{p.name})\n\n" for p in found)


def section(machine):
    if machine.has_gpu:
        middle = f"""{coverage(machine)}

{largest(machine)}

{pictures(machine)}Every configuration, with the forecast that was written before it was run:

{by_regime(machine)}"""
    else:
        columns = ["decode", "prefill", "resident", "warm", "cold", "memory"]
        middle = f"""Every configuration, with the forecast that was written before it was run:

{all_runs(machine.judged, columns)}"""
    return f"""## {machine.name}

{machine_text(machine)}

{summary(machine)}

{middle}

By activity, from a traced run of each:

{activities(machine.judged)}
"""


def readme(found):
    """The README with the machines' summaries between its marks."""
    text = README.read_text()
    begin, end = "<!-- validation -->\n", "<!-- /validation -->"
    head, rest = text.split(begin)
    tail = rest.split(end)[1]
    tables = "\n".join(f"{place(m)}:\n\n{summary(m)}\n" for m in found)
    return f"{head}{begin}{tables}{end}{tail}"


def document(found):
    return f"""# Forecasts, and the runs that followed

Written by `scripts/validation_doc.py` from `tests/validation/`, where `rigcast validate --keep` left
them: for each configuration the machine as it was probed (`NN.rig.toml`), the forecast that was on
disk before the run began (`NN.forecast.json`, times in `times.csv`), the run (`NN.measured.json`) and
its times by activity. An error is forecast over measured less one. The configurations that figures of
the `rigcast` profile were fitted on are in `tests/validation/fit*` and count nowhere here, nor do
those in `tests/validation/fit-h200-studied`, which were judged before and then looked at.

`ctest -R validation` forecasts them anew with the program as it is, and fails where that is off by
more than is allowed.

{chr(10).join(section(m) for m in found)}"""


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--runs", default=str(RUNS), help="folder of machines")
    parser.add_argument("-o", "--output", default=str(TARGET), help="and no README, if it is another")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    found = machines(str(pathlib.Path(options.build) / "rigcast"), options.runs)
    targets = [(pathlib.Path(options.output), document(found))]
    if options.output == str(TARGET):
        targets.append((README, readme(found)))
    for target, text in targets:
        if not options.check:
            target.write_text(text)
        elif target.read_text() != text:
            sys.exit(f"{target} is not what scripts/validation_doc.py writes: run it")


if __name__ == "__main__":
    main()
