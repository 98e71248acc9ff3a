#!/usr/bin/env bash
# Downloads what checks/gpu.sh needs and a machine with a GPU may lack, as wheels for Linux and Python 3.12:
#
#     bash checks/gpu_wheels.sh              # 1.1 MB, into .gpu-wheels, which git ignores
#
# The machine is expected to have torch, numba, networkx, scipy, gpytorch, botorch, torch-geometric and pytest;
# checks/gpu.sh names what is still missing there.
set -euo pipefail
cd "$(dirname "$0")/.."

rm -rf .gpu-wheels
"${PYTHON:-python3}" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    --python-version "${GPU_PYTHON:-3.12}" --implementation cp \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_24_x86_64 --platform manylinux2014_x86_64 \
    --constraint constraints.txt --dest .gpu-wheels \
    platformdirs pymetis requests trimesh
du -h .gpu-wheels/*.whl
