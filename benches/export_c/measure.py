"""Size and instructions of exported policies on a Cortex-M4, which qemu emulates: python benches/export_c/measure.py policy.h...

A policy is a file of `operant export RUN --c policy.h`. Needs gcc, arm-none-eabi-gcc with its libc and qemu-system-arm; on Debian the packages
gcc-arm-none-eabi, libnewlib-arm-none-eabi and qemu-system-arm. qemu counts instructions, not cycles: a Cortex-M4 takes one cycle for most of
them, two and more for loads and branches that are taken, and 14 for a division or a square root of floats.
"""

import argparse
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
TARGET = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"]
OPTIONS = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror"]
LINK = ["-nostartfiles", "-Wl,--gc-sections", "--specs=nosys.specs", "-ffunction-sections", "-fdata-sections"]
EPISODE = 50
# Two instructions in each of 1,000,000 loops.
CALIBRATION = 2_000_000
TOLERANCE = 1e-5


def run(command: list, **options) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
    if done.returncode:
        sys.exit(f"{command[0]} failed:\n{done.stderr or done.stdout}")
    return done.stdout


def observations(header: str, count: int) -> str:
    """Random observations: small whole numbers where the comment lists bits or indices, real numbers elsewhere."""
    size = int(re.search(r"#define POLICY_OBSERVATIONS (\d+)", header)[1])
    comment = header[: header.index("*/")]
    is_binary = re.search(r"bits|index|indices", comment.split("action,")[0]) is not None
    draw = random.Random(1)
    number = (lambda: str(draw.randrange(2))) if is_binary else (lambda: f"{draw.uniform(-1.0, 1.0):.6f}f")
    rows = ",\n".join("{" + ", ".join(number() for _ in range(size)) + "}" for _ in range(count))
    return (
        f"#define OBSERVATIONS {count}\n#define EPISODE {EPISODE}\n"
        f"static const float observations[OBSERVATIONS][POLICY_OBSERVATIONS] = {{\n{rows}\n}};\n"
    )


def sections(size: str) -> dict:
    return {line.split()[0]: int(line.split()[1]) for line in size.splitlines() if line.startswith(".")}


def floats(lines: list) -> list:
    return [struct.unpack(">f", bytes.fromhex(line))[0] for line in lines]


def measure(header: Path, count: int, qemu: str) -> str:
    text = header.read_text()
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        (work / "policy.h").write_text(text)
        (work / "observations.h").write_text(observations(text, count))
        # The policy alone: its code, its constants, its struct.
        (work / "policy.c").write_text(
            '#include "policy.h"\nstruct policy policy;\n'
            "void act(const float *observation, const unsigned char *legal, float *action);\n"
            "void act(const float *observation, const unsigned char *legal, float *action)\n"
            "{\n    policy_act(&policy, observation, legal, action);\n}\n"
        )
        compiler = ["arm-none-eabi-gcc", *TARGET, *OPTIONS]
        run([*compiler, "-c", work / "policy.c", "-o", work / "policy.o"])
        alone = sections(run(["arm-none-eabi-size", "-A", work / "policy.o"]))
        elf = work / "m4.elf"
        run([*compiler, *LINK, "-T", HERE / "m4.ld", "-I", work, HERE / "m4.c", "-o", elf])
        command = [qemu, "-M", "mps2-an386", "-nographic", "-monitor", "none", "-serial", "none"]
        command += ["-semihosting-config", "enable=on,target=native", "-icount", "shift=0", "-kernel", elf]
        board = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, check=False)
        lines = re.findall(r"^[0-9a-f]{8}$", board.stdout + board.stderr, re.MULTILINE)
        if len(lines) < 2:
            sys.exit(f"qemu printed no result:\n{board.stdout}{board.stderr}")
        calibration, instructions = (int(line, 16) for line in lines[:2])
        if abs(calibration - CALIBRATION) > CALIBRATION / 100:
            sys.exit(f"the timer counts {calibration} for {CALIBRATION} instructions")
        if instructions == 0:
            sys.exit(f"{header} takes too many instructions for the timer; give fewer --observations than {count}")
        run(["gcc", *OPTIONS, "-I", work, HERE / "host.c", "-o", work / "host"])
        here, there = floats(run([work / "host"]).split()), floats(lines[2:])
        if len(here) != len(there):
            sys.exit(f"{len(there)} numbers of actions instead of {len(here)}")
        equal = sum(abs(a - b) <= TOLERANCE * max(1.0, abs(a)) for a, b in zip(here, there))
    code = sum(size for name, size in alone.items() if name.startswith(".text"))
    constants = sum(size for name, size in alone.items() if name.startswith(".rodata"))
    memory = sum(size for name, size in alone.items() if name.startswith((".bss", ".data")))
    return (
        f"{header}: code {code} B, constants {constants} B, struct {memory} B, "
        f"{instructions / count:.0f} instructions an action; {equal} of {len(here)} numbers as on this machine"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("policy", type=Path, nargs="+")
    parser.add_argument("--observations", type=int, default=200, help="actions of each policy")
    parser.add_argument("--qemu", default="qemu-system-arm", help="the emulator")
    args = parser.parse_args()
    for program in ["gcc", "arm-none-eabi-gcc", "arm-none-eabi-size", args.qemu]:
        if shutil.which(program) is None:
            sys.exit(f"{program} is not installed")
    for policy in args.policy:
        print(measure(policy, args.observations, args.qemu), flush=True)


if __name__ == "__main__":
    main()
