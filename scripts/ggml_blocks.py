#!/usr/bin/env python3
"""What ggml's own library says of block formats: the points of their grids, and known answers.

  scripts/ggml_blocks.py [--check] [FOLDER]

FOLDER has libggml-base.so; without, $LLAMA_CPP_FOLDER, or where scripts/llama-bench.sh puts it.
What both files have is asked of the library's decoders; nothing is copied from its sources:

  engine/kernels/ref/grid_points.inc     IQ1, IQ2 and IQ3: the values that an index stands for
  tests/engine/kernels/ggml_answers.inc  what random blocks decode to

With --check it writes nothing, and fails where the files are not what it would write.
"""
import ctypes
import os
import pathlib
import struct
import sys

TREE = pathlib.Path(__file__).resolve().parent.parent
ONE = struct.pack("<e", 1.0)

# Name, type id, weights and bytes of a block, as in core/model/quant_format.hpp.
FORMATS = [
    ("IQ1_S", 19, 256, 50), ("IQ1_M", 29, 256, 56), ("IQ2_XXS", 16, 256, 66),
    ("IQ2_XS", 17, 256, 74), ("IQ2_S", 22, 256, 82), ("IQ3_XXS", 18, 256, 98),
    ("IQ3_S", 21, 256, 110), ("TQ1_0", 34, 256, 54), ("TQ2_0", 35, 256, 66),
    ("NVFP4", 40, 64, 36),
]
RANDOM_BLOCKS = 64

GRID_HEAD = """\
// Points of the grids of IQ1, IQ2 and IQ3: a code of every value, the first value's in the lowest
// bits. Written by scripts/ggml_blocks.py, which asks ggml's decoders. Origin: the formats'
// definition, ggml-org/llama.cpp, ggml/src/ggml-common.h. No include guard, by intent.
"""
ANSWER_HEAD = """\
// What ggml decodes blocks to. Written by scripts/ggml_blocks.py. For each format: the FNV-1a hash
// of the weights of 64 random blocks, and the first and last weights of a block whose bytes are
// 37 i + 11, but for a scale of 1. No include guard, by intent.
"""


def library(folder):
    if folder is None:
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        folder = os.environ.get("LLAMA_CPP_FOLDER") or f"{cache}/rigcast/llama.cpp-cpu"
    return ctypes.CDLL(f"{folder}/libggml-base.so")


