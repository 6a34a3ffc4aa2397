#!/usr/bin/env bash
# Does what Containerfile says without a container engine: each stage is a clean Debian in a folder, each
# RUN a command in it. As root; needs mmdebstrap. Ends with the version and a forecast of what is built,
# as the user that the file names.
#
#   scripts/container-steps.sh [CCACHE FOLDER]     the compiler's cache of this machine, if one is named
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
leave() {
  umount "$work"/*/ccache "$work"/*/proc 2> /dev/null || true
  rm -rf --one-file-system "$work"
}
trap leave EXIT
source_date=$(git log -1 --format=%ct)
root='' folder=/ user=0:0 entry='' stages=0

inside() { # COMMAND...: in the stage, as its user
  chroot --userspec="$user" "$root" /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin \
    HOME=/tmp LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive SOURCE_DATE_EPOCH="$source_date" \
    CCACHE_DIR=/ccache sh -ec "cd $folder; $1"
}

stage() { # IMAGE [as NAME]
  stages=$((stages + 1)) folder=/
  root=$work/${3:-$stages}
  local release=${1##*:}
  release=${release%-slim}
  mmdebstrap --quiet --variant=minbase "$release" "$root"
  cp /etc/resolv.conf "$root/etc/"
  mount -t proc proc "$root/proc"
  mkdir "$root/ccache"
  if [ -n "${cache:-}" ]; then mount --bind "$cache" "$root/ccache"; fi
}

copy() { # [--from=STAGE] FROM... TO
  local from=. to=${*: -1}
  if [[ $1 == --from=* ]]; then
    from=$work/${1#--from=} && shift
    # shellcheck disable=SC2086  # a pattern
    cp -r $from/${1#/} "$root/$to"
  else
    git ls-files -z | tar -c --null -T - | tar -x -C "$root/$folder"
  fi
}

cache=${1:-}
while read -r word rest; do
  [ -z "$word" ] || [[ $word == \#* ]] || echo "-- $word $rest"
  # shellcheck disable=SC2086  # words
  case $word in
    FROM) stage $rest ;;
    WORKDIR) folder=$rest && mkdir -p "$root/$folder" ;;
    COPY) copy $rest ;;
    RUN) inside "$rest" ;;
    USER) user=$rest ;;
    ENTRYPOINT) entry=$(tr -d '[]",' <<< "$rest") ;;
    '' | '#'* | ARG) ;;
    *) echo "container-steps.sh: $word is not known" >&2 && exit 2 ;;
  esac
done < Containerfile
inside "$entry --version"
inside "$entry simulate --gpu rtx-4090 --model llama-3.1-8b --no-advice" | head -4
