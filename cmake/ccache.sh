#!/bin/sh
# Compiles through ccache: ccache.sh SOURCE_DIR COMPILER ARGUMENTS...
# Paths count from the source folder on, so that a fresh clone finds what another compiled. A
# precompiled header that is made anew must not find the old one, which its command includes: it
# would be another header than that of a fresh clone, and all that use it other objects. Hashes of
# files are kept: without, each of a hundred objects reads the 120 MB of its precompiled header again.
export CCACHE_BASEDIR="$1" CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros
export CCACHE_INODECACHE=1
shift
before=
for argument; do
  case "$before $argument" in
    "-o "*.gch) rm -f "$argument" ;;
  esac
  before=$argument
done
exec ccache "$@"
