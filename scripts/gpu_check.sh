#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks and measures the GPU codec on a machine with a GPU: `scripts/gpu_check.sh OUT`. Runs the tests of
# tests/gpu, the four tools of compute-sanitizer over a part of them, and the benchmarks (`zipccl perf codec`, and
# those of bench/ for what it does not have); writes logs, the test report and the benchmarks' JSON files into the
# folder OUT, and prints a summary last.
#
# The programs are those of the folder BIN where that is set, those beside this script where it was packed
# with scripts/gpu_pack.sh, and else they are built for the GPU that is here. Tensors come from the folder DATA
# (data/). Where NVCOMP names the file libnvcomp.so.6, or it was packed too, the codec is also measured beside
# nvCOMP. STEPS says what is run ("tests sanitizers benchmarks nccl"). The step nccl needs NCCL: the file that NCCL
# names, or the one that PyTorch brought; with PyTorch its collectives and training are compared too. On one GPU ranks
# share it, each as a host of its own that others reach by TCP, and their kernels run at once where CUDA's
# multi-process service is there (one of its own is started, and ended). That tells bits, hangs and memory, and TCP's
# speed; NVLink and host memory are then not measured.
#
# Status 0 when all was run and nothing failed, 1 when something failed, 2 when nothing failed but something
# could not be run; what that was stands in the summary.

set -uo pipefail

if [ $# != 1 ]; then
  echo "usage: $0 OUT" >&2
  exit 2
fi
mkdir -p "$1" || exit 2
out=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)

if [ -z "${BIN:-}" ] && [ -x "$here/bin/gpu_codec_test" ]; then
  BIN=$here/bin
  DATA=${DATA:-$here/data}
fi
if [ -z "${BIN:-}" ]; then
  cd "$here/.." || exit 2
  # shellcheck source=scripts/lib/setup.sh
  . scripts/lib/setup.sh
  # shellcheck disable=SC2086 # a list of words
  require $packagesToBuild
  configure
  if ! grep -q '^CMAKE_CUDA_COMPILER:.*nvcc' "$buildFolder/CMakeCache.txt"; then
    echo "No nvcc on this machine: build elsewhere with scripts/gpu_pack.sh" >&2
    exit 2
  fi
  build gpu_codec_test gpu_codec_bench gpu_frames_bench zipccl_tool zipccl_faulty_codec nccl_collectives_bench \
    zipccl_preload
  tests=$PWD/$buildFolder/tests/gpu/gpu_codec_test
  bench=$PWD/$buildFolder/bench/gpu_codec_bench
  framesBench=$PWD/$buildFolder/bench/gpu_frames_bench
  ncclBench=$PWD/$buildFolder/bench/nccl_collectives_bench
  preload=$PWD/$buildFolder/lib/libzipccl_preload.so
  torchScripts=$PWD/tests/gpu
  zipccl=$PWD/$buildFolder/bin/zipccl
  faulty=$PWD/$buildFolder/tests/tools/zipccl_faulty_codec
  DATA=${DATA:-$PWD/data}
else
  # Absolute: the programs run in other folders.
  BIN=$(cd "$BIN" && pwd) || exit 2
  tests=$BIN/gpu_codec_test
  bench=$BIN/gpu_codec_bench
  framesBench=$BIN/gpu_frames_bench
  ncclBench=$BIN/nccl_collectives_bench
  preload=$BIN/../lib/libzipccl_preload.so
  torchScripts=$BIN/..
  zipccl=$BIN/zipccl
  faulty=$BIN/zipccl_faulty_codec
  DATA=${DATA:-$here/../data}
fi
if [ -z "${NVCOMP:-}" ] && [ -f "$here/lib/libnvcomp.so.6" ]; then
  NVCOMP=$here/lib/libnvcomp.so.6
