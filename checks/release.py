"""Makes what is uploaded: sdist and wheel, checked, and the notes, in out/release.

python checks/release.py                    # with every Python of pyproject.toml that is on PATH
python checks/release.py --pythons 3.11

The checks are the parts `build` and `core` of checks/package.py, which tries much more. The notes
are the newest section of CHANGELOG.md. Nothing is uploaded: the last lines are what is left to do.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import tempfile
from pathlib import Path

from package import PROJECT, ROOT, Workplace, check_build, check_core, interpreters, run

OUT = ROOT / "out" / "release"


def newest_section(changelog: str) -> tuple[str, str]:
    """The title of the first section, such as "0.2.0", and the section without heading."""
    found = re.search(r"^## \[(.+?)\].*\n((?:(?!## ).*\n)*)", changelog, re.M)
    assert found is not None, "CHANGELOG.md has no section"
    return found[1], found[2].strip() + "\n"


def left_to_do(title: str, version: str, sdist: Path, changed: str) -> list[str]:
    """The steps of a person, in their order."""
    again = []
    if title != version:
        again.append(
            f"CHANGELOG.md begins with [{title}], not [{version}]: name and date the section, then "
            "repeat"
        )
    if changed:
        again.append("commit what is not committed, then repeat")
    digest = hashlib.sha256(sdist.read_bytes()).hexdigest()
    return [
        *again,
        f"git tag v{version} && git push origin v{version}",
        f"python -m twine upload {OUT.relative_to(ROOT)}/{PROJECT['name']}-*",
        f"conda-forge: recipe/recipe.yaml with the address of the sdist, sha256 {digest}",
    ]


def main() -> None:
    found = interpreters()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pythons", default=",".join(found), help="versions, with commas between")
    asked = parser.parse_args().pythons.split(",")
    if unknown := set(asked) - set(found):
        parser.error(f"--pythons takes {', '.join(found)}, not {', '.join(unknown)}")
    if not any(found[version] for version in asked):
        parser.error(f"none of Python {', '.join(asked)} is on PATH")
    with tempfile.TemporaryDirectory(prefix="graphrf-release-") as folder:
        work = Workplace(Path(folder), "")
        print(f"build: {check_build(work)}", flush=True)
        for version in asked:
            work.interpreter = found[version] or ""
            checked = check_core(work) if work.interpreter else "not on PATH, not tried"
            print(f"Python {version}: {checked}", flush=True)
        shutil.rmtree(OUT, ignore_errors=True)
        OUT.mkdir(parents=True)
        sdist, _ = (Path(shutil.copy(path, OUT)) for path in (work.sdist, work.wheel))
    title, notes = newest_section((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    (OUT / "notes.md").write_text(notes, encoding="utf-8")
    version = sdist.name.removeprefix(f"{PROJECT['name']}-").removesuffix(".tar.gz")
    print(
        f"{OUT.relative_to(ROOT)}: {', '.join(sorted(path.name for path in OUT.iterdir()))}\n"
        "\n"
        "Left to do:"
    )
    for step in left_to_do(title, version, sdist, run(["git", "status", "--porcelain"], cwd=ROOT)):
        print(f"  {step}")


if __name__ == "__main__":
    main()
