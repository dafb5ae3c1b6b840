//! Messages in Python's words: a flag is a keyword there, and some commands are functions.

use super::{Flag, keys};

/// Flags that are no keys, and their keywords in the package.
const FLAGS: [(&str, &str); 8] = [
    ("--config", "config"),
    ("--preset", "preset"),
    ("--episodes", "episodes"),
    ("--seeds", "seeds"),
    ("--search", "search"),
    ("--trials", "trials"),
    ("--interval", "interval"),
    ("--jobs", "jobs"),
];

/// The message with the package's names: `--steps N` becomes `total_timesteps=N`, and `operant train --resume RUN` between backticks
/// `operant.resume(RUN)`. Other commands between backticks stay, since the package installs them too.
pub fn in_python(text: &str) -> String {
    let pieces = text.split('`').enumerate();
    let pieces = pieces.map(|(k, piece)| if k % 2 == 1 { command(piece) } else { flags(piece) });
    pieces.collect::<Vec<_>>().join("`")
}

/// A command as a call, if the package has a function for it.
fn command(text: &str) -> String {
    let mut words = text.split(' ');
    let (Some("operant"), Some(name)) = (words.next(), words.next()) else { return text.to_owned() };
    let mut function = match name {
        "train" | "sweep" | "runs" => name,
        "envs" => "envs.names",
        _ => return text.to_owned(),
    };
    let mut arguments = Vec::new();
    while let Some(word) = words.next() {
        match word {
            "--resume" if name == "train" => {
                function = "resume";
                arguments.clear();
            }
            "--sweeps" if name == "runs" => function = "sweeps",
            "--resume" => arguments.extend(words.next().map(|sweep| format!("resume={}", quoted(sweep)))),
            flag if flag.starts_with("--") => match keyword(flag) {
                Some(Keyword::Value(key)) => {
                    arguments.extend(words.next().map(|value| format!("{key}={}", quoted(value))));
                }
                Some(Keyword::Switch(switch)) => arguments.push(switch),
                None => return text.to_owned(),
            },
            value => arguments.push(quoted(value)),
        }
    }
    format!("operant.{function}({})", arguments.join(", "))
}

