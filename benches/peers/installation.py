"""Virtual environments of the peers, one for each requirements file, and the operant binary."""

import functools
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WITH_OPERANT = ("operant", "workers")
"""Requirements whose environments also contain this tree's package."""


class Unavailable(Exception):
    """Something that cannot be had on this machine, with the reason."""


def target_directory() -> Path:
    """Where cargo builds, and where the virtual environments are kept."""
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


def say(text: str) -> None:
    """Progress goes to stderr; stdout is for the table."""
    print(text, file=sys.stderr, flush=True)


def python_for(requirements: str, venvs: Path) -> Path:
    """The interpreter of the environment for `requirements-NAME.txt`, made first where missing or stale."""
    requirements_file = HERE / f"requirements-{requirements}.txt"
    venv = venvs / requirements
    python = venv / "bin" / "python"
    stamp = venv / "requirements.sha256"
    digest = hashlib.sha256(requirements_file.read_bytes() + sys.version.encode()).hexdigest()
    if python.exists() and stamp.exists() and stamp.read_text() == digest:
        return with_operant(python) if requirements in WITH_OPERANT else python
    say(f"installing {requirements_file.name} into {venv}")
    shutil.rmtree(venv, ignore_errors=True)
    checked([sys.executable, "-m", "venv", str(venv)], f"{sys.executable} -m venv")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    checked([*pip, "-r", str(requirements_file)], f"pip install -r {requirements_file.name}")
    stamp.write_text(digest)
    return with_operant(python) if requirements in WITH_OPERANT else python


@functools.cache
def with_operant(python: Path) -> Path:
    """The interpreter, with the package of this tree as it is now."""
    say("building operant for Python")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    checked([*pip, "--force-reinstall", str(ROOT)], "pip install .")
    return python


def checked(command: list[str], what: str) -> None:
    """Runs a command to its end; what it said last is the reason if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    errors = [line for line in lines if line.upper().startswith("ERROR")] or lines
    raise Unavailable(f"{what} failed: {errors[-1] if errors else f'exit code {done.returncode}'}")


def operant_binary(given: Path | None) -> Path:
    """The binary to measure: the given one, or the release build of this tree, brought up to date."""
    if given is not None:
        if not os.access(given, os.X_OK) or given.is_dir():
            raise Unavailable(f"--operant {given}: no such program")
        return given.resolve()
    binary = target_directory() / "release" / "operant"
    if shutil.which("cargo"):
        say("building operant")
        checked(
            ["cargo", "build", "--release", "--manifest-path", str(ROOT / "Cargo.toml"), "-p", "operant"],
            "cargo build",
        )
    elif not binary.exists():
        raise Unavailable(f"no {binary}, and no cargo to build it with; give a binary with --operant PATH")
    return binary.resolve()
