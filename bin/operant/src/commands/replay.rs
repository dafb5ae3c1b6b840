//! `operant replay`: plays given actions from given states and prints what happens, line by line.

use std::io::{self, BufRead};

use operant_env::replay::{Arithmetic, Case, Outcome, replay};
use operant_env::{Env, EnvOptions, Visitor, registry};
use operant_run::Error;
use serde_json::{Value, json};

use crate::output;

/// Play given actions from given states, without auto-reset
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Environment, by name or by Gymnasium's id
    env: String,
    /// Arithmetic of the rules; f64 exists on the scalar device only
    #[arg(long, value_parser = ["f64", "f32"])]
    precision: Option<String>,
    /// What runs them: one environment at a time, SIMD lanes, or a GPU
    #[arg(long, value_parser = ["scalar", "wide", "cuda"], default_value = "scalar")]
    device: String,
}

const AFTER_HELP: &str = "\
Reads lines {\"state\":[...],\"actions\":[...]} from stdin, the state in the environment's own order, actions as numbers,
or as lists for several components. Writes a line {\"obs\",\"reward\",\"terminated\",\"truncated\",\"state\"} for each, entry k
after action k; it stops with the episode.

Example:
  echo '{\"state\":[0,0,0.1,0],\"actions\":[1,1,0]}' | operant replay cartpole";

/// Replays standard input.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let arithmetic = arithmetic(args)?;
    let name = registry::canonical(&args.env).map_err(|unknown| usage(&unknown.to_string()))?;
    for (index, line) in io::stdin().lock().lines().enumerate() {
        let place = format!("standard input, line {}", index + 1);
        let line = line.map_err(|error| Error::usage(format!("it is not text: {error}")).at(&place))?;
        if line.trim().is_empty() {
            continue;
        }
        let case = parse(&line).map_err(|error| error.at(&place))?;
        let played = registry::with_env(name, &EnvOptions::new(), Play { arithmetic, case: &case });
        let outcome = played.map_err(|error| usage(&error.to_string()))?.map_err(|error| error.at(&place))?;
        output::print(&format!("{}\n", to_json(&outcome)))?;
    }
    Ok(0)
}

/// An error of usage whose remedy stands behind a semicolon.
fn usage(message: &str) -> Error {
    match message.split_once("; ") {
        Some((what, remedy)) => Error::usage(what).remedy(remedy),
        None => Error::usage(message),
    }
}

fn arithmetic(args: &Args) -> Result<Arithmetic, Error> {
    match (args.device.as_str(), args.precision.as_deref()) {
        ("scalar", None | Some("f64")) => Ok(Arithmetic::F64),
        ("scalar", Some(_)) => Ok(Arithmetic::F32),
        ("wide", None | Some("f32")) => Ok(Arithmetic::Wide),
        ("wide", Some(_)) => Err(Error::usage("the wide device has no double precision")
            .at("--precision f64")
            .remedy("leave --precision out, or use --device scalar")),
        _ => Err(Error::usage("this build has no GPU backend")
            .at("--device cuda")
            .remedy("use --device wide, which gives the same bits")),
    }
}

struct Play<'a> {
    arithmetic: Arithmetic,
    case: &'a Case,
}

impl Visitor for Play<'_> {
    type Output = Result<Outcome, Error>;

    fn visit<E: Env>(self, env: E) -> Self::Output {
        replay(&env, self.arithmetic, self.case).map_err(|error| usage(&error.to_string()))
    }
}

fn parse(line: &str) -> Result<Case, Error> {
    const SHAPE: &str = "give {\"state\":[numbers],\"actions\":[numbers, or lists of numbers]}";
    let bad = |what: String| Error::usage(what).remedy(SHAPE);
    let value: Value = serde_json::from_str(line).map_err(|error| bad(format!("it is not JSON: {error}")))?;
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
    Ok(Case { state, actions })
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

/// Whole numbers without a fraction, all others with every digit that they need.
fn numbers(list: &[f64]) -> Value {
    let exact = |x: f64| x.fract() == 0.0 && x.abs() < 1e15 && !(x == 0.0 && x.is_sign_negative());
    list.iter().map(|&x| if exact(x) { json!(x as i64) } else { json!(x) }).collect()
}