fi
[ ! -d "$DATA" ] || DATA=$(cd "$DATA" && pwd)
for program in "$tests" "$bench" "$framesBench" "$zipccl" "$faulty" "$ncclBench"; do
  if [ ! -x "$program" ]; then
    echo "$program is not there" >&2
    exit 2
  fi
done
if ! "$zipccl" --version >/dev/null; then
  echo "$zipccl does not run" >&2
  exit 2
fi
export ZIPCCL_TEST_DATA_FOLDER=$DATA

summary=$out/summary.txt
: >"$summary"
failed=0
incomplete=0
note() { printf '%s\n' "$*" | tee -a "$summary"; }
noteFailed() {
  note "$@"
  failed=1
}
noteMissing() {
  note "$@"
  incomplete=1
}
started=$SECONDS
wants() { # step
  case " ${STEPS:-tests sanitizers benchmarks nccl} " in *" $1 "*) return 0 ;; esac
  return 1
}

# Tests -----------------------------------------------------------------------------------------------

runTests() {
  echo "Running the tests ..."
  testStatus=0
  ZIPCCL_TEST_LARGE=${ZIPCCL_TEST_LARGE:-1} timeout 300 "$tests" --gtest_output="xml:$out/tests.xml" \
    >"$out/tests.log" 2>&1 || testStatus=$?
  run=$(grep -c '^\[ RUN ' "$out/tests.log")
  passed=$(grep -c '^\[       OK \]' "$out/tests.log")
  skipped=$(grep -cE '^\[  SKIPPED \] .* \([0-9]+ ms\)$' "$out/tests.log")
  testLine="tests: $run run, $passed passed, $skipped skipped, status $testStatus, $((SECONDS - started)) s"
  if [ "$testStatus" != 0 ]; then
    noteFailed "FAILED  $testLine; see tests.log"
    grep -E '^\[  FAILED  \] .*\([0-9]+ ms\)$' "$out/tests.log" | head -n 20 | tee -a "$summary"
  elif [ "$skipped" = 0 ]; then
    note "ok      $testLine"
  fi
  if [ "$skipped" != 0 ]; then
    noteMissing "skipped $testLine"
    # The reason stands below the place of each skipped test; each reason once.
    grep -A1 -E ': Skipped$' "$out/tests.log" | grep -vE ': Skipped$|^--$' | sort | uniq -c | head -n 10 |
      tee -a "$summary"
  fi
  if grep -q '^no CUDA device' "$out/tests.log"; then
    noteMissing "NOT RUN: nothing was run on a GPU, so neither compute-sanitizer nor the benchmark were started"
    exit $((failed ? 1 : 2))
  fi
}

if wants tests; then
  runTests
else
  noteMissing "NOT RUN: the tests"
fi

# compute-sanitizer -------------------------------------------------------------------------------------

findSanitizer() {
  local candidate
  for candidate in "$(command -v compute-sanitizer)" "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer" \
    /usr/local/cuda*/bin/compute-sanitizer /usr/local/cuda*/compute-sanitizer/compute-sanitizer \
    /opt/nvidia/*/compute-sanitizer /opt/nvidia/*/*/compute-sanitizer; do
    if [ -n "$candidate" ] && [ -f "$candidate" ] && [ -x "$candidate" ]; then
      printf '%s\n' "$candidate"
      return
    fi
  done
}

# All kernels on every kind of tile, with and without a limit on blocks, aligned and not; bad bytes for
# memcheck, which alone sees reads out of bounds.
common='RoundTrip.EscapesAtEveryLimit:RoundTrip.GroupsOfEveryMixtureOfTiles:RoundTrip.MixedTiles'
common+=':RoundTrip.AlternatingRawAndEmptyTiles:RoundTrip.DecoderReadsOnlyWhatTheEncoderWrote'
common+=':RoundTrip.EveryKindOfCount:RoundTrip.EveryElementAlignment:RoundTrip.FewBlocks'
common+=':Streams.OneWorkspaceServesAThousandCalls:DecodeReduce.*:Batch.*'
filterOf() { # tool
  case $1 in
    memcheck)
      printf '%s' "$common:RoundTrip.EveryPlaceOfTheBorderInsideOneGroup:RoundTrip.EveryContent"
      printf '%s' ':RoundTrip.EveryCountOfTwoTiles:RoundTrip.RealTensors:Streams.ACaptured*'
      printf '%s' ':BadBytes.*:Parts/Mutations.*/0'
      ;;
    *) printf '%s' "$common" ;;
  esac
}

