//! `operant replay`: plays given actions from given states and prints what happens, line by line.

use std::io::{self, BufRead, Read};

use operant_cuda::Device;
use operant_env::OptionValue;
use operant_env::replay::{Arithmetic, Case, CaseWords, Outcome};
use operant_env::{AnyEnv, Registry};
use operant_run::error::nearest;
use operant_run::{Error, config, device, gpu};
use serde_json::{Value, json};

use crate::output;

/// Maximum size of a GPU batch, as cases times the longest one's steps: some 30 MB of device memory.
const MOST_STEPS: usize = 1 << 18;

/// Play given actions from given states, without auto-reset
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Environment: a name such as cartpole or CartPole-v1, a file NAME.world, or a class in Python, module:Class
    env: String,
    /// Arithmetic of the rules; f64 exists on the scalar device only
    #[arg(long, value_parser = ["f64", "f32"])]
    precision: Option<String>,
    /// Device that runs them: scalar (one environment at a time), wide (SIMD lanes), cuda or cuda:K (a GPU, K as CUDA counts)
    #[arg(long = "device", value_name = "WHERE", value_parser = on, default_value = "scalar")]
    on: On,
    /// Set an option of the environment
    #[arg(long = "set", value_name = "env.NAME=VALUE", value_parser = option)]
    options: Vec<(String, OptionValue)>,
}

const AFTER_HELP: &str = "\
Reads lines {\"state\":[...],\"actions\":[...]} from stdin, the state in the
environment's own order, actions as numbers, or as lists for several
components. Where a step draws random numbers, \"draws\":[[numbers],...] may give
them, a list for each action; without it they come from seed 0. Writes a line
{\"obs\",\"reward\",\"terminated\",\"truncated\",\"state\"} for each, entry k after
action k; it stops with the episode.

A GPU plays many lines at once, so its output comes in batches; it prints the
same bytes as --device scalar --precision f32.

Examples:
  echo '{\"state\":[0,0,0.1,0],\"actions\":[1,1,0]}' | operant replay cartpole
  operant replay cartpole --device cuda < cases.jsonl";

/// The device that runs the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum On {
    Scalar,
    Wide,
    Cuda(usize),
}

fn on(text: &str) -> Result<On, String> {
    match text {
        "scalar" => Ok(On::Scalar),
        "wide" => Ok(On::Wide),
        _ => gpu::ordinal(text).map(On::Cuda).ok_or_else(|| "give scalar, wide, cuda or cuda:K".to_owned()),
    }
}

fn option(text: &str) -> Result<(String, OptionValue), String> {
    let parts = text.strip_prefix("env.").and_then(|text| text.split_once('='));
    let (name, value) = parts.ok_or_else(|| "give env.NAME=VALUE".to_owned())?;
    let value = config::option_value(name, value).map_err(|error| error.what)?;
    Ok((name.to_owned(), value))
}

/// Replays standard input.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    let options = args.options.iter().cloned().collect();
    let env = device::find(registry, &args.env)?.with_options(&options);
    let env = env.map_err(|error| Error::from(&error).at("--set"))?;
    let mut arithmetic = arithmetic(args)?;
    // Recorded worlds have no double precision.
    if env.file().is_some() && args.precision.is_none() && arithmetic == Arithmetic::F64 {
        arithmetic = Arithmetic::F32;
    }
    match args.on {
        On::Cuda(ordinal) => {
            let device = open(registry, ordinal)
                .map_err(|error| error.at(format!("--device {}", gpu::name(ordinal))))?;
            OnGpu { device, env: &*env }.play_all()?;
        }
        On::Scalar | On::Wide => {
            for case in cases() {
                let (case, place) = case?;
                let outcome = env.replay(arithmetic, &case);
                print(&outcome.map_err(|error| Error::from(error).at(place))?)?;
            }
        }
    }
    Ok(0)
}

/// The arithmetic of the host; a GPU has that of `F32`.
fn arithmetic(args: &Args) -> Result<Arithmetic, Error> {
    match (args.on, args.precision.as_deref()) {
        (On::Scalar, None | Some("f64")) => Ok(Arithmetic::F64),
        (On::Scalar | On::Cuda(_), None | Some("f32")) => Ok(Arithmetic::F32),
        (On::Wide, None | Some("f32")) => Ok(Arithmetic::Wide),
        (On::Scalar, Some(other)) => Err(Error::usage(format!("there is no precision \"{other}\""))
            .at("--precision")
            .remedy("give f64 or f32")),
        (On::Wide | On::Cuda(_), Some(_)) => {
            let device = if args.on == On::Wide { "wide device" } else { "GPU" };
            Err(Error::usage(format!("the {device} has no double precision"))
                .at("--precision f64")
                .remedy("leave --precision out, or use --device scalar"))
        }
    }
}

fn open(registry: &Registry, ordinal: usize) -> Result<Device, Error> {
    let (cuda, gpu) = gpu::find(ordinal, config::default_cache_dir(registry.known()).as_deref())?;
    Ok(cuda.open(gpu.ordinal)?)
}

/// Longest line that is read.
const MAX_LINE: u64 = 16 << 20;

