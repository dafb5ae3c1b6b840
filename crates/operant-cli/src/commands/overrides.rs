//! The flags that change the configuration, shared by every command that has one; the settings declare them.

use clap::{Arg, ArgAction, ArgMatches, Command};
use operant_run::config::{Flag, Key, keys};
use operant_run::{CommandLine, Error};

/// Flags, which override every other layer of configuration.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    line: CommandLine,
}

impl Overrides {
    /// The command line's part of the configuration.
    pub fn command_line(&self) -> CommandLine {
        self.line.clone()
    }
}

/// The flags of commands that load a run.
#[derive(Debug, clap::Args)]
pub struct RunFlags {
    /// Set an option of the environment, such as the path of a file that was
    /// moved; repeatable
    #[arg(long, value_name = "env.NAME=VALUE")]
    set: Vec<String>,
    /// Directory that holds the runs [default: runs]
    #[arg(long, value_name = "DIR")]
    run_dir: Option<String>,
}

impl RunFlags {
    /// The command line's part of the configuration.
    pub fn command_line(&self) -> Result<CommandLine, Error> {
        if let Some(set) = self.set.iter().find(|set| !set.starts_with("env.")) {
            let error = Error::usage(format!("--set {set} is not an environment option"));
            return Err(error.remedy("give env.NAME=VALUE; `operant envs ENV` lists the options"));
        }
        let flags = self.run_dir.clone().map(|dir| ("run_dir", "--run-dir", dir));
        Ok(CommandLine {
            set: self.set.clone(),
            flags: flags.into_iter().collect(),
            ..CommandLine::default()
        })
    }
}

impl clap::Args for Overrides {
    fn augment_args(command: Command) -> Command {
        let heading = "Configuration";
        let flags = keys().filter_map(|key| argument(key, key.flag?));
        let config = Arg::new("config").long("config").value_name("FILE");
        let config = config.help(
            "TOML file that overrides the preset and every operant.toml, or a ppo.yml of RL Baselines3 Zoo",
        );
        let config = config.value_parser(clap::value_parser!(std::path::PathBuf));
        let set = Arg::new("set").long("set").value_name("KEY=VALUE").action(ArgAction::Append);
        let set = set.help(
            "Set any key of the configuration; repeatable (env.NAME=VALUE sets an option of the environment)",
        );
        command.args(flags.chain([config, set]).map(|argument| argument.help_heading(heading)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// The argument for the flag of a key.
fn argument(key: &'static Key, flag: Flag) -> Option<Arg> {
    let long = |flag: &'static str| Some(Arg::new(key.name).long(flag.strip_prefix("--")?));
    match flag {
        Flag::Value(flag, name) => {
            let help = format!("{} ({})", key.meaning(), key.name);
            Some(long(flag)?.value_name(name).help(help).allow_negative_numbers(true))
        }
        Flag::Switch(flag) => {
            let help = format!("{} ({} = true)", key.meaning(), key.name);
            Some(long(flag)?.help(help).action(ArgAction::SetTrue))
        }
        Flag::SwitchOff(flag, help) => {
            let help = format!("{help} ({} = false)", key.name);
            Some(long(flag)?.help(help).action(ArgAction::SetTrue))
        }
    }
}

impl clap::FromArgMatches for Overrides {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |key: &'static Key| match key.flag? {
            Flag::Value(flag, _) => Some((key.name, flag, matches.get_one::<String>(key.name)?.clone())),
            Flag::Switch(flag) => matches.get_flag(key.name).then(|| (key.name, flag, "true".to_owned())),
            Flag::SwitchOff(flag, _) => {
                matches.get_flag(key.name).then(|| (key.name, flag, "false".to_owned()))
            }
        };
        let config = matches.get_one("config").cloned();
        let set = matches.get_many("set").unwrap_or_default().cloned().collect();
        let flags = keys().filter_map(given).collect();
        Ok(Self { line: CommandLine { config, set, flags, ..CommandLine::default() } })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