def decode(lib, name, blocks):
    """The weights of blocks, as the bits of F32 numbers."""
    _, _, weights, size = next(f for f in FORMATS if f[0] == name)
    count = len(blocks) // size * weights
    out = (ctypes.c_uint32 * count)()
    # Blocks are aligned to 8 bytes, as in a file's tensor.
    data = (ctypes.c_uint64 * (len(blocks) // 8 + 1))()
    ctypes.memmove(data, blocks, len(blocks))
    getattr(lib, f"dequantize_row_{name.lower()}")(data, out, ctypes.c_int64(count))
    return list(out)


def values(lib, name, block):
    return [struct.unpack("<f", struct.pack("<I", bits))[0] for bits in decode(lib, name, block)]


# Blocks whose scales are the least and whose signs are all plus, by 32 weights: indices in order,
# high bits where the format has them.
def two_xxs(i):
    return ONE + b"".join(bytes(i[4 * s:4 * s + 4]) + bytes(4) for s in range(8))


def two_xs(i):
    return ONE + struct.pack("<32H", *i) + bytes(8)


def two_s(i):
    high = [sum((i[4 * s + k] >> 8) << (2 * k) for k in range(4)) for s in range(8)]
    return ONE + bytes(v & 255 for v in i) + bytes(32) + bytes(high) + bytes(8)


def three_xxs(i):
    return ONE + bytes(i) + bytes(32)


def three_s(i):
    high = [sum((i[8 * s + k] >> 8) << k for k in range(8)) for s in range(8)]
    return ONE + bytes(v & 255 for v in i) + bytes(high) + bytes(32) + bytes(4)


def one_s(i):
    high = [sum((i[4 * s + k] >> 8) << (3 * k) for k in range(4)) for s in range(8)]
    return ONE + bytes(v & 255 for v in i) + struct.pack("<8H", *high)


# Format, name in C++, block of indices, points, values of a point, bits of a value, what a decoded
# weight is of the value, the values in the order of their codes.
GRIDS = [
    ("IQ2_XXS", "kIq2XxsPoints", two_xxs, 256, 8, 2, lambda w: 8 * w, [8, 25, 43]),
    ("IQ2_XS", "kIq2XsPoints", two_xs, 512, 8, 2, lambda w: 8 * w, [8, 25, 43]),
    ("IQ2_S", "kIq2SPoints", two_s, 1024, 8, 2, lambda w: 8 * w, [8, 25, 43]),
    ("IQ3_XXS", "kIq3XxsPoints", three_xxs, 256, 4, 3, lambda w: 4 * w,
     [4, 12, 20, 28, 36, 44, 52, 62]),
    ("IQ3_S", "kIq3SPoints", three_s, 512, 4, 3, lambda w: w, list(range(1, 16, 2))),
    ("IQ1_S", "kIq1Points", one_s, 2048, 8, 2, lambda w: w - 0.125, [-1, 0, 1]),
]


def points(lib, grid):
    name, _, block, count, width, bits, value, codes = grid
    per_block = 256 // width
    found = []
    for first in range(0, count, per_block):
        weights = values(lib, name, block(list(range(first, first + per_block))))
        for at in range(0, 256, width):
            point = [codes.index(value(w)) for w in weights[at:at + width]]
            found.append(sum(code << (bits * k) for k, code in enumerate(point)))
    return found


def rows(numbers, digits, a_row):
    text = [f"0x{n:0{digits}x}," for n in numbers]
    return "".join("    " + " ".join(text[i:i + a_row]) + "\n" for i in range(0, len(text), a_row))


def grid_file(lib):
    out = [GRID_HEAD]
    for grid in GRIDS:
        name, constant, _, count, width, bits, _, codes = grid
        out.append(f"\n// {name}: {width} values of {bits} bits, "
                   f"{', '.join(map(str, codes))}.\n"
                   f"inline constexpr std::uint16_t {constant}[{count}] = {{\n"
                   f"{rows(points(lib, grid), 4, 12)}}};\n")
    return "".join(out)


def random_bytes(seed, count):
    state, out = seed, bytearray()
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append(state >> 56)
    return bytes(out)


def hash_of(bits):
    h = 0xcbf29ce484222325
    for v in bits:
        if v & 0x7fffffff > 0x7f800000:
            v = 0x7fc00000
        for byte in v.to_bytes(4, "little"):
            h = (h ^ byte) * 0x100000001b3 % 2**64
    return h


def answer_file(lib):
    out = [ANSWER_HEAD]
    for name, seed, _, size in FORMATS:
        block = bytearray((37 * i + 11) % 256 for i in range(size))
        scale = {"IQ1_M": None, "NVFP4": None, "TQ1_0": 52, "TQ2_0": 64}.get(name, 0)
        if scale is not None:
            block[scale:scale + 2] = ONE
        weights = values(lib, name, bytes(block))
        ends = [f"{w!r}f" for w in weights[:4] + weights[-4:]]
        hashed = hash_of(decode(lib, name, random_bytes(seed, size * RANDOM_BLOCKS)))
        out.append(f"{{k{name},\n 0x{hashed:016x},\n {{{', '.join(ends)}}}}},\n")
    return "".join(out)


def main():
    arguments = sys.argv[1:]
    check = "--check" in arguments
    folders = [a for a in arguments if a != "--check"]
    lib = library(folders[0] if folders else None)
    stale = 0
    for path, text in [("engine/kernels/ref/grid_points.inc", grid_file(lib)),
                       ("tests/engine/kernels/ggml_answers.inc", answer_file(lib))]:
        if not check:
            (TREE / path).write_text(text)
        elif (TREE / path).read_text() != text:
            print(f"{path} is not what the library says", file=sys.stderr)
            stale = 1
    sys.exit(stale)


if __name__ == "__main__":
    main()
