#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The long runs that ctest shortens: 10^5 random collectives over threads, and 10^5 random programs of NCCL's calls
# through the drop-in, on the fake NCCL, every bit verified and memory watched; and counts of 10^7. Arguments: the
# number of collectives [100000], then arguments for their test program, such as --gtest_filter=Soak.*. Half an hour on
# two cores.

set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib/setup.sh

calls=${1:-100000}
[ $# = 0 ] || shift
# shellcheck disable=SC2086 # a list of words
require $packagesToTest
configure
build collectives_soak_test dropin_sequences_test policy_test
ZIPCCL_SOAK_CALLS=$calls "$buildFolder/tests/collectives/collectives_soak_test" "$@"
"$buildFolder/tests/policy/policy_test" --gtest_filter='DecideProperty.*:Chunks.*:PairChunks.*'
ZIPCCL_TEST_LONG=1 "$buildFolder/tests/preload/dropin_sequences_test"
