"""Builds ppo_rltools.cpp or sac_rltools.cpp: RLtools' PPO or SAC on Pendulum, with the BLAS library of this virtual environment.

It refuses a program that calls no BLAS, since RLtools' own loops are ten times slower. It prints the path of
the program, and versions.
"""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

from worker import versions

OPTIMIZED = ("-std=c++17", "-O3", "-march=native", "-ffast-math", "-DNDEBUG")
"""As RLtools' own Python interface compiles."""


def package(name: str) -> Path | None:
    """The directory of an installed package."""
    found = importlib.util.find_spec(name)
    return Path(found.submodule_search_locations[0]) if found and found.submodule_search_locations else None


def blas() -> tuple[str, list[str]]:
    """The package that has the BLAS library, and the compiler's flags for it."""
    openblas = package("scipy_openblas32")
    if openblas is None:
        include, library = Path(sys.prefix) / "include", Path(sys.prefix) / "lib"
        names = [f"-l:libmkl_{name}.so.3" for name in ("intel_lp64", "sequential", "core")]
        flags = ["-DRL_TOOLS_BACKEND_ENABLE_MKL", f"-I{include}", "-Wl,--no-as-needed", *names]
        return "mkl", [*flags, f"-L{library}", f"-Wl,-rpath,{library}"]
    # The functions of this build have a prefix.
    called = ("cblas_sgemm", "cblas_dgemm", "openblas_get_corename")
    flags = ["-DRL_TOOLS_BACKEND_ENABLE_OPENBLAS", *(f"-D{name}=scipy_{name}" for name in called)]
    library = openblas / "lib"
    return "scipy-openblas32", [*flags, f"-L{library}", f"-Wl,-rpath,{library}", "-lscipy_openblas"]


def printed(*command: str) -> str:
    """What a command prints; what it says about an error goes to stderr."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"error: {command[0]} failed with exit code {done.returncode}")
    return done.stdout


def build(source: Path) -> None:
    """Builds a program with the settings in the arguments: --num-envs 4 becomes -DPEER_NUM_ENVS=4."""
    program = Path(sys.prefix) / source.stem
    words = sys.argv[1:]
    settings = [
        f"-DPEER_{name.removeprefix('--').replace('-', '_').upper()}={value}"
        for name, value in zip(words[::2], words[1::2], strict=True)
    ]
    rltools = package("rltools")
    if rltools is None:
        sys.exit("error: no package rltools")
    library, flags = blas()
    headers = f"-I{rltools / 'external/rl_tools/include'}"
    printed("g++", *OPTIMIZED, *settings, headers, str(source), "-o", str(program), *flags)
    imported = printed("nm", "-D", "-u", str(program)).split()
    if not {"cblas_sgemm", "scipy_cblas_sgemm"} & {name.split("@")[0] for name in imported}:
        sys.exit("error: the program calls no BLAS: nn/operations_cpu_mux.h must precede the layers")
    compiler = {"g++": printed("g++", "-dumpfullversion").strip()}
    print(json.dumps({"program": str(program), "versions": versions("rltools", library) | compiler}))


if __name__ == "__main__":
    build(Path(__file__).with_suffix(".cpp"))
