#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the long form of the tests that have one, with address and undefined-behaviour sanitizers: a million mutations
# for each implementation of the codec, a hundred million random words. Some 20 minutes on two cores. Arguments go to
# ctest. Status 0 when all passed.

set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib/setup.sh

# shellcheck disable=SC2086 # a list of words
require $packagesToTest libsimde-dev=-
step "Configuring build/cpu" cmake --preset cpu -D ZIPCCL_TOOLS=OFF
targets="codec_bad_bytes_test codec_round_trip_test codec_emulated_test"
# shellcheck disable=SC2086 # a list of words
step "Building $targets" cmake --build build/cpu --parallel "$jobs" --target $targets
ZIPCCL_TEST_LONG=1 nice -n 10 ctest --preset cpu --parallel "$jobs" --verbose -R '\.(Mutations|Avx512Emulated|Float32Words)\.' "$@"
