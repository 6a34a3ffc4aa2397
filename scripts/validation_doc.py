#!/usr/bin/env python3
"""Writes docs/validation.md, which compares recorded forecasts with the runs that followed, and the
README's summaries of it.

Usage: scripts/validation_doc.py [--build build/release] [--runs DIR] [-o FILE] [--check]
Reads the packed runs of tests/validation/. With --check it writes nothing and
fails if the files are not what it would write.
"""
import argparse
import pathlib
import sys

from validation_runs import MIB, ROOT, RUNS, machines

TARGET = ROOT / "docs" / "validation.md"
README = ROOT / "README.md"
PICTURES = ROOT / "docs" / "pictures"
RESIDENT = {"resident"}
SHARED = {"layer split", "experts in RAM"}
CACHES = {"KV in RAM"}


def percent(share):
    return f"{100 * share:+.1f} %"


def table(header, rows):
    rules = ["---"] + ["---:"] * (len(header) - 1)
    lines = ["| " + " | ".join(header) + " |", "|" + "|".join(rules) + "|"]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def bar_text(bar):
    if bar["metric"].startswith("cliffs"):
        return "2 % of the context, or a block"
    text = f"{100 * bar['allowed_median']:.0f} / {100 * bar['allowed_worst']:.0f} %"
    return text + (", or 100 MiB" if bar["metric"].startswith("memory") else "")


def summary(machine):
    rows = []
    for bar in machine.bars:
        worst = bar["worst"]
        holds = bar["median_holds"] and bar["worst_holds"]
        known = f"{bar['inside']} of {bar['with_interval']}" if bar["with_interval"] else "-"
        rows.append([bar["label"], bar["runs"], f"{100 * bar['median_abs_error']:.1f} %",
                     f"{percent(worst['error'])} ({worst['id']})", bar_text(bar),
                     "holds" if holds else "**missed**", known])
    return table(["", "runs", "median error", "worst", "allowed", "", "inside 80 %"], rows)


def coverage(machine):
    speeds = [b for b in machine.bars if b["metric"] in ("decode.tokens_per_s", "prefill_tokens_per_s")]
    known = sum(b["with_interval"] for b in speeds)
    share = 100 * sum(b["inside"] for b in speeds) / known
    said = "as they should" if 70 <= share <= 90 else "**they should 70 to 90 %**"
    return f"The 80 % intervals of speeds hold {share:.0f} % of {known} measured ones: {said}."


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
    found = [(run["error"], bar["label"], run["id"]) for bar in machine.bars for run in bar["beyond"]]
    found.sort(key=lambda e: -abs(e[0]))
    return table(["the largest errors", "", "error"],
                 [[name, label, percent(e)] for e, label, name in found[:count]])


def activities(machine):
    rows = [[a["activity"], a["runs"], f"{100 * a['share']:.0f} %",
             f"{100 * a['median_abs_error']:.1f} %", percent(a["median_error"]),
             percent(a["worst_error"])] for a in machine.activities if a["share"] >= 0.01]
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

{activities(machine)}
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

Written by `scripts/validation_doc.py` from `tests/validation/`, what `rigcast validate --keep` left and
`--pack` packed: for each configuration the machine as it was probed, the forecast that was on disk before
the run began, when that was, the run and its times by activity; `zcat` shows them, a run a line. An error
is forecast over measured less one. The configurations that figures of the `rigcast` profile were fitted
on are in `tests/validation/fit*` and count nowhere here, nor do those in
`tests/validation/fit-h200-studied`, which were judged before and then looked at. Of these only what a
test or a fit reads is still there; the history has the others, up to e1a8c6c.

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
