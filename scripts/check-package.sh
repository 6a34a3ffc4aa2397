#!/usr/bin/env bash
# Checks the packages of build/package on a clean Debian: lintian finds no error, they install, a first
# forecast takes less than a second, the example is built with what rigcast-dev has, and Python gets
# what the program prints. As root, for the chroot; needs mmdebstrap and lintian, which --fetch
# installs.
#
#   scripts/check-package.sh [--fetch]
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --fetch ]; then
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends mmdebstrap lintian > /dev/null
fi
version=$(sed -n 's/^project(rigcast VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
source /etc/os-release
root=$(mktemp -d)
leave() {
  umount "$root/proc" 2> /dev/null || true
  rm -rf --one-file-system "$root"
}
trap leave EXIT

echo "== lintian"
lintian --fail-on error --suppress-tags bad-distribution-in-changes-file build/package/*.deb

echo "== a clean $PRETTY_NAME"
mmdebstrap --quiet --variant=minbase "$VERSION_CODENAME" "$root"
cp /etc/resolv.conf "$root/etc/"
mount -t proc proc "$root/proc" # where a program learns its own place
mkdir "$root/packages"
cp build/package/*.deb "$root/packages"
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin HOME=/nonexistent LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }
inside apt-get update -qq
installed() { inside sh -c "apt-get install -y -qq --no-install-recommends $*" > "$root/apt.log" || { cat "$root/apt.log" >&2; return 1; }; }

installed /packages/rigcast_*.deb
question=(rigcast simulate --gpu rtx-3060-12gb --model llama-3.1-8b --quant Q6_K --context 32768)
begin=$(date +%s%N)
inside "${question[@]}" | head -4
ms=$((($(date +%s%N) - begin) / 1000000))
echo "== the first forecast took $ms ms"
((ms < 1000)) || { echo "that is more than a second" >&2; exit 1; }
[ "$(inside rigcast --version)" = "rigcast $version" ]
inside test -s /usr/share/man/man1/rigcast-simulate.1.gz

echo "== the example, with what rigcast-dev has"
installed /packages/librigcast*.deb /packages/rigcast-dev_*.deb g++ cmake make
inside sh -ec "cp -r /usr/share/doc/rigcast-dev/examples/embedding /tmp
  cmake -S /tmp/embedding -B /tmp/embedding/build > /dev/null
  cmake --build /tmp/embedding/build > /dev/null
  /tmp/embedding/build/embedding > /tmp/embedding.json"
inside "${question[@]}" --no-advice --format json | cmp - "$root/tmp/embedding.json"
symbols=$(nm -DC --defined-only build/package/librigcast.so)
exported=$(grep -vc ' rigcast::forecast(\| rigcast::ForecastError::text' <<< "$symbols") || true
[ "$exported" = 0 ] || { echo "librigcast.so shows $exported symbols that are not of rigcast.hpp" >&2; exit 1; }

if compgen -G 'build/package/python3-rigcast_*.deb' > /dev/null; then
  echo "== Python"
  installed /packages/python3-rigcast_*.deb
  cp tests/library/python_test.py "$root/tmp"
  inside python3 /tmp/python_test.py
fi
echo "== the packages are sound"
