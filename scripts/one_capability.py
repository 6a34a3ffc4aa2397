#!/usr/bin/env python3
"""Copies a CUDA library with the code of one capability alone; zeros take the place of all other code.

    scripts/one_capability.py LIBRARY CAPABILITY COPY        CAPABILITY: 90 for 9.0

The copy runs on GPUs of that capability and packs to a fraction: libggml-cuda.so of llama.cpp holds
80 MB for five of them. Layout of a fat binary: `struct fatBinaryHeader` in CUDA's fatbinary_section.h,
then entries with a header each, of which the kind (1 PTX, 2 machine code), the header's and the code's
bytes and the capability are read.
"""
import struct
import sys

MAGIC = struct.pack("<IH", 0xBA55ED50, 1)


def blank_others(data, capability):
    """Zeroes the code of other capabilities in place; returns bytes kept and bytes blanked."""
    kept = blanked = 0
    begin = data.find(MAGIC)
    while begin >= 0:
        header_bytes, entries_bytes = struct.unpack_from("<HQ", data, begin + 6)
        at, end = begin + header_bytes, begin + header_bytes + entries_bytes
        while at < end:
            kind, _, entry_header, code_bytes = struct.unpack_from("<HHIQ", data, at)
            (entry_capability,) = struct.unpack_from("<I", data, at + 28)
            if kind not in (1, 2) or not 10 <= entry_capability < 1000 or not code_bytes:
                sys.exit(f"one_capability: no entry of a fat binary at byte {at}")
            code = at + entry_header
            if kind == 2 and entry_capability == capability:
                kept += code_bytes
            else:
                data[code:code + code_bytes] = bytes(code_bytes)
                blanked += code_bytes
            at = code + code_bytes
        begin = data.find(MAGIC, end)
    return kept, blanked


def main():
    library, capability, copy = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    with open(library, "rb") as file:
        data = bytearray(file.read())
    kept, blanked = blank_others(data, capability)
    if not kept:
        sys.exit(f"one_capability: {library} holds no machine code for {capability}")
    with open(copy, "wb") as file:
        file.write(data)
    print(f"{kept / 1e6:.1f} MB of code kept, {blanked / 1e6:.1f} MB blanked")


if __name__ == "__main__":
    main()
