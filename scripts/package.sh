#!/usr/bin/env bash
# Makes the Debian packages, in build/package: rigcast, librigcast0.1, rigcast-dev, python3-rigcast.
#
#   scripts/package.sh [CMAKE OPTION...]     e.g. -DRIGCAST_CUDA=OFF
#
# Files have the date of the last commit, or SOURCE_DATE_EPOCH: the same source makes the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) || {
    echo "package.sh: no commit says of when this source is: set SOURCE_DATE_EPOCH" >&2
    exit 2
  }
fi
export SOURCE_DATE_EPOCH
scripts/setup.sh package "$@"
cmake --build --preset package
cd build/package
rm -f -- *.deb
cpack -G DEB > cpack.log 2>&1 || { cat cpack.log >&2; exit 1; }
ls -- *.deb
