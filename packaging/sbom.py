#!/usr/bin/env python3
"""Writes what programs and libraries of a build hold as an SPDX 2.3 document.

    packaging/sbom.py --version 0.1.0 --build BUILD [--cuda VERSION] -o FILE PROGRAM|LIBRARY...

Shared libraries are read from the files, headers that are compiled in from ninja's dependencies; both
are named by their Debian packages. d3's modules come from the npm lock of tests/web. The date is
SOURCE_DATE_EPOCH, if it is set, so that the same build has the same document.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Headers of the C and C++ library: their code is in the libraries that are named anyway.
TOOLCHAIN = re.compile(r"(libc6|linux-libc|libgcc-|libstdc\+\+-|libcrypt|gcc-|cpp-)")


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True).stdout


def packages_of(files):
    """Debian packages of files: {name: (version, source, architecture)}."""
    names = set()
    files = sorted(files)
    for i in range(0, len(files), 500):
        for line in output_of("dpkg-query", "-S", *files[i : i + 500]).splitlines():
            if not line.startswith("diversion by"):
                names.add(line.rsplit(": ", 1)[0].split(",")[0].strip())
    form = "${Package}\t${Version}\t${source:Package}\t${Architecture}\n"
    lines = output_of("dpkg-query", "-W", "-f", form, *sorted(names)).splitlines() if names else []
    return {name: tuple(rest) for name, *rest in (line.split("\t") for line in lines)}


def loaded_by(file):
    """Paths of the shared libraries that the file itself asks for."""
    wanted = set(re.findall(r"\(NEEDED\).*\[(.+)\]", output_of("readelf", "-d", file)))
    found = dict(re.findall(r"^\s*(\S+) => (/\S+)", output_of("ldd", file), re.M))
    found.update({Path(p).name: p for p in re.findall(r"^\s*(/\S+) \(", output_of("ldd", file), re.M)})
    missing = wanted - found.keys()
    if missing:
        sys.exit(f"sbom.py: {file}: not found: {', '.join(sorted(missing))}")
    # Debian's packages name both /lib and /usr/lib, which are the same.
    real = {os.path.realpath(found[name]) for name in wanted}
    return real | {p.removeprefix("/usr") for p in real}


def compiled_in(build):
    """Headers of the distribution that sources of the build include, without its tests."""
    headers, counts = set(), False
    for line in output_of("ninja", "-C", build, "-t", "deps").splitlines():
        if line and not line.startswith(" "):
            counts = not line.startswith(("tests/", "bench/", "ninja:"))
        elif counts and line.strip().startswith("/usr/"):
            headers.add(os.path.normpath(line.strip()))
    return headers


def package(name, version, **more):
    spdx_id = "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)
    return {
        "SPDXID": spdx_id,
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        **more,
    }


def purl(locator):
    return [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": locator}]


def debian(name, version, architecture):
    quoted = version.replace("+", "%2B").replace(":", "%3A")
    return package(
        name, version, supplier="Organization: Debian",
        externalRefs=purl(f"pkg:deb/debian/{name.replace('+', '%2B')}@{quoted}?arch={architecture}"),
    )


def d3_modules():
    lock = json.loads((ROOT / "tests/web/package-lock.json").read_text())["packages"]
    licence = (ROOT / "web/vendor/LICENSE").read_text()
    for name in sorted(set(re.findall(r"d3-[a-z]+(?:-[a-z]+)*|internmap", licence))):
        # npm puts a package below another one where they need different versions of it.
        path = next(p for p in lock if p.endswith(f"node_modules/{name}") and "@types" not in p)
        entry = lock[path]
        yield package(
            name, entry["version"], licenseConcluded=entry["license"], licenseDeclared=entry["license"],
            copyrightText="Copyright 2010-2026 Mike Bostock",
            externalRefs=purl(f"pkg:npm/{name}@{entry['version']}"),
        )


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--version", required=True)
    arguments.add_argument("--build", required=True)
    arguments.add_argument("--cuda", default="")
    arguments.add_argument("-o", dest="out", required=True)
    arguments.add_argument("files", nargs="+")
    given = arguments.parse_args()

    own = package("rigcast", given.version, supplier="Organization: the authors of rigcast")
    packages, relations = [own], [("SPDXRef-DOCUMENT", "DESCRIBES", own["SPDXID"])]

    def add(part, relation):
        packages.append(part)
        relations.append((own["SPDXID"], relation, part["SPDXID"]))

    loaded = packages_of(set().union(*(loaded_by(f) for f in given.files)))
    for name, (version, _, architecture) in sorted(loaded.items()):
        add(debian(name, version, architecture), "DYNAMIC_LINK")
    sources = {source for _, source, _ in loaded.values()}
    for name, (version, source, architecture) in sorted(packages_of(compiled_in(given.build)).items()):
        if source not in sources and not TOOLCHAIN.match(name):
            add(debian(name, version, architecture), "STATIC_LINK")
    if given.cuda:
        add(package("cuda-cudart-static", given.cuda, supplier="Organization: NVIDIA"), "STATIC_LINK")
    for module in d3_modules():
        add(module, "CONTAINS")

    when = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
    digest = hashlib.sha256(json.dumps(packages).encode()).hexdigest()
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"rigcast-{given.version}",
        "documentNamespace": f"https://spdx.org/spdxdocs/rigcast-{given.version}-{digest[:32]}",
        "creationInfo": {
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", when),
            "creators": [f"Tool: rigcast-sbom.py-{given.version}"],
        },
        "packages": packages,
        "relationships": [
            {"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b} for a, kind, b in relations
        ],
    }
    Path(given.out).write_text(json.dumps(document, indent=2) + "\n")


main()
