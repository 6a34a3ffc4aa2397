#!/usr/bin/env python3
"""Checks that two probes of one machine agree: every figure with several samples must agree within the
larger of the two stated spreads, or 2 %.

Usage: scripts/probes_agree.py A.toml B.toml
"""
import sys
import tomllib

LEAST = 0.02


def figures(table, prefix=""):
    for key, value in table.items():
        if isinstance(value, dict) and value.get("n", 0) > 1:
            yield prefix + key, float(value["value"].split()[0]), value["spread"]
    for i, gpu in enumerate(table.get("gpu_measured", [])):
        yield from figures(gpu, f"GPU {i} ")


def main(a, b):
    with open(a, "rb") as first, open(b, "rb") as second:
        one, other = (dict((name, (value, spread)) for name, value, spread in figures(tomllib.load(f)))
                      for f in (first, second))
    apart = 0
    for name in [n for n in one if n in other]:
        (x, dx), (y, dy) = one[name], other[name]
        change, allowed = abs(x / y - 1), max(dx, dy, LEAST)
        apart += change > allowed
        print(f"{'ok   ' if change <= allowed else 'APART'} {name:26} {x:10.4g} {y:10.4g}"
              f"  {100 * change:5.1f} % of {100 * allowed:.1f} %")
    print(f"{len(one.keys() & other.keys()) - apart} of {len(one.keys() & other.keys())} agree")
    return 1 if apart else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
