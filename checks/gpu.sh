#!/usr/bin/env bash
# Does the GPU path work, and how fast is it? Within eight minutes, on a machine with a GPU and without a network:
#
#     bash checks/gpu_wheels.sh          # before, where there is a network: .gpu-wheels, to be copied as well
#     bash checks/gpu.sh --out FOLDER    # on the machine: gpu.md, gpu.json and gpu.log in FOLDER
#     bash checks/gpu.sh --device cpu    # a rehearsal of a minute, with small sizes
#
# checks/gpu.py says what is run. Wheels of .gpu-wheels that the machine's Python lacks are installed into a temporary
# folder. PYTHON is the interpreter, by default python3.
set -euo pipefail
cd "$(dirname "$0")/.."

python="${PYTHON:-python3}"
site="$(mktemp -d)"
trap 'rm -rf "$site"' EXIT
missing="$("$python" - .gpu-wheels/*.whl <<'PYTHON'
import sys
from importlib.metadata import distributions
from pathlib import Path

there = {(found.metadata["Name"] or "").lower().replace("-", "_") for found in distributions()}
wheels = (Path(name) for name in sys.argv[1:])
print(*(wheel for wheel in wheels if wheel.exists() and wheel.name.split("-")[0].lower() not in there))
PYTHON
)"
if [ -n "$missing" ]; then
    # shellcheck disable=SC2086 (one wheel a word)
    "$python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps --target "$site" $missing
fi
export PYTHONPATH="$PWD:$site${PYTHONPATH:+:$PYTHONPATH}"
"$python" checks/gpu.py "$@"