sanitizer=$(findSanitizer)
tools="memcheck racecheck initcheck synccheck"

sanitize() { # tool
  local log=$out/$1.log
  ZIPCCL_TEST_GPU_BUFFERS=exact timeout 240 "$sanitizer" --tool "$1" --error-exitcode 86 --print-limit 20 \
    "$tests" --gtest_filter="$(filterOf "$1")" >"$log" 2>&1
}

# Whether the tool reports a fault that is there.
seesPlanted() { # tool test
  local log=$out/$1.log status=0
  printf '\nA planted fault, which the tool must see:\n' >>"$log"
  ZIPCCL_TEST_GPU_BUFFERS=exact timeout 120 "$sanitizer" --tool "$1" --error-exitcode 86 --print-limit 2 \
    "$tests" --gtest_also_run_disabled_tests --gtest_filter="Planted.DISABLED_$2" >>"$log" 2>&1 || status=$?
  [ "$status" = 86 ]
}

runSanitizers() {
  if [ -z "$sanitizer" ]; then
    noteMissing "NOT RUN: compute-sanitizer is not on this machine: $tools"
  else
    echo "Running $sanitizer, four tools at once ..."
    sanitizersStarted=$SECONDS
    declare -A workers
    for tool in $tools; do
      sanitize "$tool" &
      workers[$tool]=$!
    done
    for tool in $tools; do
      status=0
      wait "${workers[$tool]}" || status=$?
      found=$(grep -E '^=+ .*SUMMARY' "$out/$tool.log" | tail -n 1 | sed 's/^=* *//')
      testsRun=$(grep -c '^\[ RUN ' "$out/$tool.log")
      line="$tool: $testsRun tests, status $status, ${found:-no summary}, $((SECONDS - sanitizersStarted)) s"
      if [ "$status" = 0 ] && [ -n "$found" ]; then
        note "ok      $line"
      else
        noteFailed "FAILED  $line; see $tool.log"
      fi
    done
    for planted in memcheck:ReadBehindABuffer initcheck:ReadOfWhatNothingWrote; do
      if seesPlanted "${planted%%:*}" "${planted#*:}"; then
        note "ok      ${planted%%:*} sees a planted fault"
      else
        noteFailed "FAILED  ${planted%%:*} does not see a planted fault; its silence means nothing"
      fi
    done
  fi
}

if wants sanitizers; then
  runSanitizers
else
  noteMissing "NOT RUN: compute-sanitizer"
fi

# The benchmarks ----------------------------------------------------------------------------------------

# From a folder in which all names are short: they stand in the JSON files.
place=$(mktemp -d) || exit 1

# Processes that share a GPU take turns of milliseconds, without this service.
isSharing=
startSharing() {
  if [ -z "${CUDA_MPS_PIPE_DIRECTORY:-}" ] && command -v nvidia-cuda-mps-control >/dev/null; then
    export CUDA_MPS_PIPE_DIRECTORY=$place/mps CUDA_MPS_LOG_DIRECTORY=$place/mps
    mkdir -p "$place/mps"
    if nvidia-cuda-mps-control -d >"$out/mps.log" 2>&1; then
      isSharing=1
      return
    fi
    unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
  fi
  note "        no multi-process service was started: unless one runs, ranks that share the GPU take turns"
}
stopSharing() {
  [ -n "$isSharing" ] || return 0
  isSharing=
  # Ten seconds for programs that still run.
  if ! echo "quit -t 10" | timeout 30 nvidia-cuda-mps-control >>"$out/mps.log" 2>&1; then
    noteFailed "FAILED  the multi-process service did not end; see mps.log"
  fi
  unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
}
trap 'stopSharing; rm -rf "${place:?}"' EXIT
ln -s "$DATA" "$place/data"

