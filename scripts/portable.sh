#!/usr/bin/env bash
# Packs the program with the libraries that it loads, to run it on a machine where they are not
# installed (the C and C++ libraries of that machine are used).
#
#   scripts/portable.sh PROGRAM OUT.tar.xz [FILE...]     e.g. build/cpu/rigcast /tmp/rigcast.tar.xz
#
# There: tar xJf OUT.tar.xz && LD_LIBRARY_PATH=rigcast/lib RIGCAST_DATA=<a checkout> rigcast/PROGRAM
set -euo pipefail
program=$1 out=$2
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/rigcast/lib"
strip -o "$folder/rigcast/$(basename "$program")" "$program"
ldd "$program" | awk '$3 ~ /^\// {print $3}' | grep -vE '/(libc|libm|libpthread|libdl|librt|libgcc_s|libstdc\+\+)\.so' |
  while read -r library; do cp -L "$library" "$folder/rigcast/lib/"; done
for file in "$@"; do cp -rL "$file" "$folder/rigcast/"; done
tar -C "$folder" -c rigcast | xz -T0 -6 > "$out.part"
mv "$out.part" "$out"
