#!/usr/bin/env bash
# Installs what is missing (Debian or Ubuntu packages) and configures a preset.
# Usage: scripts/setup.sh [preset [cmake option...]]      (default: release)
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}

packages=(g++ cmake ninja-build ccache pkg-config libsimgrid-dev libtomlplusplus-dev
          libboost-dev libboost-graph-dev libcli11-dev libfmt-dev nlohmann-json3-dev catch2
          libceres-dev libhwy-dev libpcre2-dev zlib1g-dev)
[ "$preset" != package ] || packages+=(python3 python3-dev pybind11-dev dpkg-dev binutils file)
[ "$preset" != fuzz ] || packages+=(clang libclang-rt-14-dev)  # of Debian 12
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
    missing+=("$package")
done
if ((${#missing[@]})); then
  echo "installing: ${missing[*]}" >&2
  sudo=()
  ((EUID == 0)) || sudo=(sudo)
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
cmake --preset "$preset" "${@:2}" >/dev/null
