#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Measures the host codec beside memcpy, zstd -1, lz4 and, where pip brings it, ZipNN, all in one thread of an idle
# machine: `scripts/host_bench.sh OUT.json [REPETITIONS]`. Prints the rows of the table in docs/performance.md. With
# BENCH=PROGRAM that host_codec_bench is run, and nothing is built or installed.

set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib/setup.sh

out=${1:?usage: scripts/host_bench.sh OUT.json [REPETITIONS]}
repetitions=${2:-7}
bench=${BENCH:-}
venv=build/zipnn

if [ -z "$bench" ]; then
  # shellcheck disable=SC2086 # a list of words
  require $packagesToTest libbenchmark-dev=- libzstd-dev=- liblz4-dev=-
  configure
  build host_codec_bench
  bench=$buildFolder/bench/host_codec_bench
fi
mkdir -p build/logs
# torch, which ZipNN names too, is for tensors alone and takes gigabytes.
if [ -z "${BENCH:-}" ] && [ ! -x $venv/bin/python ]; then
  say "Installing ZipNN ..."
  { python3 -m venv $venv && $venv/bin/pip install -q numpy safetensors setuptools &&
    $venv/bin/pip install -q --no-deps zipnn; } >build/logs/zipnn-install.log 2>&1 ||
    say "No ZipNN here, it is left out: build/logs/zipnn-install.log"
fi

say "Measuring ..."
"$bench" --benchmark_repetitions="$repetitions" --benchmark_min_time=0.05 \
  --benchmark_enable_random_interleaving=true --benchmark_out=build/logs/host_bench.json \
  --benchmark_out_format=json ${FILTER:+--benchmark_filter="$FILTER"} >build/logs/host_bench.log 2>&1
extra=()
if [ -x $venv/bin/python ] && $venv/bin/python -B bench/zipnn_bench.py "$repetitions" >build/logs/zipnn.json; then
  extra=(build/logs/zipnn.json)
fi
machine=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)
python3 -B bench/host_bench_report.py "$machine" build/logs/host_bench.json "${extra[@]}" >"$out"
