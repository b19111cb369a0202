#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The long runs that ctest shortens: 10^5 random collectives over threads, every bit verified and memory
# watched, and counts of 10^7. Arguments: the number of calls [100000], then arguments for the test program,
# such as --gtest_filter=Soak.*. Some minutes on two cores.

set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib/setup.sh

calls=${1:-100000}
[ $# = 0 ] || shift
# shellcheck disable=SC2086 # a list of words
require $packagesToTest
configure
build collectives_soak_test policy_test
ZIPCCL_SOAK_CALLS=$calls "$buildFolder/tests/collectives/collectives_soak_test" "$@"
"$buildFolder/tests/policy/policy_test" --gtest_filter='DecideProperty.*:Chunks.*:PairChunks.*'
