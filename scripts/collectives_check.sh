#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Measures the collectives on this machine: over emulated links, over shared memory where compression cannot
# pay, and with a late rank over MPI. Writes OUT, a JSON file with every sample of every run; docs/performance.md
# says what the runs are for. Wants the machine for itself, for some minutes.
#
#   scripts/collectives_check.sh OUT [RUN...]   all runs, or those whose names begin with a RUN

set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib/setup.sh

[ $# -ge 1 ] || { say "usage: $0 OUT [RUN...]"; exit 2; }
out=$(realpath "$1")
shift
wanted=("$@")

# shellcheck disable=SC2086 # a list of words
require $packagesToTest
configure
build zipccl_tool zipccl_mpi late_rank_bench
zipccl=$buildFolder/bin/zipccl
samples=$(mktemp -d)
trap 'rm -rf "$samples"' EXIT

isWanted() { # name
  local each
  [ ${#wanted[@]} -gt 0 ] || return 0
  for each in "${wanted[@]}"; do
    [ "${1#"$each"}" = "$1" ] || return 0
  done
  return 1
}

measure() { # name command...
  local name=$1
  shift
  isWanted "$name" || return 0
  say "$name: $*"
  "$@" -J "$samples/$(printf '%03d' "$(ls "$samples" | wc -l)")-$name.json"
}

# 64 MiB a rank: what a rank gives to an AllGather, and gets from a ReduceScatter.
parameters=file:data/bf16.safetensors:ag.17.step199
gradients=file:data/bf16.safetensors:rs.1.step5
widened=file:data/fp32.safetensors:rs.1.step5
for link in 2Gbit 10Gbit; do
  common=(--link $link -b 256M -e 256M -n 9)
  measure link "$zipccl" perf all_gather "${common[@]}" --data $parameters
  measure link "$zipccl" perf reduce_scatter "${common[@]}" --data $gradients
  measure link "$zipccl" perf reduce_scatter "${common[@]}" --data $widened
done

# Memory is faster than any codec: auto has to stay native, and cost nothing.
for collective in all_gather all_reduce alltoall broadcast reduce_scatter sendrecv; do
  measure memory "$zipccl" perf $collective --strategy auto -b 64K -e 16M -f 16 -n 101 --data $parameters
done

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
export ZIPCCL_PLUGIN_DIR=$PWD/$buildFolder/lib
mpirun=(mpirun -n 4)
measure late "${mpirun[@]}" "$buildFolder/bench/late_rank_bench" -n 25 --late-ms 1000

# MPI's own collectives beside the library's native ones.
for collective in all_gather all_reduce alltoall reduce_scatter; do
  measure mpi "${mpirun[@]}" "$zipccl" perf $collective --transport mpi --strategy auto -b 1M -e 16M -f 4 \
    -n 25 --data $parameters
done

python3 - "$samples" "$out" <<'PYTHON'
import json
import pathlib
import sys

runs = []
for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    runs.append({"name": path.stem.split("-", 1)[1], "report": json.loads(path.read_text())})
pathlib.Path(sys.argv[2]).write_text(json.dumps({"runs": runs}, indent=1) + "\n")
PYTHON
say "Wrote $out"
