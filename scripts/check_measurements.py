#!/usr/bin/env python3
"""Checks the rows of runtimes/measurements/benchmarks.csv: shape, duplicates, marks.

Usage: scripts/check_measurements.py [FILE]
Ends with 1, and a line for each row that is wrong. To be run before rows are added.
"""
import csv
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
FILE = Path(__file__).resolve().parent.parent / "runtimes" / "measurements" / "benchmarks.csv"
METRICS = {"tg_tps", "pp_tps", "ttft_s", "load_s", "vram_gb"}
COUNTS = ("gpu_count", "ngl", "n_layers", "n_cpu_moe", "threads", "batch", "ubatch", "depth",
          "n_prompt", "n_gen")
FIGURES = ("params_b", "ram_gbps_if_stated", "size_gib_if_stated", "stdev")
# The same figure of the same run. Two runs may well give the same speed: then notes tell them apart.
SAME = ("source", "tool", "tool_build", "gpu", "gpu_count", "cpu", "model", "quant", "ngl", "n_cpu_moe",
        "kv_location", "ctk", "ctv", "flash_attn", "threads", "batch", "ubatch", "depth", "n_prompt",
        "n_gen", "metric", "value", "notes")


def wrong(row):
    """Sentences on what is no value of its column."""
    if None in row or None in row.values():
        yield "another number of columns than the header"
        return
    if not re.fullmatch(r"[A-Z]{2}\d{4}", row["id"]):
        yield "an id is two letters and four digits"
    if not row["source"].strip():
        yield "no source"
    if row["source_date"] and not re.fullmatch(r"20\d\d(-\d\d(-\d\d)?)?", row["source_date"]):
        yield f"source_date {row['source_date']} is no year, month or day"
    if row["metric"] not in METRICS:
        yield f"metric {row['metric']} is not known"
    for key in COUNTS:
        if row[key] and not re.fullmatch(r"-?\d+", row[key]):
            yield f"{key} {row[key]} is no whole number"
    for key in ("value",) + FIGURES:
        try:
            figure = float(row[key]) if row[key] or key == "value" else 1.0
        except ValueError:
            figure = -1.0
        if not 0 <= figure < float("inf") or (key == "value" and figure == 0):
            yield f"{key} {row[key]} is no positive figure"
    for mark in re.findall(r"(?i)\b(?:suspect|caution)\b", row["notes"]):
        if mark != mark.upper() and mark.lower() == "suspect":
            yield f"\"{mark}\" in notes: marks are in capitals"


def main():
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    with open(path, newline="") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
    missing = {"id", "source_date", *COUNTS, *FIGURES, *SAME} - set(reader.fieldnames or ())
    if missing:
        print(f"{path}: the header lacks {', '.join(sorted(missing))}", file=sys.stderr)
        return 1
    failures, ids, seen = [], {}, {}
    for row in rows:
        failures += [f"{row['id']}: {sentence}" for sentence in wrong(row)]
        if row["id"] in ids:
            failures.append(f"{row['id']}: twice")
        ids[row["id"]] = row
        same = tuple(row[key] for key in SAME)
        if same in seen:
            failures.append(f"{row['id']}: repeats {seen[same]}")
        seen.setdefault(same, row["id"])
    marked = sum(any(mark in row["notes"] for mark in ("SUSPECT", "CAUTION")) for row in rows)
    print(f"{len(rows):,} rows of {len({row['source'] for row in rows}):,} sources, {marked:,} marked")
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
