#!/usr/bin/env bash
# Makes the packages in two folders, the second time without what ccache has, and compares bytes.
#
#   scripts/reproducible.sh [--cached] [CMAKE OPTION...]
#
# --cached: compiles nothing twice, and so compares links and packages alone. Ends with 1 where bytes
# differ, or where a program names the folder in which it was built.
set -euo pipefail
cd "$(dirname "$0")/.."
anew=(env CCACHE_RECACHE=1)
[ "${1:-}" != --cached ] || { anew=() && shift; }
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
first=$work/one second=$work/deeper/folder/two
for place in "$first" "$second"; do
  mkdir -p "$place"
  git ls-files -z | tar -c --null -T - | tar -x -C "$place"
done
"$first/scripts/package.sh" "$@"
"${anew[@]}" "$second/scripts/package.sh" "$@"

bad=0
cd "$first/build/package"
for file in *.deb rigcast librigcast.so.*.*.* python/rigcast/*.so rigcast.spdx.json; do
  [ -e "$file" ] || continue
  if cmp "$file" "$second/build/package/$file"; then
    printf 'same bytes: %s  %s\n' "$(sha256sum "$file" | cut -c1-16)" "$file"
  else
    bad=1
  fi
  if grep -qaF "$work" "$file"; then
    echo "$file names the folder in which it was built" >&2
    bad=1
  fi
done
exit $bad
