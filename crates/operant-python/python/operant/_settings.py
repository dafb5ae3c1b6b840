"""Types, defaults and meanings of the settings of a run, written by `cargo xtask config-doc`. docs/configuration.md has ranges and defaults."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal, TypedDict


class Settings(TypedDict, total=False):
    """Keywords of `operant.train`."""

    algorithm: Literal["ppo", "pqn", "sac", "td3", "dqn"]
    """Learning algorithm; `operant config ENV --algorithm NAME` shows its settings."""
    seed: int
    """Seed of every random stream."""
    total_timesteps: int
    """Environment steps to train for, over all environments, rounded up to whole updates; `2e5` and `200_000` are both understood."""
    learning_rate: float
    """Learning rate at the start of training."""
    lr_schedule: Literal["linear", "constant", "kl"]
    """How the learning rate changes. `linear`: falls to zero over the updates. `kl`: after every minibatch, by its `approx_kl`: divided by 1.5 above twice `desired_kl`, multiplied by 1.5 below half of it, within `lr_min` and `lr_max`. `anneal_lr` of earlier versions is read as `linear` or `constant`."""
    desired_kl: float
    """KL divergence of a minibatch that `lr_schedule = "kl"` keeps to."""
    lr_min: float
    """Least learning rate of `lr_schedule = "kl"`."""
    lr_max: float
    """Greatest learning rate of `lr_schedule = "kl"`."""
    lr_warmup: float
    """Share of `total_timesteps` over which the learning rate first rises linearly to what `lr_schedule` says; 0 with `kl`."""
    vf_learning_rate: float
    """Learning rate of the value's network where it is separate; 0 is `learning_rate`. `linear` and `lr_warmup` change both alike, `kl` that of the policy alone."""
    num_minibatches: int
    """Minibatches per epoch; divides N T."""
    shuffle: Literal["samples", "blocks"]
    """Which samples a minibatch has. `samples`: any of the batch. `blocks`: the same share of each block of environments, so that processes or GPUs can share a run; docs/ppo.md 21 has the number of blocks."""
    update_epochs: int
    """Passes over each batch."""
    recompute_advantages: bool
    """Before every epoch after the first, compute the values of all samples again with the current network, and advantages and returns by them."""
    max_grad_norm: float
    """Gradient norm above which gradients are scaled down."""
    clip_grad: Literal["global", "network"]
    """Gradients whose norm `max_grad_norm` limits: all together, or those of policy and value apart where they have a network each."""
    value_loss: Literal["mse", "huber"]
    """Loss of a value: half the squared error (`mse`), or Huber, which is linear above `huber_delta` (`huber`)."""
    huber_delta: float
    """Absolute error above which `value_loss = "huber"` is linear."""
    optimizer: Literal["adam", "radam", "muon"]
    """Optimiser. `radam` (Liu et al. 2020) is Adam with a warm-up computed from `adam_beta2`. `muon` (Jordan et al. 2024) makes the steps of hidden matrices orthogonal; all other parameters have Adam's. On a GPU it needs the GEMM kernels."""
    adam_eps: float
    """Adam's epsilon."""
    adam_beta1: float
    """Adam's decay of the first moment."""
    adam_beta2: float
    """Adam's decay of the second moment."""
    muon_momentum: float
    """Muon's decay of the momentum of hidden matrices."""
    weight_decay: float
    """Decoupled weight decay (AdamW): before each step all parameters are multiplied by 1 - learning rate x this."""
    max_nonfinite_updates: int
    """Consecutive updates with a non-finite loss or gradient after which training stops."""
    num_envs: int | Literal["auto"]
    """N: environments stepped in parallel. `auto`: on a GPU as many as fit into `memory_fraction` of its free memory, but few enough for at least 100 updates within `total_timesteps`; on a CPU the preset's number."""
    num_steps: int
    """T: steps of each environment per update."""
    gamma: float
    """Discount of future rewards."""
    intrinsic: Literal["none", "counts", "rnd"]
    """Reward for exploring that is added to the task's; reported returns are those of the task. `counts`: `intrinsic_coef / sqrt(n)` for an observation that the episode shows the nth time. `rnd`: `intrinsic_coef` times the normalised error of a network that is trained to predict a fixed random one, random network distillation (docs/exploration.md)."""
    intrinsic_coef: float
    """Weight of the reward for exploring; `rnd`, whose errors are normalised, learned with 1 what it did not with 0.1."""
    intrinsic_gamma: float
    """Discount of a second value function, of the rewards of `intrinsic = "rnd"`, whose returns go on where episodes end (PPO). 0: one value function, of the sum of both rewards."""
    sequence_length: int
    """Steps that gradients go back through a core; divides `num_steps`, with a replay `batch_size`. Minibatches are made of whole sequences of that length, each starting from the state that the rollout had there. 0: the longest length of at least 16 steps that gives every minibatch at least 16 sequences; docs/ppo.md 22 has the rest of the rule. With a replay 0 is 32."""
    norm_obs: bool
    """Normalise observations by running mean and variance."""
    norm_reward: bool
    """Scale rewards, those for exploring included, by the running deviation of the discounted return."""
    clip_obs: float
    """Normalised observations are clipped to plus or minus this."""
    clip_reward: float
    """Normalised rewards are clipped to plus or minus this."""
    buffer_size: int
    """Transitions that the replay holds; new ones take the place of the oldest."""
    batch_size: int
    """Transitions of a minibatch."""
    learning_starts: int
    """Steps of random actions before learning begins, over all environments; also transitions that the replay has to hold for it."""
    updates_per_step: float
    """Minibatches that are learned from for each environment step, over all environments; fractions are carried over."""
    max_updates_per_step: float
    """Learn from more minibatches while environments in worker processes step, up to this many for each environment step. How many depends on the time that steps take, so the same seed gives other results. 0: those of `updates_per_step` alone."""
    burn_in: int
    """With a core: first steps of a sequence that only bring the memory up to date, before the `sequence_length` that are learned from."""
    n_step: int
    """Steps whose rewards a target adds up before it takes the value of a state."""
    tau: float
    """Share of the way that target networks go to the trained ones after each minibatch, or after each one that the policy learns from."""
    target_network_frequency: int
    """Number of these minibatches between two updates of the target networks."""
    policy_frequency: int
    """Minibatches of the critics for each one of the policy."""
    priority_exponent: float
    """Prioritised replay: sample each transition in proportion to this power of its last error (alpha); 0 samples uniformly."""
    priority_beta: float
    """Prioritised replay: exponent of the importance-sampling weights (beta) in the first update; it rises linearly to 1 in the last."""
    checkpoint_replay: bool
    """Save the replay with checkpoints, so that a resumed run continues bit for bit. Otherwise it fills a new one before it learns on."""
    start_e: float
    """Initial share of random actions (epsilon)."""
    end_e: float
    """Final share of random actions (epsilon), and the share in evaluations with sampled actions."""
    exploration_fraction: float
    """Share of `total_timesteps` over which epsilon falls linearly."""
    encoder: Literal["auto", "embed", "embed_sum", "embed_mean"]
    """How indices of observations enter the network. `auto`: one-hot. `embed`: each index takes a row of its part's table, positions side by side; `embed_sum`, `embed_mean`: the sum or mean over a part's positions. Bits, bytes and real numbers are not embedded."""
    embed_width: int
    """Columns of the tables of `embed`."""
    conv: Sequence[Sequence[int]]
    """Convolutions over the image in the observation: a list of [channels, kernel, stride], without padding. Other inputs skip them and enter the first hidden layer."""
    hidden: Sequence[int]
    """Widths of the hidden layers."""
    layer_norm: bool
    """Normalise the sums of each hidden layer over its units before the nonlinearity."""
    residual_blocks: int
    """Residual blocks after the hidden layers, whose last one is then linear: each adds W2 f(W1 norm(x)), four times as wide inside, to its inputs x; a normalisation follows the last block. With `activation = "relu"` and one hidden layer they are SimBa."""
    core: Literal["mlp", "mingru", "gru", "lstm"]
    """Layers between the hidden layers and the heads: none (`mlp`), or layers with memory, whose state each environment keeps during an episode, in self-play each side of it. Setting `mlp` also resets the memory keys of a preset."""
    core_width: int
    """Units of each layer of the core; 0 is the width of the last hidden layer."""
    core_layers: int
    """Layers of the core."""
    activation: Literal["tanh", "relu"]
    """Nonlinearity of the hidden layers."""
    shared_trunk: bool
    """One trunk for policy and value, or a network for each."""
    dueling: bool
    """Dueling network: the second half of the last layer's features gives the state's value, the first half the advantages, which are centred and added to it."""
    value_bins: int
    """Atoms of each value's distribution over the return (C51), evenly spaced from `value_min` to `value_max`; 1 learns the expected value alone."""
    value_min: float
    """Smallest atom of `value_bins`."""
    value_max: float
    """Largest atom of `value_bins`."""
    pointer: bool
    """Score each candidate that the observation lists, one for each action, with the hidden layers that also process the state, instead of one output for each action."""
    init: Literal["orthogonal", "pytorch"]
    """Initial weights. `orthogonal`: biases are zero. `pytorch`: those that PyTorch's layers begin with, weights and biases uniform within 1 / sqrt(inputs), of gru and lstm within 1 / sqrt(units)."""
    action_distribution: Literal["normal", "tanh", "beta"]
    """Distribution of real actions. `normal`: clipped to the bounds. `tanh`: a normal that tanh squashes into the bounds. `beta`: a Beta distribution between the bounds."""
    log_std: Literal["parameter", "network"]
    """Log standard deviations of real actions: parameters, or outputs of the network, between -5 and 2."""
    log_std_init: float
    """Initial log standard deviation of Gaussian policies."""
    gae_lambda: float
    """Lambda of generalised advantage estimation."""
    norm_adv: bool
    """Normalise advantages per minibatch."""
    clip_coef: float
    """Clipping range of the probability ratio."""
    clip_vloss: bool
    """Clip the value loss with the same range."""
    ent_coef: float
    """Weight of the entropy bonus."""
    vf_coef: float
    """Weight of the value loss."""
    norm_value: bool
    """Let the network compute values in units of the running deviation of returns, from their running mean."""
    vf_epochs: int
    """Epochs of the critic alone that follow those of an update; they need `shared_trunk = false`."""
    vtrace_rho: float
    """Advantages that `recompute_advantages` computes have their TD errors weighted by the probability ratio, at most this (V-trace's rho); 1 or more, or 0, which weights none."""
    vtrace_c: float
    """As `vtrace_rho`, for the part of an advantage that comes from later steps (V-trace's c)."""
    prio_alpha: float
    """Power of the sum of a sequence's |advantages| to which its share of the draws of an epoch is proportional; without memory a sequence is a sample. 0 visits each once."""
    prio_beta0: float
    """Power of the weights of advantages that make up for `prio_alpha`, in the first update; it grows linearly to 1 in the last."""
    target_kl: float
    """Stop an update's epochs when `approx_kl` exceeds this; 0 never stops."""
    rpo_alpha: float
    """Noise on the mean of real actions where an update computes log-probabilities (RPO, Rahman and Xue 2022): uniform within plus or minus this; 0 is PPO."""
    q_lambda: float
    """Lambda of the returns: 0 looks one step ahead, 1 to the end of the rollout."""
    alpha: float
    """Weight of the entropy; where it is learned, at the start."""
    autotune: bool
    """Learn the weight of the entropy, so that the entropy tends to `target_entropy` times the number of actions."""
    target_entropy: float
    """Entropy of each action, squashed to -1 .. 1, that `autotune` aims at, in nats."""
    exploration_noise: float
    """Deviation of the noise on actions in rollouts, and in evaluations with sampled actions, where the bounds are -1 and 1."""
    policy_noise: float
    """Deviation of the noise on the target policy's actions."""
    noise_clip: float
    """The noise on the target policy's actions is clipped to plus or minus this."""
    double_q: bool
    """Double Q-learning: in a target, the trained network chooses the action and the target network evaluates it; otherwise the target network does both."""
    device: str | os.PathLike[str]
    """Device: `cpu`, `cuda`, `cuda:K` (K as the CUDA driver counts), or a list in order of preference (`cuda:1,cuda:0,cpu`); the first usable one is taken. `auto` takes a GPU if one is usable and the environment has a preset for GPUs, else the CPU; operant.log has the reason."""
    precision: Literal["f32", "tf32", "bf16"]
    """Precision of the network's matrix products: `f32`, on a GPU `tf32` or `bf16`, on a CPU with AMX, or AMD's AVX512_BF16, `bf16` in fully connected layers."""
    kernels: Literal["auto", "fused", "gemm"]
    """How the network runs on a GPU: inside the kernels (`fused`), as matrix products (`gemm`), or as suits its shape (`auto`)."""
    memory_fraction: float
    """Share of a GPU's free memory that a run may take."""
    overlap: bool
    """On a GPU, overlap each rollout with the update before it, using weights that are one update old."""
    deterministic: bool
    """On several GPUs, add up in an order that gives the same bits for any number of them; docs/scale.md has what it costs."""
    threads: int
    """Worker threads; 0 leaves it to the plan: every usable hardware thread, up to 32."""
    rollout_tile: int
    """Environments that a thread steps together; 0 leaves it to the plan, which minimizes the time of the slowest thread."""
    lane_width: int
    """Has no effect: a build uses the full width of its vectors. Accepted so that existing configuration files stay valid."""
    waiting: Literal["auto", "spin", "yield", "sleep"]
    """How threads wait for their next job; `auto` leaves it to the plan."""
    pin: bool
    """Bind each thread to a CPU."""
    optimize_perf: bool
    """Choose threads, tiles and waiting for this machine; `false` uses fixed defaults."""
    cache_dir: str | os.PathLike[str]
    """Directory that keeps compiled kernels; the user's cache directory if absent."""
    run_dir: str | os.PathLike[str]
    """Directory that holds the runs."""
    name: str | os.PathLike[str]
    """Name of the run; generated from environment, seed and time if absent."""
    opponent: str | os.PathLike[str]
    """Who plays the other side of a game: `self` (self-play, the default), `pool` (policies that the run had earlier), `random`, `minimax:DEPTH`, `mcts:PLAYOUTS`, or a run or checkpoint, with `RUN@STEP` for a checkpoint that stays the same when the run is resumed. With self-play and a pool, evaluations are against random moves (docs/two-players.md)."""
    pool_size: int
    """Earlier policies that `opponent = "pool"` holds; a new one takes the place of the oldest."""
    pool_interval: int
    """Updates between two policies that enter the pool."""
    pool_latest: float
    """Share of the environments that play against the latest policy instead of an earlier one."""
    pool_sampling: Literal["uniform", "hardest"]
    """How earlier policies are drawn, one for each 16 environments before every rollout. `uniform`: all alike. `hardest`: in proportion to (1 - p)^2, where p is the agent's recent share of the points against a policy (prioritised fictitious self-play)."""
    checkpoint_interval: int
    """Updates between checkpoints; 0 saves at the end only."""
    keep_checkpoints: int | Literal["log"]
    """How many of the latest checkpoints are kept, in addition to the one with the best evaluation; `log` also saves and keeps four for each doubling of the updates, from the first."""
    eval_episodes: int
    """Greedy episodes in an evaluation."""
    eval_interval: int
    """Minimum number of updates between two evaluations for `solved_at`."""
    solved_at: float
    """Mean greedy return at which the environment counts as solved; the preset's threshold."""
    stop_when_solved: bool
    """Stop training at the first evaluation that reaches `solved_at`."""
    csv: bool
    """Write metrics.csv."""
    tensorboard: bool
    """Write a TensorBoard event file."""
    ring: bool
    """Publish metrics in shared memory, where monitors read them."""
    ring_group: bool
    """Let members of the user's group read them too."""


