#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what is missing, builds the zipccl command, and runs AllGather over 4 ranks on the training tensors
# in data/, compressed against native. Arguments are handed on to `zipccl perf all_gather`. Status 0 when
# every bit arrived, 1 when not, 2 when packages are missing or an argument is wrong, 3 when a run failed.

set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib/setup.sh

# shellcheck disable=SC2086 # a list of words
require $packagesToBuild
configure
build zipccl_tool

status=0
for tensors in data/*.safetensors; do
  printf '\n'
  "$buildFolder/bin/zipccl" perf all_gather --ranks 4 --transport local --data "file:$tensors" \
    -b 1M -e 16M -f 4 "$@" || status=$?
  # Wrong bits are told for each file; what else went wrong once will go wrong again.
  [ "$status" -le 1 ] || break
done
exit "$status"
