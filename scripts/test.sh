#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what is missing, builds everything and runs every test. Arguments go to ctest:
# `scripts/test.sh -L codec`. Tests do not see settings of ZipCCL (ZIPCCL_...) that are in the environment. Status 0
# when all passed, 1 when not, 2 when packages are missing.

set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib/setup.sh

# shellcheck disable=SC2086 # a list of words
require $packagesToTest
configure
build
clearSettings
ctest --test-dir "$buildFolder" --output-on-failure --no-tests=error --parallel "$testJobs" "$@" || exit 1
