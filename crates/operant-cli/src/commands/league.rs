//! `operant league`: a round robin of trained agents and scripted players.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use operant_env::search::{SCRIPTED, Scripted};
use operant_env::{AnyEnv, Registry, openings};
use operant_metrics::plain;
use operant_run::league::{League, round_robin};
use operant_run::{Error, SavedPolicy, dir, opponent};

use super::{checkpoints, run_args};
use crate::output;
use crate::table::{self, Column, Row};

/// Let agents and scripted players of a game play each other, and rate them
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Runs, RUN@STEP, checkpoints, random, minimax:DEPTH or mcts:PLAYOUTS
    #[arg(value_name = "PLAYER", required = true)]
    players: Vec<String>,
    /// Every checkpoint of the runs instead of the latest
    #[arg(long)]
    all: bool,
    /// Games of each pair, half of them on each side
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    games: u32,
    /// Random moves at the start of each game; greedy agents would otherwise
    /// repeat one game [default: 4; 0 where cards are dealt]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    openings: Option<u32>,
    /// Sample the agents' moves from their policies, as in training, instead of
    /// the most probable ones
    #[arg(long)]
    sample: bool,
    /// Seed of the games
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The game; needed only if no player is a run
    #[arg(long, value_name = "GAME")]
    env: Option<String>,
    /// Draw the ratings into an SVG file, over the steps of training if a run
    /// takes part with several checkpoints
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Directory that holds the runs [default: runs]
    #[arg(long, value_name = "DIR")]
    run_dir: Option<String>,
}

const AFTER_HELP: &str = "\
Examples:
  operant league mine other random mcts:100
  operant league mine --all random minimax:2 --plot elo.svg   a curve of ratings
  operant league random minimax:2 mcts:800 --env connect_four

Elo ratings are fitted to all games at once; 95% intervals are from a bootstrap.
400 points are odds of 10 to 1. The rating of random is 0 if it plays, otherwise
the mean is. The same seed gives the same games for any number of threads.";

/// Plays, prints the ratings, and returns the exit code.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<u8> {
    let parent = run_args::run_dir(registry, args.run_dir.as_deref())?;
    let mut names = Vec::new();
    for name in &args.players {
        match args.all && name.parse::<Scripted>().is_err() {
            true => names.extend(checkpoints::all_of(&parent, name)?),
            false => names.push(name.clone()),
        }
    }
    if names.len() < 2 {
        let remedy = "name two or more; with --all the checkpoints of a run play each other";
        return Err(Error::usage("a league needs two players").remedy(remedy).into());
    }
    let game = game(args, registry, &parent, &names)?;
    let find = |name: &String| opponent::find(&game, name, &parent, !args.sample);
    let players: Vec<_> = names.iter().map(find).collect::<operant_run::Result<_>>()?;
    let mut seen = BTreeSet::new();
    if let Some(twice) = players.iter().find(|player| !seen.insert(&player.name)) {
        let error = Error::usage(format!("{} is named twice", plain(&twice.name)));
        return Err(error.remedy("name each player once").into());
    }
    let moves = args.openings.unwrap_or(if game.spec().hidden { 0 } else { 4 });
    let league = round_robin(&*game, &players, args.games, moves, args.seed);
    let league = league.map_err(|error| Error::usage(error.to_string()).remedy(error.remedy))?;
    match args.json {
        true => output::print(&(serde_json::to_string(&league)? + "\n"))?,
        false => output::print_painted(&text(&league))?,
    }
    if let Some(path) = &args.plot {
        let svg = operant_sweep::league::svg(&league).map_err(Error::usage)?;
        let written = dir::write_output(path, svg);
        written.map_err(|error| Error::disk("the plot cannot be written", path, &error))?;
    }
    Ok(0)
}

/// The game of the first run, with its options but those of how it begins.
fn game(
    args: &Args,
    registry: &Registry,
    parent: &std::path::Path,
    names: &[String],
) -> anyhow::Result<Arc<dyn AnyEnv>> {
    if let Some(run) = names.iter().find(|name| name.parse::<Scripted>().is_err()) {
        if args.env.is_some() {
            let error = Error::usage(format!("the game is that of {run}")).at("--env");
            return Err(error.remedy("leave --env out").into());
        }
        let policy = SavedPolicy::load(registry, parent, run);
        let named =
            |error| Error { remedy: Some(format!("give runs or checkpoints, or {SCRIPTED}")), ..error };
        return Ok(openings::without(policy.map_err(named)?.env));
    }
    let Some(name) = &args.env else {
        let error = Error::usage("no player is a run, so the game is not known");
        return Err(error.remedy("name it with --env, such as --env connect_four").into());
    };
    Ok(registry
        .make(name, &operant_env::EnvOptions::new())
        .map_err(|error| Error::usage(error.to_string()))?)
}

/// The ratings for a terminal.
pub fn text(league: &League) -> String {
    let heads = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"];
    let ranked = league.ranked();
    let against = ranked.len().min(heads.len());
    let mut columns = vec![
        Column::right("", 0),
        Column::name("player"),
        Column::right("Elo", 0),
        Column::right("95%", 1),
        Column::right("score", 1),
    ];
    columns.extend(heads[..against].iter().map(|head| Column::right(head, 2)));
    let rows = ranked.iter().enumerate().map(|(rank, (standing, points))| {
        let mut cells = vec![
            (rank + 1).to_string(),
            plain(&standing.name).to_string(),
            format!("{:.0}", standing.elo),
            format!("{:.0} to {:.0}", standing.elo_low, standing.elo_high),
            format!("{:.1}%", 100.0 * standing.score),
        ];
        let points = points[..against].iter();
        cells.extend(points.map(|points| points.map_or("-".to_owned(), |points| format!("{points:.0}"))));
        Row { cells, ..Row::default() }
    });
    let rows: Vec<Row> = rows.collect();
    format!("{}: {}\n{}", plain(&league.env), league.summary(), table::text(&columns, "", &rows))
}
