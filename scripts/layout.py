"""Layout of generated documents: tables, numbers as text, templates, and what --check compares.

The program computes every number and prints JSON; scripts only arrange them.
"""
import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
TEMPLATES = ROOT / "scripts" / "templates"


def arguments(description, **options):
    """Parsed options: --build, --check, and `options` (name=default)."""
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release",
                        help="folder of a release build")
    parser.add_argument("--check", action="store_true",
                        help="write nothing; fail if a document is not what would be written")
    for name, default in options.items():
        parser.add_argument("--" + name.replace("_", "-"), type=pathlib.Path, default=default)
    parsed = parser.parse_args()
    parsed.build = parsed.build.resolve()
    return parsed


def text_of(program, *words, codes=(0,), errors=subprocess.PIPE):
    """What the program prints, run in the root of the tree; ends the script on another exit code."""
    done = subprocess.run([program, *map(str, words)], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, stderr=errors)
    if done.returncode not in codes or not done.stdout:
        sys.exit(f"{program} {' '.join(map(str, words))}: {done.stderr or done.stdout}")
    return done.stdout


def json_of(program, *words, codes=(0, 1)):
    """Exit code 1 is an answer: something does not fit, or is off by more than is allowed."""
    return json.loads(text_of(program, *words, codes=codes))


def percent(share, sign=""):
    return "-" if share is None else f"{100 * share:{sign}.1f} %"


def table(header, rows, right=range(1, 99)):
    """right: the columns that are aligned to the right."""
    rules = ["---:" if i in right else "---" for i in range(len(header))]
    lines = ["| " + " | ".join(header) + " |", "|" + "|".join(rules) + "|"]
    lines += ["| " + " | ".join(str(c).replace("|", "\\|") for c in row) + " |" for row in rows]
    return "\n".join(lines)


def filled(template, parts):
    """The template with its {names} replaced."""
    return (TEMPLATES / template).read_text(encoding="utf-8").format_map(parts)


def readme_with(mark, text, readme=None):
    """README.md, or `readme`, with the text between <!-- mark --> and <!-- /mark -->."""
    head, rest = (readme or README.read_text(encoding="utf-8")).split(f"<!-- {mark} -->\n")
    return f"{head}<!-- {mark} -->\n{text}<!-- /{mark} -->" + rest.split(f"<!-- /{mark} -->")[1]


def write(documents, check, renew):
    """documents: path -> text. renew: the command that writes them."""
    for path, text in documents.items():
        if not check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            sys.exit(f"{path} is out of date: run {renew}")
