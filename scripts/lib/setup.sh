# SPDX-License-Identifier: Apache-2.0
#
# What the scripts share, to be sourced from the root of the repository: finding and installing packages,
# running long steps with their progress shown, configuring and building.
#
#   require TOOL...     installs what is missing (as root), or names it and ends with status 2
#   step TITLE COMMAND  runs a command, shows that it moves, and its output only when it fails
#   usePreset PRESET    takes the tree of another preset than ci, build/PRESET
#   configure           configures the tree, build/ci where nothing else was said
#   build TARGET...     builds targets of it (all of it without one)
#   clearSettings       forgets the caller's settings of ZipCCL, which change what tests see

# Debian packages, and for each the command that shows it is there; "-" where only the package tells.
packagesOfCommand="g++=c++ cmake=cmake ninja-build=ninja libcli11-dev=- nlohmann-json3-dev=- python3=python3"
packagesToBuild="$packagesOfCommand libgtest-dev=-"
packagesToTest="$packagesToBuild pkg-config=pkg-config libopenmpi-dev=- openmpi-bin=mpiexec iproute2=ip"

preset=ci
buildFolder=build/$preset
jobs=${JOBS:-$(nproc)}
testJobs=$((jobs + 1)) # tests wait a third of their time: for messages, and for what must not happen

say() { printf '%s\n' "$*" >&2; }

isInstalled() { # package command
  if [ "$2" != - ]; then
    command -v "$2" >/dev/null
  elif command -v dpkg-query >/dev/null; then
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
  else
    # Not Debian: what the library is called here is for CMake to find out.
    true
  fi
}

require() { # package=command...
  local entry missing=()
  for entry in "$@"; do
    isInstalled "${entry%%=*}" "${entry#*=}" || missing+=("${entry%%=*}")
  done
  [ ${#missing[@]} -gt 0 ] || return 0

  local install=(apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 "${missing[@]}")
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    say "Missing: ${missing[*]}"
    say "On Debian 12, as root: apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
    exit 2
  fi
  export DEBIAN_FRONTEND=noninteractive
  # Package lists may be absent (a fresh system) or older than what the mirror still has.
  step "Installing ${missing[*]}" installWithUpdate "${install[@]}"
}

installWithUpdate() {
  "$@" || { apt-get update && "$@"; }
}

step() { # title command...
  local title=$1 started=$SECONDS log worker status=0 last shown=0
  shift
  mkdir -p build/logs
  log=build/logs/$(printf '%s' "$title" | tr -cs 'A-Za-z0-9\n' - | cut -c1-40).log
  # A process group of its own, so that an interrupted script can end the whole step, compilers and all.
  set -m
  "$@" >"$log" 2>&1 </dev/null &
  worker=$!
  set +m
  trap 'kill -TERM -- -'"$worker"' 2>/dev/null; exit 130' INT TERM
  [ -t 2 ] || say "$title ..."
  while kill -0 "$worker" 2>/dev/null; do
    if [ -t 2 ]; then
      last=$(tail -n 1 "$log" 2>/dev/null | tr -d '\r' | cut -c1-60)
      printf '\r\033[K%s ... %d s  %s' "$title" $((SECONDS - started)) "$last" >&2
    elif [ $((SECONDS - started - shown)) -ge 20 ]; then
      shown=$((SECONDS - started))
      say "  $shown s: $(tail -n 1 "$log" | cut -c1-80)"
    fi
    sleep 0.2
  done
  wait "$worker" || status=$?
  trap - INT TERM
  [ ! -t 2 ] || printf '\r\033[K' >&2
  if [ "$status" != 0 ]; then
    say "$title: failed with status $status, the end of $log:"
    tail -n 60 "$log" >&2
    exit 1
  fi
  say "$title: done in $((SECONDS - started)) s"
}

usePreset() { # preset
  preset=$1
  buildFolder=build/$preset
}

configure() {
  # With a GPU here, its own architecture; without, one that merely shows that the code compiles.
  local architecture=90-real
  if command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q GPU; then
    architecture=native
  fi
  # A tree that was copied or moved here remembers where it was.
  local fresh=
  if [ -f "$buildFolder/CMakeCache.txt" ] &&
    ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" "$buildFolder/CMakeCache.txt"; then
    fresh=--fresh
  fi
  step "Configuring $buildFolder" cmake --preset "$preset" $fresh -D CMAKE_CUDA_ARCHITECTURES=$architecture
}

build() { # target...
  step "Building ${*:-everything}" cmake --build "$buildFolder" --parallel "$jobs" ${1:+--target "$@"}
}

clearSettings() {
  local name
  for name in "${!ZIPCCL_@}"; do
    case $name in
      ZIPCCL_TEST_*) ;; # meant for tests
      *) unset "$name" ;;
    esac
  done
}