measure() { # name program argument...
  local name=$1 program=$2 status=0 line since=$SECONDS
  shift 2
  # shellcheck disable=SC2016 # expanded by the inner shell
  (cd "$place" && timeout 240 bash -c 'exec -a "$(basename "$0")" "$0" "$@"' "$program" "$@" -J "$name.json") \
    >"$out/$name.txt" 2>&1 || status=$?
  [ ! -f "$place/$name.json" ] || mv "$place/$name.json" "$out/"
  cat "$out/$name.txt"
  cat "$out/$name.txt" >>"$out/benchmarks.txt"
  line="$name: status $status, $((SECONDS - since)) s"
  if [ "$status" = 0 ]; then
    note "ok      $line"
  else
    noteFailed "FAILED  $line; see $name.txt"
  fi
}

runBenchmarks() {
  local codec=(perf codec --device gpu) tensors=() entry file tensor
  local large=(-b 256M -e 256M) others=(--data zeros:0.39 --data random-bits --data uniform-exponent --data widened)
  for entry in bf16:ag.17.step199 bf16:rs.1.step5 bf16:rs.17.step199 bf16:act.residual.1.step199 fp32:rs.1.step5; do
    file=${entry%%:*}.safetensors tensor=${entry#*:}
    if [ -f "$DATA/$file" ]; then
      tensors+=(--data "file:data/$file:$tensor")
    else
      noteMissing "NOT RUN: the benchmark on $tensor, $DATA/$file is not there"
    fi
  done
  : >"$out/benchmarks.txt"
  echo "Running the benchmarks ..."
  measure traffic "$bench" "traffic@256M,1G/0,528"
  measure frames "$framesBench"
  measure codec_sizes "$zipccl" "${codec[@]}" --against none -b 1M -e 1G -f 4
  measure codec_data "$zipccl" "${codec[@]}" --against none "${large[@]}" "${others[@]}" "${tensors[@]}"
  measure codec_wide "$zipccl" "${codec[@]}" --against none "${large[@]}" -d float
  measure codec_blocks "$zipccl" "${codec[@]}" --against none "${large[@]}" --max-blocks 16,33,66,132
  if [ -n "${NVCOMP:-}" ]; then
    measure codec_nvcomp "$zipccl" "${codec[@]}" --against nvcomp --nvcomp "$NVCOMP" "${large[@]}" \
      --data normal:0.02 "${tensors[@]}"
  else
    note "        codec_nvcomp: not measured, set NVCOMP to the file libnvcomp.so.6 of PyPI's nvidia-libnvcomp-cu13"
  fi

  local status=0
  ZIPCCL_TEST_FAULT=gpu:1 timeout 60 "$faulty" "${codec[@]}" --against none -b 1M -e 1M -n 1 \
    >"$out/planted.log" 2>&1 || status=$?
  if [ "$status" = 1 ] && grep -q 'WRONG BITS' "$out/planted.log"; then
    note "ok      the benchmark sees a planted wrong bit"
  else
    noteFailed "FAILED  the benchmark does not see a planted wrong bit (status $status); see planted.log"
  fi
}

if wants benchmarks; then
  runBenchmarks
else
  noteMissing "NOT RUN: the benchmarks"
fi

# NCCL ----------------------------------------------------------------------------------------------------

findNccl() {
  python3 - <<'END' 2>/dev/null
import glob, site, sysconfig
folders = [sysconfig.get_paths()["purelib"], *site.getsitepackages()]
found = [file for folder in folders for file in glob.glob(folder + "/nvidia/nccl/lib/libnccl.so.2")]
print(found[0])
END
}

linkVariables() { # link
  case $1 in
    host) echo "NCCL_P2P_DISABLE=1" ;;
    tcp) echo "NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_NET=Socket" ;;
    shared) echo "NCCL_NET=Socket" ;;
  esac
}

