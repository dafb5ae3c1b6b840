"""What the measurements ran on: processor, GPU, system and date, and what else kept the machine busy."""

import datetime
import os
import platform
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

from installation import ROOT
from worker import usable_cores


def output(*command: str) -> str:
    """What a command prints on stdout, or nothing where it does not exist or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def processor() -> str:
    """The processor's own name for itself."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return output("sysctl", "-n", "machdep.cpu.brand_string") or platform.processor()
    facts = dict(line.split(":", 1) for line in lines if ":" in line)
    named = {key.strip(): value.strip() for key, value in facts.items()}
    family = ", ".join(f"{key} {named[key]}" for key in ("cpu family", "model") if key in named)
    name = named.get("model name", platform.processor())
    return f"{name} ({family})" if family else name


def is_intel() -> bool:
    """Whether the processor is Intel's."""
    return "Intel" in processor()


def describe(binary: Path, device: str) -> dict[str, Any]:
    """Machine, versions and date."""
    facts = {
        "processor": processor(),
        "cores": usable_cores(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "operant": output(str(binary), "--version"),
        "commit": output("git", "describe", "--always", "--dirty"),
        "date": datetime.date.today().isoformat(),
    }
    if device == "gpu":
        facts["gpu"] = output("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    return facts


def stolen_seconds() -> float | None:
    """Seconds of all cores that the hypervisor gave to others since the start of the machine."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    except OSError:
        return None
    return int(fields[8]) / os.sysconf("SC_CLK_TCK")


class Load:
    """What else happened on the machine from here on."""

    def __init__(self) -> None:
        self.started, self.stolen, self.average = time.monotonic(), stolen_seconds(), os.getloadavg()[0]

    def since(self) -> dict[str, Any]:
        """The load before, the share of the cores' time that was stolen, and the seconds that passed."""
        seconds, stolen = time.monotonic() - self.started, stolen_seconds()
        known = self.stolen is not None and stolen is not None
        share = (stolen - self.stolen) / (seconds * usable_cores()) if known else None
        return {"load_average_before": self.average, "stolen_share": share, "seconds": seconds}


def core_ticks() -> dict[int, tuple[int, int]]:
    """Busy and all ticks of each core that this process may use, since the start of the machine."""
    usable, ticks = os.sched_getaffinity(0), {}
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name != "cpu" and int(name[3:]) in usable:
            # User, nice, system, idle, waiting for I/O, two kinds of interrupts, stolen.
            counts = [int(field) for field in fields[:8]]
            ticks[int(name[3:])] = (sum(counts) - counts[3] - counts[4], sum(counts))
    return ticks


def shares(before: dict[int, tuple[int, int]], after: dict[int, tuple[int, int]]) -> list[float]:
    """Busy share of each core between two readings."""
    pairs = [(before[core], after[core]) for core in after if core in before]
    return [(new[0] - old[0]) / max(1, new[1] - old[1]) for old, new in pairs]


def balance(utilization: list[float]) -> float | None:
    """The least busy core over the most busy one: 1 is even."""
    return min(utilization) / max(utilization) if utilization and max(utilization) > 0 else None


class Cores:
    """Utilization of each core from here on, by whatever runs on it; `read` is called every second."""

    def __init__(self) -> None:
        self.first = self.last = core_ticks()
        self.each_second: list[float] = []

    def read(self) -> None:
        """Adds the time since the last reading."""
        now = core_ticks()
        ratio = balance(shares(self.last, now))
        self.each_second += [ratio] if ratio is not None else []
        self.last = now

    def summary(self) -> dict[str, Any]:
        """Utilization of each core, their mean, and the balance: over the whole time, and by the second."""
        cores = shares(self.first, self.last)
        return {
            "cores": [round(share, 4) for share in cores],
            "utilization": statistics.fmean(cores),
            "balance": balance(cores),
            "balance_each_second": statistics.fmean(self.each_second) if self.each_second else None,
        }
