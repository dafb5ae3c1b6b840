"""Builds sac_rltools.cpp as ppo_rltools.py does its own program."""

from pathlib import Path

from ppo_rltools import build

if __name__ == "__main__":
    build(Path(__file__).with_suffix(".cpp"))
