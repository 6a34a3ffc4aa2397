#!/usr/bin/env python3
"""Writes docs/validation.md, forecasts that were written down and the runs that followed, and the
README's summary of them.

Usage: scripts/validation_doc.py [--build build/release] [-o FILE] [--check]
Reads what `rigcast validate --keep` has left in tests/validation/*/. With --check it writes nothing
and fails if the file is not what it would write.
"""
import argparse
import csv
import io
import json
import pathlib
import statistics
import subprocess
import sys
import tomllib
from collections import defaultdict
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUNS = ROOT / "tests" / "validation"
TARGET = ROOT / "docs" / "validation.md"
README = ROOT / "README.md"
MIB = 2**20


@dataclass
class Figure:
    key: str
    label: str
    unit: str
    median: float  # what the median and the largest error may be
    worst: float


FIGURES = [
    Figure("decode", "decode", "tok/s", 0.06, 0.15),
    Figure("resident", "first token, resident", "s", 0.10, 0.25),
    Figure("warm", "first token, warm start", "s", 0.10, 0.25),
    Figure("cold", "first token, cold start", "s", 0.15, 0.30),
    Figure("memory", "peak memory", "MiB", 0.02, 0.04),
]
MEMORY_ALLOWED = 100 * MIB  # however large a share of a small model


@dataclass
class Pair:
    predicted: float
    measured: float
    inside: bool | None = None

    @property
    def error(self):
        return self.predicted / self.measured - 1


@dataclass
class Run:
    name: str
    what: str
    counted: bool
    changed: float
    pairs: dict
    activities: list


def load(path):
    return json.loads(path.read_text())


def process_bytes(memory):
    return sum(memory[0][k] for k in ("weights", "kv", "activations", "staging"))


def pairs_of(forecast, measured):
    def pair(find, interval=None):
        try:
            predicted, real = find(forecast), find(measured)
        except (KeyError, TypeError):
            return None
        if not predicted or not real:
            return None
        bounds = forecast["interval"].get(interval) if interval else None
        return Pair(predicted, real, bounds[0] <= real <= bounds[1] if bounds else None)

    found = {
        "decode": pair(lambda r: r["decode"]["tokens_per_s"], "tokens_per_s"),
        "prefill": pair(lambda r: r["prefill_tokens_per_s"], "prefill_tokens_per_s"),
        "resident": pair(lambda r: r["ttft"]["resident"]["total_s"], "ttft_s"),
        "warm": pair(lambda r: r["ttft"]["warm"]["total_s"]),
        "cold": pair(lambda r: r["ttft"]["cold"]["total_s"]),
        "memory": Pair(process_bytes(forecast["memory"]), measured["memory"][0]["total"]),
    }
    return {key: value for key, value in found.items() if value}