enum Keyword {
    /// Takes a value.
    Value(&'static str),
    /// Is an argument already.
    Switch(String),
}

fn keyword(flag: &str) -> Option<Keyword> {
    match flag {
        "--trust" => return Some(Keyword::Switch("trust=True".to_owned())),
        "--quiet" => return Some(Keyword::Switch("progress=False".to_owned())),
        _ => (),
    }
    let of_key = keys().find_map(|key| match key.flag? {
        Flag::Value(name, _) => (name == flag).then_some(Keyword::Value(key.name)),
        Flag::Switch(name) => (name == flag).then(|| Keyword::Switch(format!("{}=True", key.name))),
        Flag::SwitchOff(name, _) => (name == flag).then(|| Keyword::Switch(format!("{}=False", key.name))),
    });
    of_key.or_else(|| FLAGS.iter().find(|(name, _)| *name == flag).map(|(_, key)| Keyword::Value(key)))
}

/// Text outside of commands.
fn flags(text: &str) -> String {
    let mut made = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("--") {
        let (before, found) = rest.split_at(start);
        made.push_str(before);
        // In the middle of a word, such as a path, it is none.
        if made.ends_with(|c: char| !(c.is_whitespace() || "([\"'`".contains(c))) {
            made.push_str("--");
            rest = &found[2..];
            continue;
        }
        let end = found.find(|c: char| !(c.is_ascii_lowercase() || c == '-')).unwrap_or(found.len());
        let (flag, after) = found.split_at(end);
        let value = after.strip_prefix([' ', '=']).unwrap_or_default();
        let value =
            &value[..value.find(|c: char| c.is_whitespace() || ",;)'\"".contains(c)).unwrap_or(value.len())];
        rest = after;
        let mut takes = |text: String| {
            made.push_str(&text);
            rest = &after[1 + value.len()..];
        };
        match (flag, keyword(flag)) {
            ("--set", _) => match (value.strip_prefix("env."), value.split_once('=')) {
                (Some(option), Some(_)) => {
                    let (name, value) = option.split_once('=').unwrap_or((option, ""));
                    takes(format!("env_options={{\"{name}\": {value}}}"));
                }
                (Some(_), None) => takes("env_options".to_owned()),
                (None, Some((key, value))) => takes(format!("{key}={value}")),
                (None, None) => made.push_str("env_options"),
            },
            ("--resume", _) if value.is_empty() => made.push_str("operant.resume"),
            ("--resume", _) => takes(format!("operant.resume({})", quoted(value))),
            (_, Some(Keyword::Value(key))) if is_value(value) => takes(format!("{key}={}", quoted(value))),
            (_, Some(Keyword::Value(key))) => made.push_str(key),
            (_, Some(Keyword::Switch(switch))) => made.push_str(&switch),
            (_, None) => made.push_str(flag),
        }
    }
    made + rest
}

/// Whether the word after a flag is its value, and no word of the sentence.
fn is_value(word: &str) -> bool {
    is_placeholder(word)
        || word.starts_with(|c: char| c.is_ascii_digit())
        || ["cpu", "cuda", "f32"].contains(&word)
}

fn is_placeholder(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

/// A word as Python has it: placeholders and numbers as they are, others as text.
fn quoted(word: &str) -> String {
    if is_placeholder(word) || word.parse::<f64>().is_ok() { word.to_owned() } else { format!("\"{word}\"") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_keywords_and_commands_functions() {
        for (text, expected) in [
            (
                "choose another --name, or continue it with --resume mine",
                "choose another name, or continue it with operant.resume(\"mine\")",
            ),
            ("--steps N with a larger N continues it", "total_timesteps=N with a larger N continues it"),
            ("where: --set", "where: env_options"),
            ("options (--set env.*), files", "options (env_options), files"),
            ("--set env.NAME=VALUE sets it", "env_options={\"NAME\": VALUE} sets it"),
            ("write --set key=value", "write key=value"),
            (
                "use narrower layers, --precision f32, or --device cpu",
                "use narrower layers, precision=\"f32\", or device=\"cpu\"",
            ),
            ("choose a directory with --run-dir DIR", "choose a directory with run_dir=DIR"),
            ("--run-dir looks elsewhere", "run_dir looks elsewhere"),
            ("add --trust if you", "add trust=True if you"),
            ("use fewer --jobs, or less", "use fewer jobs, or less"),
            ("give --seeds 3..3 for", "give seeds=\"3..3\" for"),
            ("restore --config FILE and", "restore config=FILE and"),
            ("--no-ring", "ring=False"),
            ("`operant train --resume mine` continues", "`operant.resume(\"mine\")` continues"),
            ("`operant train cartpole --resume RUN`", "`operant.resume(RUN)`"),
            ("`operant train --device cuda`", "`operant.train(device=\"cuda\")`"),
            ("`operant sweep ENV --seeds 10` trains", "`operant.sweep(ENV, seeds=10)` trains"),
            ("`operant sweep --resume NAME`", "`operant.sweep(resume=NAME)`"),
            ("`operant sweep ENV --set key=value,value`", "`operant sweep ENV --set key=value,value`"),
            ("`operant runs` and `operant envs`", "`operant.runs()` and `operant.envs.names()`"),
            ("`operant runs --sweeps` lists the sweeps", "`operant.sweeps()` lists the sweeps"),
            (
                "`operant monitor RUN`, `--gpus all`, srun --mpi=pmix",
                "`operant monitor RUN`, `--gpus all`, srun --mpi=pmix",
            ),
        ] {
            assert_eq!(in_python(text), expected);
        }
    }
}
