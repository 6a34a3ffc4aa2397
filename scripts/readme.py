#!/usr/bin/env python3
"""Refreshes the real output in README.md: every ```console block that begins with "$ rigcast".

Usage: scripts/readme.py [--build build/release] [--check]
"""
import re
import shlex
import subprocess
import sys

sys.dont_write_bytecode = True
from layout import README, arguments, text_of, write

BLOCK = re.compile(r"```console\n\$ (rigcast (?:[^\n]*\\\n)*[^\n]*)\n.*?```", re.DOTALL)


def refreshed(text, program):
    def run(match):
        words = shlex.split(match[1].replace("\\\n", " "))[1:]
        out = text_of(program, *words, codes=(0, 1, 2), errors=subprocess.STDOUT)
        return f"```console\n$ {match[1]}\n{out.rstrip()}\n```"

    return BLOCK.sub(run, text)


def main():
    options = arguments(__doc__)
    text = refreshed(README.read_text(encoding="utf-8"), options.build / "rigcast")
    write({README: text}, options.check, "scripts/readme.py")


if __name__ == "__main__":
    main()
