//! The flags that change the configuration, shared by `train` and `config`.

use std::path::PathBuf;

use operant_run::CommandLine;

/// Flags that lie over every other layer of configuration.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Configuration")]
pub struct Overrides {
    /// Environments stepped in parallel (num_envs). auto: on a GPU as many as fit memory_fraction of its free memory and
    /// leave 100 updates within the steps, since more would not learn; on the CPU as many as the preset has
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub envs: Option<String>,
    /// Environment steps to train for, over all environments (total_timesteps); 2e5 and 200_000 are both understood
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub steps: Option<String>,
    /// Seed of every random stream
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub seed: Option<String>,
    /// What trains: auto, cpu, cuda or cuda:K (K as CUDA counts GPUs), or several in order (cuda:1,cpu); auto takes a GPU where
    /// one is usable and the environment has a preset for GPUs
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// What the network's matrix products are computed in: f32, or on a GPU tf32 or bf16
    #[arg(long, value_name = "PRECISION")]
    pub precision: Option<String>,
    /// Play each horizon beside the update before it (overlap), so with weights that are one update old; on GPUs only
    #[arg(long)]
    pub overlap: bool,
    /// Suit threads and their waiting to this machine (optimize_perf), or take plain defaults: true or false
    #[arg(long, value_name = "BOOL")]
    pub optimize_perf: Option<String>,
    /// TOML file laid over the preset and every operant.toml
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Set any key of the configuration; repeatable (env.NAME=VALUE sets an option of the environment)
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Directory that holds the runs [default: runs]
    #[arg(long, value_name = "DIR")]
    pub run_dir: Option<String>,
    /// Name of the run [default: made of environment, seed and time]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
}

impl Overrides {
    /// What the command line contributes to the configuration.
    pub fn command_line(&self) -> CommandLine {
        let flags = [
            ("num_envs", "--envs", &self.envs),
            ("total_timesteps", "--steps", &self.steps),
            ("seed", "--seed", &self.seed),
            ("device", "--device", &self.device),
            ("precision", "--precision", &self.precision),
            ("optimize_perf", "--optimize-perf", &self.optimize_perf),
            ("run_dir", "--run-dir", &self.run_dir),
            ("name", "--name", &self.name),
        ];
        let switches = [("overlap", "--overlap", self.overlap)];
        let given = |(key, flag, value): (_, _, &Option<String>)| Some((key, flag, value.clone()?));
        let on =
            switches.into_iter().filter(|(.., on)| *on).map(|(key, flag, _)| (key, flag, "true".to_string()));
        CommandLine {
            config: self.config.clone(),
            set: self.set.clone(),
            flags: flags.into_iter().filter_map(given).chain(on).collect(),
        }
    }
}
