#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds what scripts/gpu_check.sh needs and packs it into a folder that can be taken to a machine with a GPU,
# its driver, and nothing else: `scripts/gpu_pack.sh FOLDER`, there `FOLDER/gpu_check.sh OUT`. Needs nvcc but no
# GPU. ARCHITECTURES says which GPUs it is for (90-real: H100 and H200), as CMAKE_CUDA_ARCHITECTURES does. Where
# NVCOMP names the file libnvcomp.so.6, it is taken along.

set -euo pipefail
if [ $# != 1 ]; then
  echo "usage: $0 FOLDER" >&2
  exit 2
fi
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib/setup.sh
. scripts/lib/setup.sh

# shellcheck disable=SC2086 # a list of words
require $packagesToBuild

# A folder of its own: its programs carry the C++ library with them.
buildFolder=build/gpu-pack
step "Configuring $buildFolder" cmake --preset ci -B "$buildFolder" -D ZIPCCL_CUDA=ON -D ZIPCCL_MPI=OFF \
  -D CMAKE_CUDA_ARCHITECTURES="${ARCHITECTURES:-90-real}" \
  -D CMAKE_EXE_LINKER_FLAGS="-static-libstdc++ -static-libgcc" \
  -D CMAKE_SHARED_LINKER_FLAGS="-static-libstdc++ -static-libgcc"
build gpu_codec_test gpu_codec_bench gpu_frames_bench zipccl_tool zipccl_faulty_codec nccl_collectives_bench \
  zipccl_preload

rm -rf "${folder:?}/bin" "${folder:?}/lib" "${folder:?}/data"
mkdir -p "$folder/bin" "$folder/lib" "$folder/data"
for program in tests/gpu/gpu_codec_test bench/gpu_codec_bench bench/gpu_frames_bench bin/zipccl \
  tests/tools/zipccl_faulty_codec bench/nccl_collectives_bench; do
  strip -o "$folder/bin/$(basename "$program")" "$buildFolder/$program"
done
mkdir "$folder/lib/zipccl"
strip -o "$folder/lib/zipccl/zipccl" "$buildFolder/lib/zipccl/zipccl"
# Programs find it in lib/ beside bin/, by the name that they were linked with.
library=$(objdump -p "$buildFolder/lib/libzipccl.so" | awk '$1 == "SONAME" { print $2 }')
strip -o "$folder/lib/$library" "$buildFolder/lib/libzipccl.so"
if [ -n "${NVCOMP:-}" ]; then
  cp "$NVCOMP" "$folder/lib/libnvcomp.so.6"
fi
cp data/*.safetensors "$folder/data/"
strip -o "$folder/lib/libzipccl_preload.so" "$buildFolder/lib/libzipccl_preload.so"
cp scripts/gpu_check.sh tests/gpu/torch_{check,soak,faults}.py tests/support/free_port.py "$folder/"

bytes=$(du -sb "$folder" | cut -f 1)
say "$folder: $((bytes / 1048576)) MiB. On the machine with the GPU: $(basename "$folder")/gpu_check.sh OUT"