measureNccl() { # name link strategy megabytes
  local status=0 since=$SECONDS cases=()
  local one
  for one in AllGather:bfloat16:ag.17.step199 AlltoAll:bfloat16:act.residual.1.step199 \
    SendRecv:bfloat16:act.residual.1.step199 ReduceScatter:bfloat16:rs.1.step5 ReduceScatter:float:rs.1.step5 \
    AllReduce:bfloat16:rs.1.step5 Broadcast:bfloat16:ag.17.step199 AllGather:bfloat16:random; do
    cases+=(--case "$one")
  done
  [ "$2" != shared ] || cases+=(--shared)
  # shellcheck disable=SC2046 # a list of variables
  env $(linkVariables "$2") NCCL_NVLS_ENABLE=0 ZIPCCL_STRATEGY="$3" \
    ZIPCCL_COLLS=AllGather,AllReduce,AlltoAll,Broadcast,ReduceScatter,SendRecv timeout 120 "$ncclBench" \
    --nccl "$nccl" --data "$DATA" --link "$1" --megabytes "$4" "${cases[@]}" >"$out/nccl_$1.json" \
    2>"$out/nccl_$1.log" || status=$?
  if [ "$status" = 0 ]; then
    note "ok      nccl $1: $(wc -l <"$out/nccl_$1.json") cases, every bit right, $((SECONDS - since)) s"
  else
    noteFailed "FAILED  nccl $1: status $status; see nccl_$1.log and nccl_$1.json"
  fi
}

# Every collective of the command, small and large, each bit checked.
perfNccl() { # link argument...
  local link=$1 log status=0 since=$SECONDS one tables
  shift
  log=perf_nccl_$link$(printf '%s' "$@" | tr -cd 'a-z0-9').log
  : >"$out/$log"
  for one in all_gather all_reduce alltoall broadcast gather reduce_scatter scatter sendrecv router; do
    local words=("$one")
    [ "$one" != router ] || words=(alltoall --splits "file:$DATA/fp32.safetensors:router_counts.0.step119")
    # shellcheck disable=SC2046 # a list of variables
    env $(linkVariables "$link") NCCL_NVLS_ENABLE=0 timeout 120 "$zipccl" perf "${words[@]}" --transport nccl \
      --nccl "$nccl" -b 1000 -e 64M -f 40 -n 5 -w 1 "$@" >>"$out/$log" 2>&1 || status=$?
  done
  tables=$(grep -c '^# wrong elements: 0$' "$out/$log")
  if [ "$status" = 0 ] && [ "$tables" = 9 ]; then
    note "ok      perf over $link $*: $tables tables, every bit right, $((SECONDS - since)) s"
  else
    noteFailed "FAILED  perf over $link $*: $tables tables of 9, status $status; see $log"
  fi
}

# `variant` tells logs of one script apart.
variant=
checkTorch() { # link script argument...
  local link=$1 script=$2 status=0 log=$2.$1${variant:+.$variant}.log
  shift 2
  timeout 540 python3 "$torchScripts/$script" --preload "$preload" --link "$link" "$@" >"$out/$log" 2>&1 || status=$?
  if [ "$status" = 0 ]; then
    note "ok      $log: $(tail -n 1 "$out/$log")"
  else
    noteFailed "FAILED  $log: status $status, $(tail -n 1 "$out/$log")"
  fi
}

hasTorch() {
  python3 -c 'import torch' 2>/dev/null && return
  noteMissing "NOT RUN: PyTorch is not here"
  return 1
}

