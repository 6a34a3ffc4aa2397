#!/usr/bin/env python3
"""Checks that a file is an SPDX 2.3 document with what rigcast.spdx.json must have: check_sbom.py FILE.

With the package spdx-tools the whole schema is validated, too.
"""

import json
import re
import sys

document = json.load(open(sys.argv[1]))
faults = []


def check(holds, what):
    if not holds:
        faults.append(what)


check(document["spdxVersion"] == "SPDX-2.3", "spdxVersion")
check(document["dataLicense"] == "CC0-1.0", "dataLicense")
check(document["SPDXID"] == "SPDXRef-DOCUMENT", "SPDXID")
check(re.fullmatch(r"https://\S+", document["documentNamespace"]), "documentNamespace")
created = document["creationInfo"]["created"]
check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", created), "created")
check(document["creationInfo"]["creators"], "creators")
ids = ["SPDXRef-DOCUMENT"]
for package in document["packages"]:
    ids.append(package["SPDXID"])
    for key in ("name", "versionInfo", "downloadLocation", "licenseConcluded", "copyrightText"):
        check(package.get(key), f"{package['SPDXID']}: {key}")
    for reference in package.get("externalRefs", []):
        check(reference["referenceCategory"] == "PACKAGE-MANAGER", f"{package['SPDXID']}: a category")
        check(re.fullmatch(r"pkg:(deb/debian|npm)/[^@ ]+@[^@ ]+", reference["referenceLocator"]), "a purl")
    check(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", package["SPDXID"]), f"{package['SPDXID']}: its form")
check(len(ids) == len(set(ids)), "an id is there twice")
for relation in document["relationships"]:
    for end in ("spdxElementId", "relatedSpdxElement"):
        check(relation[end] in ids, f"a relationship names {relation[end]}")
related = {(r["relationshipType"], r["relatedSpdxElement"].removeprefix("SPDXRef-")) for r in document["relationships"]}
for kind, prefix in (
    ("DESCRIBES", "rigcast"), ("DYNAMIC_LINK", "libsimgrid"), ("DYNAMIC_LINK", "libc6"),
    ("STATIC_LINK", "nlohmann-json3-dev"), ("CONTAINS", "d3-scale"), ("CONTAINS", "d3-shape"),
):
    check(any(k == kind and name.startswith(prefix) for k, name in related), f"no {kind} {prefix}")

try:
    from spdx_tools.spdx.parser.parse_anything import parse_file
    from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document
except ImportError:
    print("spdx-tools is not there: required keys alone are checked")
else:
    faults += [m.validation_message for m in validate_full_spdx_document(parse_file(sys.argv[1]))]

if faults:
    sys.exit("no SPDX document of rigcast:\n  " + "\n  ".join(faults))
print(f"{len(document['packages'])} packages")
