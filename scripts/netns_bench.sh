#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Measures the collectives over MPI between hosts that are network namespaces of this machine, with links of 1 and
# 10 Gbit/s that the kernel shapes. Writes OUT.json, with every sample, and OUT.html, a page of speed-up by size;
# docs/performance.md says what the runs are for. Needs root; wants the machine for itself, for a quarter of an hour.
#
#   scripts/netns_bench.sh OUT [RUN...]    all runs, or those whose names begin with a RUN, beside what OUT has of others
#   scripts/netns_bench.sh OUT --short     two hosts and small messages: that it works, in some seconds
#   scripts/netns_bench.sh --list          what runs there are
#
# Namespaces, links and processes live in namespaces of mounts and processes that end with this script, whatever ends it.
# Status 0 when every bit arrived, 1 when not, 2 when something is missing that it needs, 3 when a run failed.

set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib/setup.sh
clearSettings

if [ $# = 0 ]; then
  say "usage: $0 OUT [RUN...] [--short], or --list"
  exit 2
fi
bench=(python3 -B bench/network_bench.py --build "$buildFolder")
[ "$1" != --list ] || exec "${bench[@]}" --list
if [ "$(id -u)" != 0 ]; then
  say "scripts/netns_bench.sh needs root, for network namespaces and their links"
  exit 2
fi

# shellcheck disable=SC2086 # a list of words
require $packagesToTest iproute2=tc util-linux=unshare
configure
build zipccl_tool zipccl_mpi
exec "${bench[@]}" "$@"