runNcclOnOneGpu() {
  noteMissing "NOT RUN: NVLink and host memory between two GPUs, and ranks as threads, need two GPUs"
  startSharing
  measureNccl shared_staged shared staged 64
  measureNccl shared_auto shared auto 1,8,64
  perfNccl shared --processes --ranks 2
  perfNccl shared --processes --ranks 4
  local torch=
  hasTorch && torch=1
  if [ -n "$torch" ]; then
    checkTorch shared torch_check.py --width 1024
    variant=hundred_steps checkTorch shared torch_check.py --width 1024 --steps 100 --parts fsdp --settings auto
    local few=(--width 1024 --settings staged --steps 5)
    variant=four_ranks checkTorch shared torch_check.py --width 1024 --steps 5 --settings auto,staged --ranks 4
    variant=one_connection CUDA_DEVICE_MAX_CONNECTIONS=1 checkTorch shared torch_check.py "${few[@]}"
    # Without the others: PyTorch's own all_to_all fails on such communicators (2.11: "operation in progress").
    variant=nonblocking TORCH_NCCL_USE_COMM_NONBLOCKING=1 checkTorch shared torch_check.py --width 1024 --steps 5 \
      --settings auto --parts coalesced,groups_and_streams,capture,fsdp,ddp
    # Ranks that take turns are a hundred times slower.
    local calls=(--calls 10000)
    [ -n "$isSharing" ] || calls=(--calls 500)
    checkTorch shared torch_soak.py "${calls[@]}"
    variant=four_ranks checkTorch shared torch_soak.py --ranks 4 "${calls[@]}"
  fi
  # What a killed process leaves of the service is not what is looked at.
  stopSharing
  [ -z "$torch" ] || checkTorch shared torch_faults.py
}

# As programs see them.
visibleGpus() {
  if [ -n "${CUDA_VISIBLE_DEVICES+set}" ]; then
    tr ',' '\n' <<<"$CUDA_VISIBLE_DEVICES" | grep -c .
  else
    nvidia-smi -L 2>/dev/null | grep -c '^GPU '
  fi
}

runNccl() {
  local nccl=${NCCL:-$(findNccl)} devices
  devices=$(visibleGpus)
  if [ "$devices" = 0 ] || [ ! -f "$nccl" ]; then
    noteMissing "NOT RUN: the step nccl needs a GPU and a libnccl.so.2 (set NCCL)"
    return
  fi
  if [ "$devices" = 1 ]; then
    runNcclOnOneGpu
    return
  fi
  measureNccl host_staged host staged 64,256
  measureNccl host_auto host auto 1,8,64
  measureNccl tcp_auto tcp auto 64
  measureNccl nvlink_auto nvlink auto 1,64,512
  perfNccl nvlink --ranks 2
  perfNccl host --processes --ranks 2
  hasTorch || return
  checkTorch host torch_check.py
  checkTorch nvlink torch_check.py
  variant=one_connection CUDA_DEVICE_MAX_CONNECTIONS=1 checkTorch host torch_check.py --settings staged
  variant=nonblocking TORCH_NCCL_USE_COMM_NONBLOCKING=1 checkTorch host torch_check.py --settings auto \
    --parts coalesced,groups_and_streams,capture,fsdp,ddp
  checkTorch host torch_soak.py
  checkTorch tcp torch_soak.py --calls 2000
  checkTorch host torch_faults.py
}

if wants nccl; then
  runNccl
else
  noteMissing "NOT RUN: NCCL"
fi

# ---------------------------------------------------------------------------------------------------------

result=passed
[ "$incomplete" = 0 ] || result="incomplete: see what was skipped or not run"
[ "$failed" = 0 ] || result=FAILED
[ ! -f "$out/benchmarks.txt" ] || cat "$out/benchmarks.txt" >>"$summary"
rm -f "$out/benchmarks.txt"
printf '\n'
note "gpu_check: $result, $((SECONDS - started)) s"
grep -E '^(ok|FAILED|skipped|NOT RUN)' "$summary"
[ "$failed" = 0 ] || exit 1
[ "$incomplete" = 0 ] || exit 2
