#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Fuzzes the codec and the readers of files with libFuzzer, clang 14 and address and undefined-behaviour sanitizers:
# `scripts/fuzz.sh TARGETS MINUTES`, where TARGETS is a list in one argument or `all`. As many at once as there are
# cores (JOBS), each for so many minutes (a fraction will do). New inputs go to build/fuzz/corpus/TARGET, what shows a
# fault to build/fuzz/found/TARGET-*. With MERGE=1 the corpora in the repository then get what of the new inputs
# reaches code that they did not. Status 0 without a finding, 1 with one, 2 on a wrong argument or when packages are
# missing.

set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib/setup.sh

if [ $# != 2 ] || ! [[ $2 =~ ^[0-9]+(\.[0-9]+)?$ ]]; then
  say "usage: scripts/fuzz.sh all|\"TARGET...\" MINUTES"
  exit 2
fi

# shellcheck disable=SC2086 # a list of words
require $packagesToTest clang-14=clang-14 libclang-rt-14-dev=-

tree=build/fuzz
step "Configuring $tree" cmake --preset fuzz -D ZIPCCL_TOOLS=ON
if [ "$1" = all ]; then
  targets=$(ls $tree/fuzz_targets)
else
  targets=$1
fi
for target in $targets; do
  if [ ! -f "$tree/fuzz_targets/$target" ]; then
    say "No such target: $target. There are: $(ls $tree/fuzz_targets | tr '\n' ' ')"
    exit 2
  fi
done
# shellcheck disable=SC2086 # a list of words
step "Building $(echo $targets)" cmake --build $tree --parallel "$jobs" --target $targets

seconds=$(awk "BEGIN { print int($2 * 60 + 0.5) }")
mkdir -p $tree/found build/logs

fuzz() { # target
  local corpora=()
  mapfile -t corpora <"$tree/fuzz_targets/$1"
  mkdir -p "$tree/corpus/$1"
  nice -n 10 "$tree/tests/fuzz/$1" -max_total_time="$seconds" -max_len=16384 -timeout=60 -rss_limit_mb=4096 \
    -print_final_stats=1 -artifact_prefix="$tree/found/$1-" "$tree/corpus/$1" "${corpora[@]}" \
    >"build/logs/fuzz-$1.log" 2>&1 || return 1
  [ "${MERGE:-0}" = 1 ] || return 0
  # Through a folder with all that there was, so that only what is new comes to the first.
  local merged="$tree/merged/$1" file
  rm -rf "$merged"
  mkdir -p "$merged"
  find "${corpora[@]}" -type f -exec cp {} "$merged" ';'
  find "$merged" -type f >"$merged.before"
  nice -n 10 "$tree/tests/fuzz/$1" -merge=1 -max_len=16384 "$merged" "$tree/corpus/$1" \
    >>"build/logs/fuzz-$1.log" 2>&1
  find "$merged" -type f | grep -vxFf "$merged.before" | while read -r file; do cp "$file" "${corpora[0]}"; done
}
export -f fuzz
export tree seconds

say "Fuzzing for $2 min each, $jobs at once ..."
status=0
# shellcheck disable=SC2086 # a list of words
printf '%s\n' $targets | xargs -P "$jobs" -I{} bash -c 'fuzz {} || { echo "{}: a finding, or it did not run"; exit 1; }' >&2 ||
  status=1
for target in $targets; do
  say "$target: $(grep -h 'stat::number_of_executed_units\|stat::new_units_added' "build/logs/fuzz-$target.log" |
    sed 's/stat:://' | tr -s ' ' | tr '\n' ' ')"
done
if [ $status != 0 ]; then
  tail -n 50 build/logs/fuzz-*.log >&2
  say "Findings are in $tree/found; the logs in build/logs/fuzz-*.log"
fi
exit $status
