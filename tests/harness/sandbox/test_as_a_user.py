"""What a candidate can reach where nobody is root: the tests of confinement once more, by a process
that has given root up."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
USER = "61183"  # of nobody's: no judge's workers become it
# Root's home is closed to others, and the interpreter may lie in it: a home that holds nothing else
# takes its place.
BECOME = f"""
set -e
umask 022
home=$1 held=$2; shift 2
mount --rbind "$home" "$held"
mount -t tmpfs -o mode=755 tmpfs "$home"
while [ "$1" != -- ]; do mkdir -p "$home/$1"; mount --rbind "$held/$1" "$home/$1"; shift; done
umount -l "$held"
shift
exec setpriv --reuid {USER} --regid {USER} --clear-groups --no-new-privs "$@"
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that the user can reach and write to."""
    found = Path(tempfile.mkdtemp(prefix="kevolve-as-a-user-"))
    yield found
    shutil.rmtree(found)


def as_a_user(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    home, held, its_home, scratch = (
        Path.home().resolve(),
        folder / "held",
        folder / "home",
        folder / "scratch",
    )
    folder.chmod(0o755)
    held.mkdir(exist_ok=True)
    for its in (its_home, scratch):
        its.mkdir(exist_ok=True)
        os.chown(its, int(USER), int(USER))
    needed = {Path(p) for p in (sys.prefix, sys.base_prefix, ROOT)}
    inside = sorted(str(p.relative_to(home)) for p in needed if p.is_relative_to(home))
    environment = {
        **os.environ,
        "HOME": str(its_home),
        "TMPDIR": str(scratch),
        "KEVOLVE_TEST_CACHE": str(scratch),
        "PYTEST_ADDOPTS": "",  # verbose, it would warn of a database that this user cannot write
    }
    arguments = [
        "unshare",
        "--mount",
        "bash",
        "-c",
        BECOME,
        "become",
        str(home),
        str(held),
        *inside,
        "--",
        *command,
    ]
    return subprocess.run(
        arguments,
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )


def test_the_tests_of_confinement_pass(folder: Path) -> None:
    if os.geteuid():
        pytest.skip("not root: all other tests run as such a user already")
    if missing := [name for name in ("unshare", "setpriv", "mount") if shutil.which(name) is None]:
        pytest.skip(f"no {missing[0]} on this machine")
    try:
        tried = as_a_user(folder, sys.executable, "-c", "import os; print(os.getuid())")
    except OSError as error:
        pytest.skip(f"root cannot give files away here: {error}")
    if tried.stdout.strip() != USER:
        pytest.skip(f"nothing can be run as another user here: {tried.stderr.strip()[-300:]}")
    files = ["tests/harness/sandbox/test_confinement.py", "tests/harness/sandbox/test_levels.py"]
    done = as_a_user(
        folder,
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",  # which writes to a folder that is not the user's
        "-rs",
        "-k",
        "not task and not levels or landlock",
        *files,
    )
    assert done.returncode == 0, done.stdout
    assert "passed" in done.stdout
