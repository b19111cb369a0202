#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Proves that the two commands of README work for a newcomer: makes a bare Debian 12 with debootstrap, clones
# this repository into it at HEAD, and runs scripts/demo.sh and scripts/test.sh there, each twice. Needs root.
#
# The bare system is kept in build/bare-debian-12.tar, so that only the first run downloads it. It takes the
# package sources and proxy settings of this host, to work behind whatever mirror is set here.

set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib/setup.sh

if [ "$(id -u)" != 0 ]; then
  say "scripts/bare_check.sh needs root, for debootstrap and chroot"
  exit 2
fi
# A mount namespace of its own: whatever ends this script, its mounts end with it.
if [ -z "${ZIPCCL_BARE_NAMESPACE:-}" ]; then
  export ZIPCCL_BARE_NAMESPACE=1
  exec unshare --mount --propagation private "$PWD/scripts/bare_check.sh" "$@"
fi

require debootstrap=debootstrap git=git

tarball=$PWD/build/bare-debian-12.tar
root=$(mktemp -d "${TMPDIR:-/var/tmp}/zipccl-bare.XXXXXX")
cleanUp() {
  local place
  for place in dev proc; do
    if mountpoint -q "$root/$place"; then
      umount --recursive "$root/$place" || umount --recursive --lazy "$root/$place"
    fi
  done
  # --one-file-system: should a mount be left after all, what it shows is not ours to delete.
  rm -rf --one-file-system "$root"
}
trap cleanUp EXIT
trap 'exit 130' INT TERM

# The first Debian mirror that this host uses for bookworm, from either style of list.
hostMirror() {
  find -L /etc/apt -maxdepth 2 \( -name '*.list' -o -name '*.sources' \) -exec cat {} + |
    awk '/^deb .*[[:space:]]bookworm[[:space:]]/ {
           for (i = 2; i <= NF; ++i) if ($i ~ /^[a-z+]+:\/\//) { print $i; exit }
         }
         /^$/ { uri = "" }
         tolower($1) == "uris:" { uri = $2 }
         tolower($1) == "suites:" { for (i = 2; i <= NF; ++i) if ($i == "bookworm") { print uri; exit } }'
}

makeBareSystem() {
  local mirror
  mirror=$(hostMirror)
  step "Making a bare Debian 12" debootstrap --variant=minbase --include=ca-certificates bookworm \
    "$root" "${mirror:-http://deb.debian.org/debian}"
  chroot "$root" apt-get clean
  rm -rf "$root"/var/lib/apt/lists/*
  tar -C "$root" -cf "$tarball.part" .
  mv "$tarball.part" "$tarball"
}

copySettings() {
  local path
  for path in /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/apt.conf.d /etc/apt/auth.conf.d \
    /etc/apt/keyrings /etc/apt/trusted.gpg.d /etc/ssl/certs /usr/local/share/ca-certificates \
    /etc/resolv.conf /etc/hosts; do
    if [ -e "$path" ]; then
      rm -rf "${root:?}$path"
      mkdir -p "$root$(dirname "$path")"
      cp -aL "$path" "$root$path" 2>/dev/null || cp -a "$path" "$root$(dirname "$path")/"
    fi
  done
  # Hooks of the host's own packages call programs that a bare system does not have.
  grep -rlE '^[^/#]*(Invoke|dep11)' "$root/etc/apt/apt.conf.d" | xargs -r rm -f || true
}

inside() { # command...
  chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LANG=C.UTF-8 \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
    ${no_proxy:+no_proxy="$no_proxy"} "$@"
}

if [ -f "$tarball" ]; then
  step "Unpacking $(basename "$tarball")" tar -C "$root" -xf "$tarball"
else
  makeBareSystem
fi
copySettings
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
git clone --quiet --no-local . "$root/root/zipccl"

failed=0
report=""
for script in demo test; do
  for round in first second; do
    say "== scripts/$script.sh, $round run"
    started=$SECONDS
    status=0
    inside "/root/zipccl/scripts/$script.sh" </dev/null || status=$?
    [ "$status" = 0 ] || failed=1
    report+="scripts/$script.sh, $round run: status $status, $((SECONDS - started)) s"$'\n'
  done
done
say "== bare Debian $(cat "$root/etc/debian_version"), commit $(git rev-parse --short HEAD)"
printf '%s' "$report"
exit "$failed"