/// The next line of standard input, without its end; None at the end.
fn line() -> Option<io::Result<String>> {
    let mut bytes = Vec::new();
    let read = io::stdin().lock().take(MAX_LINE + 1).read_until(b'\n', &mut bytes);
    let text = read.and_then(|_| match bytes.len() as u64 > MAX_LINE {
        true => Err(io::Error::other(format!("it is longer than {} MiB", MAX_LINE >> 20))),
        false => String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8 text")),
    });
    match text {
        Ok(text) if text.is_empty() => None,
        text => Some(text),
    }
}

/// The cases on standard input, each with its line number.
fn cases() -> impl Iterator<Item = Result<(Case, String), Error>> {
    std::iter::from_fn(line).enumerate().filter_map(|(index, line)| {
        let place = format!("standard input, line {}", index + 1);
        let line = match line {
            Ok(line) if line.trim().is_empty() => return None,
            Ok(line) => line,
            Err(error) => {
                return Some(Err(Error::usage(format!("the line cannot be read: {error}")).at(&place)));
            }
        };
        Some(parse(&line).map_err(|error| error.at(&place)).map(|case| (case, place)))
    })
}

fn print(outcome: &Outcome) -> anyhow::Result<()> {
    output::print(&format!("{}\n", to_json(outcome)))
}

/// Plays lines in batches of up to [`MOST_STEPS`] steps.
struct OnGpu<'a> {
    device: Device,
    env: &'a dyn AnyEnv,
}

impl OnGpu<'_> {
    fn play_all(&self) -> anyhow::Result<()> {
        let (mut batch, mut longest) = (Vec::new(), 0);
        for case in cases() {
            let words = case.and_then(|(case, place)| {
                self.env.case_words(&case).map_err(|error| Error::from(error).at(place))
            });
            match words {
                Ok(words) => {
                    let with_it = longest.max(words.actions.len());
                    if !batch.is_empty() && (batch.len() + 1).saturating_mul(with_it) > MOST_STEPS {
                        self.play(&mut batch)?;
                        longest = 0;
                    }
                    longest = longest.max(words.actions.len());
                    batch.push(words);
                }
                Err(error) => {
                    // Lines before an invalid one are played, as on other devices.
                    self.play(&mut batch)?;
                    return Err(error.into());
                }
            }
        }
        self.play(&mut batch)
    }

    /// Plays, prints and empties a batch.
    fn play(&self, batch: &mut Vec<CaseWords>) -> anyhow::Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let outcomes = operant_learn::cuda::replay(&self.device, self.env, batch).map_err(Error::from)?;
        batch.clear();
        outcomes.iter().try_for_each(print)
    }
}

fn parse(line: &str) -> Result<Case, Error> {
    const SHAPE: &str = "give {\"state\":[numbers],\"actions\":[numbers, or lists of numbers]}, and \"draws\":[lists of numbers] to fix random numbers";
    let bad = |what: String| Error::usage(what).remedy(SHAPE);
    let value: Value = serde_json::from_str(line).map_err(|error| bad(format!("it is not JSON: {error}")))?;
    // Other keys are ignored, unless they look like a misspelled one.
    const KEYS: [&str; 3] = ["state", "actions", "draws"];
    for key in value.as_object().into_iter().flat_map(serde_json::Map::keys) {
        if let Some(meant) = nearest(key, KEYS).filter(|_| !KEYS.contains(&key.as_str())) {
            return Err(bad(format!("it has a key \"{key}\" (did you mean \"{meant}\"?)")));
        }
    }
    let list = |key: &str| {
        let list = value.get(key).and_then(Value::as_array);
        list.ok_or_else(|| bad(format!("it has no list \"{key}\"")))
    };
    let number = |value: &Value| value.as_f64().ok_or_else(|| bad(format!("{value} is not a number")));
    let state = list("state")?.iter().map(number).collect::<Result<_, _>>()?;
    let actions = list("actions")?
        .iter()
        .map(|action| match action.as_array() {
            Some(components) => components.iter().map(number).collect(),
            None => number(action).map(|number| vec![number]),
        })
        .collect::<Result<_, _>>()?;
    let row = |row: &Value| {
        let row = row.as_array().ok_or_else(|| bad("\"draws\" is not a list of lists".to_owned()))?;
        row.iter().map(number).collect()
    };
    let draws = match value.get("draws") {
        Some(_) => Some(list("draws")?.iter().map(row).collect::<Result<_, _>>()?),
        None => None,
    };
    Ok(Case { state, actions, draws })
}

fn to_json(outcome: &Outcome) -> Value {
    let rows = |rows: &[Vec<f64>]| -> Vec<Value> { rows.iter().map(|row| numbers(row)).collect() };
    json!({
        "obs": rows(&outcome.obs),
        "reward": numbers(&outcome.reward),
        "terminated": outcome.terminated,
        "truncated": outcome.truncated,
        "state": rows(&outcome.state),
    })
}

/// Whole numbers without a fraction, others with full precision.
fn numbers(list: &[f64]) -> Value {
    let exact = |x: f64| x.fract() == 0.0 && x.abs() < 1e15 && !(x == 0.0 && x.is_sign_negative());
    list.iter().map(|&x| if exact(x) { json!(x as i64) } else { json!(x) }).collect()
}