def replay(program, folder):
    done = subprocess.run([program, "validate", "--replay", folder, "--format", "csv"], cwd=ROOT,
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{program} validate --replay {folder}: {done.stderr}")
    return list(csv.DictReader(io.StringIO(done.stdout)))


def read_runs(folder, program):
    suite = tomllib.loads((folder / "suite.toml").read_text())["run"]
    with open(folder / "times.csv", newline="") as file:
        times = {row["run"]: row for row in csv.DictReader(file)}
    now = defaultdict(list)
    for row in replay(program, folder):
        now[row["id"]].append(row)
    runs = []
    for i, entry in enumerate(suite, 1):
        name = entry["name"]
        if name not in times:
            continue
        part = lambda what: load(folder / f"{i:02}.{what}.json")
        forecast, measured = part("forecast"), part("measured")
        own = now[name][0]
        runs.append(Run(name, own["what"], own["counted"] == "1",
                        float(times[name]["machine_changed"]), pairs_of(forecast, measured),
                        part("activities")))
    return runs, times


def percent(share):
    return f"{100 * share:+.1f} %"


def table(header, rows):
    rules = ["---"] + ["---:"] * (len(header) - 1)
    lines = ["| " + " | ".join(header) + " |", "|" + "|".join(rules) + "|"]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def within(figure, pair, share):
    if figure.key == "memory" and abs(pair.predicted - pair.measured) <= MEMORY_ALLOWED:
        return True
    return abs(pair.error) <= share


def verdict(figure, pairs):
    median = statistics.median(abs(p.error) for p in pairs)
    good = sum(within(figure, p, figure.median) for p in pairs)
    median_holds = median <= figure.median or 2 * good > len(pairs)
    worst_holds = all(within(figure, p, figure.worst) for p in pairs)
    return "holds" if median_holds and worst_holds else "**missed**"


def summary(runs):
    rows = []
    for figure in FIGURES:
        pairs = [(r, r.pairs[figure.key]) for r in runs if figure.key in r.pairs]
        if not pairs:
            continue
        all_errors = [abs(p.error) for _, p in pairs]
        run, worst = max(pairs, key=lambda rp: abs(rp[1].error))
        known = [p.inside for _, p in pairs if p.inside is not None]
        bar = f"{100 * figure.median:.0f} / {100 * figure.worst:.0f} %"
        if figure.key == "memory":
            bar += ", or 100 MiB"
        rows.append([figure.label, len(pairs), f"{100 * statistics.median(all_errors):.1f} %",
                     f"{percent(worst.error)} ({run.name})", bar,
                     verdict(figure, [p for _, p in pairs]),
                     f"{sum(known)} of {len(known)}" if known else "-"])
    return table(["", "runs", "median error", "worst", "allowed", "", "inside 80 %"], rows)


def number(value):
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def cell(run, key, scale=1.0):
    if key not in run.pairs:
        return "-"
    p = run.pairs[key]
    return f"{number(p.predicted / scale)} / {number(p.measured / scale)} {percent(p.error)}"


def all_runs(runs):
    header = ["forecast / measured", "decode, tok/s", "prefill, tok/s", "resident, s", "warm, s",
              "cold, s", "memory, MiB"]
    rows = [[r.name] + [cell(r, k) for k in ("decode", "prefill", "resident", "warm", "cold")] +
            [cell(r, "memory", MIB)] for r in runs]
    return table(header, rows)


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


def machine(folder, times):
    rig = tomllib.loads((folder / "01.rig.toml").read_text())
    rates = [tomllib.loads(p.read_text()) for p in sorted(folder.glob("*.rig.toml"))]
    span = lambda key: " to ".join(
        dict.fromkeys(f"{v:.0f}" for v in (
            min(float(r[key]["value"].split()[0]) for r in rates),
            max(float(r[key]["value"].split()[0]) for r in rates))))
    first = min(t["forecast_written"] for t in times.values())
    last = max(t["run_started"] for t in times.values())
    changed = [n for n, t in times.items() if float(t["machine_changed"]) > 0.1]
    again = sum(int(t["tries"]) > 1 for t in times.values())
    versions = ", ".join(sorted({t["rigcast"] for t in times.values()}))
    text = f"""{rig["cpu_name"]}, {rig["cpu_cores"]} cores, {rig["cpu_simd"]}; as probed between the runs: memory
{span("ram_bandwidth")} GB/s, 8-bit products {span("cpu_int8")} GFLOP/s. rigcast {versions}, {first} to {last}.
{again} of {len(times)} configurations were run more than once, because memory or cores had changed by more
than a tenth from before the run to after it."""
    if changed:
        text += f"""
At the last try they still had in: {", ".join(changed)}."""
    return text


def section(folder, program):
    runs, times = read_runs(folder, program)
    judged = [r for r in runs if r.counted]
    return f"""## {folder.name}

{machine(folder, times)}

{summary(judged)}

Every configuration, with the forecast that was written before it was run:

{all_runs(judged)}

By activity, from a traced run of each:

{activities(judged)}
"""


def judged_folders():
    return sorted(p.parent for p in RUNS.glob("*/suite.toml") if p.parent.name != "fit")


def readme(program):
    """The README with the newest machine's summary between its marks."""
    folder = judged_folders()[-1]
    runs, _ = read_runs(folder, program)
    rig = tomllib.loads((folder / "01.rig.toml").read_text())
    table_text = summary([r for r in runs if r.counted])
    text = README.read_text()
    begin, end = "<!-- validation -->\n", "<!-- /validation -->"
    head, rest = text.split(begin)
    tail = rest.split(end)[1]
    place = f"{rig['cpu_name']}, {rig['cpu_cores']} cores, {rig['cpu_simd']}"
    return f"{head}{begin}{place}:\n\n{table_text}\n{end}{tail}"


def document(program):
    folders = judged_folders()
    return f"""# Forecasts, and the runs that followed

Written by `scripts/validation_doc.py` from `tests/validation/`, where `rigcast validate --keep` left
them: for each configuration the machine as it was probed (`NN.rig.toml`), the forecast that was on
disk before the run began (`NN.forecast.json`, times in `times.csv`), the run (`NN.measured.json`) and
its times by activity. An error is forecast over measured less one. The configurations that figures of
the `rigcast` profile were fitted on are in `tests/validation/fit` and count nowhere here.

`ctest -R validation` forecasts them anew with the program as it is, and fails where that is off by
more than is allowed.

{chr(10).join(section(f, program) for f in folders)}"""


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("-o", "--output", default=str(TARGET))
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    program = str(pathlib.Path(options.build) / "rigcast")
    for target, text in ((pathlib.Path(options.output), document(program)),
                         (README, readme(program))):
        if not options.check:
            target.write_text(text)
        elif target.read_text() != text:
            sys.exit(f"{target} is not what scripts/validation_doc.py writes: run it")


if __name__ == "__main__":
    main()