# Default, as TOML, and meaning of each.
SETTINGS: dict[str, tuple[str, str]] = {
    "algorithm": ("\"ppo\"", "Learning algorithm; `operant config ENV --algorithm NAME` shows its settings"),
    "seed": ("1", "Seed of every random stream"),
    "total_timesteps": ("500000", "Environment steps to train for, over all environments, rounded up to whole updates; `2e5` and `200_000` are both understood"),
    "learning_rate": ("0.00025", "Learning rate at the start of training"),
    "lr_schedule": ("\"linear\"", "How the learning rate changes. `linear`: falls to zero over the updates. `kl`: after every minibatch, by its `approx_kl`: divided by 1.5 above twice `desired_kl`, multiplied by 1.5 below half of it, within `lr_min` and `lr_max`. `anneal_lr` of earlier versions is read as `linear` or `constant`"),
    "desired_kl": ("0.01", "KL divergence of a minibatch that `lr_schedule = \"kl\"` keeps to"),
    "lr_min": ("0.00001", "Least learning rate of `lr_schedule = \"kl\"`"),
    "lr_max": ("0.01", "Greatest learning rate of `lr_schedule = \"kl\"`"),
    "lr_warmup": ("0.0", "Share of `total_timesteps` over which the learning rate first rises linearly to what `lr_schedule` says; 0 with `kl`"),
    "vf_learning_rate": ("0.0", "Learning rate of the value's network where it is separate; 0 is `learning_rate`. `linear` and `lr_warmup` change both alike, `kl` that of the policy alone"),
    "num_minibatches": ("4", "Minibatches per epoch; divides N T"),
    "shuffle": ("\"samples\"", "Which samples a minibatch has. `samples`: any of the batch. `blocks`: the same share of each block of environments, so that processes or GPUs can share a run; docs/ppo.md 21 has the number of blocks"),
    "update_epochs": ("4", "Passes over each batch"),
    "recompute_advantages": ("false", "Before every epoch after the first, compute the values of all samples again with the current network, and advantages and returns by them"),
    "max_grad_norm": ("0.5", "Gradient norm above which gradients are scaled down"),
    "clip_grad": ("\"global\"", "Gradients whose norm `max_grad_norm` limits: all together, or those of policy and value apart where they have a network each"),
    "value_loss": ("\"mse\"", "Loss of a value: half the squared error (`mse`), or Huber, which is linear above `huber_delta` (`huber`)"),
    "huber_delta": ("1.0", "Absolute error above which `value_loss = \"huber\"` is linear"),
    "optimizer": ("\"adam\"", "Optimiser. `radam` (Liu et al. 2020) is Adam with a warm-up computed from `adam_beta2`. `muon` (Jordan et al. 2024) makes the steps of hidden matrices orthogonal; all other parameters have Adam's. On a GPU it needs the GEMM kernels"),
    "adam_eps": ("0.00001", "Adam's epsilon"),
    "adam_beta1": ("0.9", "Adam's decay of the first moment"),
    "adam_beta2": ("0.999", "Adam's decay of the second moment"),
    "muon_momentum": ("0.95", "Muon's decay of the momentum of hidden matrices"),
    "weight_decay": ("0.0", "Decoupled weight decay (AdamW): before each step all parameters are multiplied by 1 - learning rate x this"),
    "max_nonfinite_updates": ("10", "Consecutive updates with a non-finite loss or gradient after which training stops"),
    "num_envs": ("16", "N: environments stepped in parallel. `auto`: on a GPU as many as fit into `memory_fraction` of its free memory, but few enough for at least 100 updates within `total_timesteps`; on a CPU the preset's number"),
    "num_steps": ("128", "T: steps of each environment per update"),
    "gamma": ("0.99", "Discount of future rewards"),
    "intrinsic": ("\"none\"", "Reward for exploring that is added to the task's; reported returns are those of the task. `counts`: `intrinsic_coef / sqrt(n)` for an observation that the episode shows the nth time. `rnd`: `intrinsic_coef` times the normalised error of a network that is trained to predict a fixed random one, random network distillation (docs/exploration.md)"),
    "intrinsic_coef": ("0.01", "Weight of the reward for exploring; `rnd`, whose errors are normalised, learned with 1 what it did not with 0.1"),
    "intrinsic_gamma": ("0.0", "Discount of a second value function, of the rewards of `intrinsic = \"rnd\"`, whose returns go on where episodes end (PPO). 0: one value function, of the sum of both rewards"),
    "sequence_length": ("0", "Steps that gradients go back through a core; divides `num_steps`, with a replay `batch_size`. Minibatches are made of whole sequences of that length, each starting from the state that the rollout had there. 0: the longest length of at least 16 steps that gives every minibatch at least 16 sequences; docs/ppo.md 22 has the rest of the rule. With a replay 0 is 32"),
    "norm_obs": ("false", "Normalise observations by running mean and variance"),
    "norm_reward": ("false", "Scale rewards, those for exploring included, by the running deviation of the discounted return"),
    "clip_obs": ("10.0", "Normalised observations are clipped to plus or minus this"),
    "clip_reward": ("10.0", "Normalised rewards are clipped to plus or minus this"),
    "buffer_size": ("1000000", "Transitions that the replay holds; new ones take the place of the oldest"),
    "batch_size": ("256", "Transitions of a minibatch"),
    "learning_starts": ("5000", "Steps of random actions before learning begins, over all environments; also transitions that the replay has to hold for it"),
    "updates_per_step": ("1.0", "Minibatches that are learned from for each environment step, over all environments; fractions are carried over"),
    "max_updates_per_step": ("0.0", "Learn from more minibatches while environments in worker processes step, up to this many for each environment step. How many depends on the time that steps take, so the same seed gives other results. 0: those of `updates_per_step` alone"),
    "burn_in": ("0", "With a core: first steps of a sequence that only bring the memory up to date, before the `sequence_length` that are learned from"),
    "n_step": ("1", "Steps whose rewards a target adds up before it takes the value of a state"),
    "tau": ("0.005", "Share of the way that target networks go to the trained ones after each minibatch, or after each one that the policy learns from"),
    "target_network_frequency": ("1", "Number of these minibatches between two updates of the target networks"),
    "policy_frequency": ("1", "Minibatches of the critics for each one of the policy"),
    "priority_exponent": ("0.0", "Prioritised replay: sample each transition in proportion to this power of its last error (alpha); 0 samples uniformly"),
    "priority_beta": ("0.4", "Prioritised replay: exponent of the importance-sampling weights (beta) in the first update; it rises linearly to 1 in the last"),
    "checkpoint_replay": ("false", "Save the replay with checkpoints, so that a resumed run continues bit for bit. Otherwise it fills a new one before it learns on"),
    "start_e": ("1.0", "Initial share of random actions (epsilon)"),
    "end_e": ("0.05", "Final share of random actions (epsilon), and the share in evaluations with sampled actions"),
    "exploration_fraction": ("0.5", "Share of `total_timesteps` over which epsilon falls linearly"),
    "encoder": ("\"auto\"", "How indices of observations enter the network. `auto`: one-hot. `embed`: each index takes a row of its part's table, positions side by side; `embed_sum`, `embed_mean`: the sum or mean over a part's positions. Bits, bytes and real numbers are not embedded"),
    "embed_width": ("16", "Columns of the tables of `embed`"),
    "conv": ("[]", "Convolutions over the image in the observation: a list of [channels, kernel, stride], without padding. Other inputs skip them and enter the first hidden layer"),
    "hidden": ("[64, 64]", "Widths of the hidden layers"),
    "layer_norm": ("false", "Normalise the sums of each hidden layer over its units before the nonlinearity"),
    "residual_blocks": ("0", "Residual blocks after the hidden layers, whose last one is then linear: each adds W2 f(W1 norm(x)), four times as wide inside, to its inputs x; a normalisation follows the last block. With `activation = \"relu\"` and one hidden layer they are SimBa"),
    "core": ("\"mlp\"", "Layers between the hidden layers and the heads: none (`mlp`), or layers with memory, whose state each environment keeps during an episode, in self-play each side of it. Setting `mlp` also resets the memory keys of a preset"),
    "core_width": ("0", "Units of each layer of the core; 0 is the width of the last hidden layer"),
    "core_layers": ("1", "Layers of the core"),
    "activation": ("\"tanh\"", "Nonlinearity of the hidden layers"),
    "shared_trunk": ("false", "One trunk for policy and value, or a network for each"),
    "dueling": ("false", "Dueling network: the second half of the last layer's features gives the state's value, the first half the advantages, which are centred and added to it"),
    "value_bins": ("1", "Atoms of each value's distribution over the return (C51), evenly spaced from `value_min` to `value_max`; 1 learns the expected value alone"),
    "value_min": ("-10.0", "Smallest atom of `value_bins`"),
    "value_max": ("10.0", "Largest atom of `value_bins`"),
    "pointer": ("false", "Score each candidate that the observation lists, one for each action, with the hidden layers that also process the state, instead of one output for each action"),
    "init": ("\"orthogonal\"", "Initial weights. `orthogonal`: biases are zero. `pytorch`: those that PyTorch's layers begin with, weights and biases uniform within 1 / sqrt(inputs), of gru and lstm within 1 / sqrt(units)"),
    "action_distribution": ("\"normal\"", "Distribution of real actions. `normal`: clipped to the bounds. `tanh`: a normal that tanh squashes into the bounds. `beta`: a Beta distribution between the bounds"),
    "log_std": ("\"parameter\"", "Log standard deviations of real actions: parameters, or outputs of the network, between -5 and 2"),
    "log_std_init": ("0.0", "Initial log standard deviation of Gaussian policies"),
    "gae_lambda": ("0.95", "Lambda of generalised advantage estimation"),
    "norm_adv": ("true", "Normalise advantages per minibatch"),
    "clip_coef": ("0.2", "Clipping range of the probability ratio"),
    "clip_vloss": ("true", "Clip the value loss with the same range"),
    "ent_coef": ("0.01", "Weight of the entropy bonus"),
    "vf_coef": ("0.5", "Weight of the value loss"),
    "norm_value": ("false", "Let the network compute values in units of the running deviation of returns, from their running mean"),
    "vf_epochs": ("0", "Epochs of the critic alone that follow those of an update; they need `shared_trunk = false`"),
    "vtrace_rho": ("0.0", "Advantages that `recompute_advantages` computes have their TD errors weighted by the probability ratio, at most this (V-trace's rho); 1 or more, or 0, which weights none"),
    "vtrace_c": ("0.0", "As `vtrace_rho`, for the part of an advantage that comes from later steps (V-trace's c)"),
    "prio_alpha": ("0.0", "Power of the sum of a sequence's |advantages| to which its share of the draws of an epoch is proportional; without memory a sequence is a sample. 0 visits each once"),
    "prio_beta0": ("0.2", "Power of the weights of advantages that make up for `prio_alpha`, in the first update; it grows linearly to 1 in the last"),
    "target_kl": ("0.0", "Stop an update's epochs when `approx_kl` exceeds this; 0 never stops"),
    "rpo_alpha": ("0.0", "Noise on the mean of real actions where an update computes log-probabilities (RPO, Rahman and Xue 2022): uniform within plus or minus this; 0 is PPO"),
    "q_lambda": ("0.65", "Lambda of the returns: 0 looks one step ahead, 1 to the end of the rollout"),
    "alpha": ("1.0", "Weight of the entropy; where it is learned, at the start"),
    "autotune": ("true", "Learn the weight of the entropy, so that the entropy tends to `target_entropy` times the number of actions"),
    "target_entropy": ("-1.0", "Entropy of each action, squashed to -1 .. 1, that `autotune` aims at, in nats"),
    "exploration_noise": ("0.1", "Deviation of the noise on actions in rollouts, and in evaluations with sampled actions, where the bounds are -1 and 1"),
    "policy_noise": ("0.2", "Deviation of the noise on the target policy's actions"),
    "noise_clip": ("0.5", "The noise on the target policy's actions is clipped to plus or minus this"),
    "double_q": ("true", "Double Q-learning: in a target, the trained network chooses the action and the target network evaluates it; otherwise the target network does both"),
    "device": ("\"auto\"", "Device: `cpu`, `cuda`, `cuda:K` (K as the CUDA driver counts), or a list in order of preference (`cuda:1,cuda:0,cpu`); the first usable one is taken. `auto` takes a GPU if one is usable and the environment has a preset for GPUs, else the CPU; operant.log has the reason"),
    "precision": ("\"f32\"", "Precision of the network's matrix products: `f32`, on a GPU `tf32` or `bf16`, on a CPU with AMX, or AMD's AVX512_BF16, `bf16` in fully connected layers"),
    "kernels": ("\"auto\"", "How the network runs on a GPU: inside the kernels (`fused`), as matrix products (`gemm`), or as suits its shape (`auto`)"),
    "memory_fraction": ("0.9", "Share of a GPU's free memory that a run may take"),
    "overlap": ("false", "On a GPU, overlap each rollout with the update before it, using weights that are one update old"),
    "deterministic": ("false", "On several GPUs, add up in an order that gives the same bits for any number of them; docs/scale.md has what it costs"),
    "threads": ("0", "Worker threads; 0 leaves it to the plan: every usable hardware thread, up to 32"),
    "rollout_tile": ("0", "Environments that a thread steps together; 0 leaves it to the plan, which minimizes the time of the slowest thread"),
    "lane_width": ("0", "Has no effect: a build uses the full width of its vectors. Accepted so that existing configuration files stay valid"),
    "waiting": ("\"auto\"", "How threads wait for their next job; `auto` leaves it to the plan"),
    "pin": ("false", "Bind each thread to a CPU"),
    "optimize_perf": ("true", "Choose threads, tiles and waiting for this machine; `false` uses fixed defaults"),
    "cache_dir": ("none", "Directory that keeps compiled kernels; the user's cache directory if absent"),
    "run_dir": ("\"runs\"", "Directory that holds the runs"),
    "name": ("none", "Name of the run; generated from environment, seed and time if absent"),
    "opponent": ("none", "Who plays the other side of a game: `self` (self-play, the default), `pool` (policies that the run had earlier), `random`, `minimax:DEPTH`, `mcts:PLAYOUTS`, or a run or checkpoint, with `RUN@STEP` for a checkpoint that stays the same when the run is resumed. With self-play and a pool, evaluations are against random moves (docs/two-players.md)"),
    "pool_size": ("16", "Earlier policies that `opponent = \"pool\"` holds; a new one takes the place of the oldest"),
    "pool_interval": ("20", "Updates between two policies that enter the pool"),
    "pool_latest": ("0.5", "Share of the environments that play against the latest policy instead of an earlier one"),
    "pool_sampling": ("\"uniform\"", "How earlier policies are drawn, one for each 16 environments before every rollout. `uniform`: all alike. `hardest`: in proportion to (1 - p)^2, where p is the agent's recent share of the points against a policy (prioritised fictitious self-play)"),
    "checkpoint_interval": ("100", "Updates between checkpoints; 0 saves at the end only"),
    "keep_checkpoints": ("3", "How many of the latest checkpoints are kept, in addition to the one with the best evaluation; `log` also saves and keeps four for each doubling of the updates, from the first"),
    "eval_episodes": ("100", "Greedy episodes in an evaluation"),
    "eval_interval": ("10", "Minimum number of updates between two evaluations for `solved_at`"),
    "solved_at": ("none", "Mean greedy return at which the environment counts as solved; the preset's threshold"),
    "stop_when_solved": ("false", "Stop training at the first evaluation that reaches `solved_at`"),
    "csv": ("true", "Write metrics.csv"),
    "tensorboard": ("true", "Write a TensorBoard event file"),
    "ring": ("true", "Publish metrics in shared memory, where monitors read them"),
    "ring_group": ("false", "Let members of the user's group read them too"),
}
