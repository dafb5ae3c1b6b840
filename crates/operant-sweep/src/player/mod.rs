//! A page in which a trained agent plays its environment: one HTML file with the runtime of operant-page, the environment's name or its
//! recording, and the policy's weights.

mod bundle;

use std::fmt::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use operant_draw::theme::{self, Rgb};
use operant_env::ActionSpace;
use operant_env::keys::{Key, Keys};
use operant_run::eval::run_of;
use operant_run::progress::short;
use operant_run::{Error, Result, RunResult, SavedPolicy, dir};
use serde_json::{Value, json};

pub use self::bundle::Packed;
use crate::html::{escaped, number};

/// The runtime, as `cargo xtask page` made it: WebAssembly, compressed with LZMA.
pub const RUNTIME: &[u8] = include_bytes!("runtime.wasm.lzma");
/// The hash of all texts that the environments in it emit.
pub const WORLDS: &str = include_str!("runtime.worlds");

/// The script that decompresses it.
pub const UNPACK: &str = include_str!("unpack.js");

const SCRIPT: &str = include_str!("player.js");
const STYLE: &str = include_str!("player.css");
const PAGE_STYLE: &str = include_str!("page.css");

/// Writes a page. A file of this name is replaced.
///
/// # Errors
/// When the file cannot be written.
pub fn write(page: &str, path: &Path) -> Result<()> {
    dir::write_output(path, page).map_err(|error| {
        Error::disk("the page cannot be written", path, &error)
            .remedy("name a file in a directory that exists and has space")
    })
}

/// The page of a policy.
///
/// # Errors
/// When its environment cannot be played in a page.
pub fn page(saved: &SavedPolicy) -> Result<String> {
    let player = fragment(saved, Theme::OfReader)?;
    let title = match saved.run.as_str() {
        "" => format!("A new policy plays {}", saved.policy.env),
        run => format!("{run} plays {}", saved.policy.env),
    };
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>{PAGE_STYLE}</style></head>\n<body><main>\n<h1>{title}</h1>\n<p class=\"lead\">{lead}</p>\n\
         {player}<p class=\"note\">{exact}</p>\n</main></body></html>\n",
        title = escaped(&title),
        lead = escaped(&lead(saved)),
        exact = exactness(saved),
    ))
}

/// The colours of a player.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    /// Light or dark, as the reader's system is.
    OfReader,
    /// Light.
    Light,
}

/// The player alone, for a page of its own or of others; a page has at most one.
///
/// # Errors
/// When the environment cannot be played in a page.
pub fn fragment(saved: &SavedPolicy, theme: Theme) -> Result<String> {
    let packed = Packed::of(saved)?;
    let is_light = if theme == Theme::Light { " data-light" } else { "" };
    let mut html = format!("<style>{STYLE}</style>\n<div id=\"player\" class=\"player\"{is_light}></div>\n");
    // A script ends at the first tag that closes it, wherever that stands.
    let data = data(saved, &packed).to_string().replace('<', "\\u003c");
    let _ = writeln!(html, "<script type=\"application/json\" id=\"player-data\">{data}</script>");
    for (id, bytes) in [("player-weights", &packed.numbers[..]), ("player-runtime", RUNTIME)] {
        let text = BASE64_STANDARD.encode(bytes);
        let _ = writeln!(html, "<script type=\"text/plain\" id=\"{id}\">{text}</script>");
    }
    let _ = writeln!(html, "<script>\n{UNPACK}{SCRIPT}</script>");
    Ok(html)
}

/// What the agent is, in a sentence.
fn lead(saved: &SavedPolicy) -> String {
    let table: toml::Table = saved.config.parse().unwrap_or_default();
    let algorithm = table.get("algorithm").and_then(toml::Value::as_str).unwrap_or_default().to_uppercase();
    let trained = match saved.env_steps {
        0 => format!("An untrained policy for {algorithm}"),
        steps => format!("{algorithm}, {} steps of training", short(steps as f64)),
    };
    // Of the last checkpoint alone, as the run evaluated it.
    let is_own = |it: &RunResult| it.env_steps == saved.env_steps && !saved.is_changed;
    let result = run_of(&saved.path).and_then(RunResult::read).filter(is_own);
    let score = result.and_then(|result| Some((result.eval_return_mean?, result.eval_episodes)));
    let score = score.map_or_else(String::new, |(mean, episodes)| {
        format!(", mean return {} over {episodes} episodes", number(mean))
    });
    let spec = saved.env.spec();
    format!("{trained}{score}. {}: {}.", spec.name, spec.summary.trim_end_matches('.'))
}

/// How exact the page is.
fn exactness(saved: &SavedPolicy) -> String {
    // A changed policy is in no checkpoint.
    let command = match saved.run.as_str() {
        run if run.is_empty() || saved.is_changed => "in the engine".to_owned(),
        run => {
            format!("as episode k of <code>operant play {}@{} --seed S</code>", escaped(run), saved.env_steps)
        }
    };
    let others = match &saved.opponent {
        Some(who) if bundle::opponent(saved).is_none() => {
            format!(" but for the other side, which {} plays there and the agent itself here", escaped(who))
        }
        _ => String::new(),
    };
    format!(
        "The engine&#8217;s own environment and policy run here, compiled to WebAssembly: episode k of seed S has the same states and actions, bit \
         for bit, {command} with the same options{others}. Nothing is loaded from elsewhere. operant {}",
        env!("CARGO_PKG_VERSION")
    )
}

/// Fields of a state that are shown where a world has no picture.
const SHOWN_LEAVES: usize = 16;

/// What the script reads.
fn data(saved: &SavedPolicy, packed: &Packed) -> Value {
    let spec = saved.env.spec();
    let keys = Keys::of(&spec, false).ok();
    let named = |(key, action): &(Key, f32)| {
        let name = match key {
            Key::Left => "ArrowLeft".to_owned(),
            Key::Right => "ArrowRight".to_owned(),
            Key::Up => "ArrowUp".to_owned(),
            Key::Down => "ArrowDown".to_owned(),
            Key::Number(number) => Keys::NUMBERS.chars().nth(usize::from(*number)).unwrap_or('0').to_string(),
        };
        json!([name, action])
    };
    json!({
        "bundle": packed.bundle,
        "env": spec.name,
        "seed": saved.seed.to_string(),
        "fps": spec.fps,
        "players": spec.players,
        "opponent": packed.bundle.opponent,
        "isDiscrete": matches!(spec.actions, ActionSpace::Discrete(_)),
        "components": spec.actions.components(),
        "actionNames": spec.action_names,
        "keys": keys.as_ref().map(|keys| keys.actions.iter().map(named).collect::<Vec<_>>()),
        "idle": keys.as_ref().and_then(|keys| keys.idle),
        "leaves": saved.env.leaves().into_iter().take(SHOWN_LEAVES).collect::<Vec<_>>(),
        "colours": { "dark": colours(&theme::FILM), "light": colours(&theme::FILM_LIGHT) },
    })
}

fn colours((background, text, tones): &(Rgb, Rgb, [Rgb; theme::TONES])) -> Value {
    let hex = |(red, green, blue): &Rgb| format!("#{red:02x}{green:02x}{blue:02x}");
    let is_dark = |&(red, green, blue): &Rgb| u32::from(red) + u32::from(green) + u32::from(blue) < 384;
    let dark = if is_dark(background) { *background } else { *text };
    let levels = theme::by_level(tones, dark);
    let levels = levels.map(|tones| tones.iter().map(hex).collect::<Vec<_>>());
    json!({ "background": hex(background), "text": hex(text), "tones": levels })
}
