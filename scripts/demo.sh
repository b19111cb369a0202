#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what is missing, builds the zipccl command and nothing else, and lets 4 ranks exchange the training tensors in
# data/, each by the collective that it was handed to: compressed against native, over an emulated link and over shared
# memory, every bit compared. Prints one table, and writes the page of `zipccl inspect` for the same tensors. Arguments
# are handed on to each `zipccl perf`. Status 0 when every bit arrived, 1 when not, 2 when packages are missing or an
# argument is wrong, 3 when a run failed.

set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib/setup.sh
clearSettings

# shellcheck disable=SC2086 # a list of words
require $packagesOfCommand
usePreset demo
configure
build zipccl_tool
zipccl=$buildFolder/bin/zipccl
page=$buildFolder/inspect.html
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

# All that a rank sends, or gets of an AllGather: 16 MiB. At this speed two cores encode for four ranks in passing.
link=1Gbit
common=(--ranks 4 --transport local -b 16M -e 16M)

status=0
runs=0
perf() { # collective tensor flags...
  local collective=$1 tensor=$2 ended=0
  shift 2
  local out=$results/$((100 + ++runs)).json
  "$zipccl" perf "$collective" "${common[@]}" --data "file:data/$tensor" -J "$out" "$@" >"$results/log" 2>&1 || ended=$?
  [ "$ended" -le 1 ] || { cat "$results/log" >&2 && exit "$ended"; }
  [ "$ended" = 0 ] || status=1
}

measure() { # collective tensor flags...
  say "$1 of $2 ..."
  # Where a copy is faster than any codec, what ZipCCL decides by itself is what there is to see.
  perf "$1" "$2" --link $link -n 7 "${@:3}"
  perf "$1" "$2" --strategy auto "${@:3}"
}

measure all_gather bf16.safetensors:ag.17.step199 "$@"
measure reduce_scatter bf16.safetensors:rs.1.step5 "$@"
measure reduce_scatter bf16.safetensors:rs.17.step199 "$@"
measure reduce_scatter fp32.safetensors:rs.1.step5 "$@"
measure reduce_scatter fp32.safetensors:rs.13.step119 "$@"
measure reduce_scatter fp32.safetensors:rs.10.step119 "$@"
measure alltoall bf16.safetensors:act.residual.1.step199 "$@"
measure alltoall bf16.safetensors:act.mlp_in.1.step5 "$@"
measure alltoall bf16.safetensors:actgrad.mlp_out.1.step199 "$@"

"$zipccl" inspect data/*.safetensors --html "$page" >"$results/log" 2>&1 || { cat "$results/log" >&2 && exit 3; }

printf '\n'
python3 -B scripts/lib/demo_table.py "$results"
printf '\nWhat the tensors look like, and what your link would gain: %s\n' "$PWD/$page"
exit "$status"
