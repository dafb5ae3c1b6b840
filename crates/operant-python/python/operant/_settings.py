"""Types of the settings of a run, written by `cargo xtask config-doc`. docs/configuration.md has ranges and defaults."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal, TypedDict


class Settings(TypedDict, total=False):
    """Keywords of `operant.train`."""

    algorithm: Literal["ppo", "pqn"]
    seed: int
    total_timesteps: int
    learning_rate: float
    anneal_lr: bool
    num_minibatches: int
    shuffle: Literal["samples", "blocks"]
    update_epochs: int
    max_grad_norm: float
    optimizer: Literal["adam", "radam"]
    adam_eps: float
    adam_beta1: float
    adam_beta2: float
    max_nonfinite_updates: int
    num_envs: int | Literal["auto"]
    num_steps: int
    gamma: float
    sequence_length: int
    norm_obs: bool
    norm_reward: bool
    clip_obs: float
    clip_reward: float
    encoder: Literal["auto", "embed", "embed_sum", "embed_mean"]
    embed_width: int
    conv: Sequence[Sequence[int]]
    hidden: Sequence[int]
    layer_norm: bool
    residual_blocks: int
    core: Literal["mlp", "mingru", "gru", "lstm"]
    core_width: int
    core_layers: int
    activation: Literal["tanh", "relu"]
    shared_trunk: bool
    pointer: bool
    log_std_init: float
    gae_lambda: float
    norm_adv: bool
    clip_coef: float
    clip_vloss: bool
    ent_coef: float
    vf_coef: float
    target_kl: float
    q_lambda: float
    start_e: float
    end_e: float
    exploration_fraction: float
    device: str | os.PathLike[str]
    precision: Literal["f32", "tf32", "bf16"]
    kernels: Literal["auto", "fused", "gemm"]
    memory_fraction: float
    overlap: bool
    deterministic: bool
    threads: int
    rollout_tile: int
    lane_width: int
    waiting: Literal["auto", "spin", "yield", "sleep"]
    pin: bool
    optimize_perf: bool
    cache_dir: str | os.PathLike[str]
    run_dir: str | os.PathLike[str]
    name: str | os.PathLike[str]
    checkpoint_interval: int
    keep_checkpoints: int
    eval_episodes: int
    eval_interval: int
    solved_at: float
    stop_when_solved: bool
    csv: bool
    tensorboard: bool
    ring: bool
    ring_group: bool
