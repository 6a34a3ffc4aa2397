#!/usr/bin/env python3
"""Refreshes the real output in README.md: every ```console block that begins with "$ rigcast".

Usage: scripts/readme.py [--program build/release/rigcast] [--check]
"""
import argparse
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"```console\n\$ (rigcast (?:[^\n]*\\\n)*[^\n]*)\n.*?```", re.DOTALL)


def refreshed(text, program):
    def run(match):
        command = match.group(1)
        words = shlex.split(command.replace("\\\n", " "))
        done = subprocess.run([program, *words[1:]], cwd=ROOT, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode not in (0, 1, 2):
            sys.exit(f"{command}: {done.stdout}")
        return f"```console\n$ {command}\n{done.stdout.rstrip()}\n```"

    return BLOCK.sub(run, text)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--program", default="build/release/rigcast")
    arguments.add_argument("--check", action="store_true")
    options = arguments.parse_args()
    readme = ROOT / "README.md"
    before = readme.read_text()
    after = refreshed(before, str((ROOT / options.program).resolve()))
    if not options.check:
        readme.write_text(after)
    elif before != after:
        sys.exit("README.md shows old output: run scripts/readme.py")


if __name__ == "__main__":
    main()
