//! The comment at the top of a C file: what the policy is, how it is called, and what its numbers mean.

use operant_env::{ActionSpace, EnvSpec, ObsSpace, OwnArray, OwnSpace};

use super::lower::Lowered;
use super::{Header, Weights};
use crate::policy::SavedPolicy;

/// Columns of a line.
const COLUMNS: usize = 100;

/// The comment.
pub fn text(
    saved: &SavedPolicy,
    name: &str,
    weights: &Weights,
    lowered: &Lowered,
    header: &Header,
) -> String {
    let mut lines = about(saved, name, header);
    if let Weights::Int8 { loss } = weights {
        lines.push(format!("Weights are int8, with a scale for each output: {loss}."));
    }
    lines.push(String::new());
    lines.extend(usage(saved, name));
    lines.push(String::new());
    lines.extend(observation(saved, lowered));
    lines.extend(action(saved, lowered));
    if saved.policy.masked {
        let choices = saved.policy.network.policy_outputs();
        lines.push(format!(
            "legal, {choices} bytes: nonzero where a choice is legal, all components one after the other; null if all are"
        ));
    }
    lines.extend(fields(name, lowered));
    let wrapped = lines.iter().flat_map(|line| wrapped(&safe(line)));
    let body: String = wrapped.map(|line| format!(" * {line}").trim_end().to_owned() + "\n").collect();
    format!("/*\n{body} */\n")
}

/// A text that can stand in a comment: it neither ends it nor continues lines.
pub fn safe(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() || c == '\\' { ' ' } else { c }).collect();
    text.replace("*/", "* /").replace("/*", "/ *")
}

/// Lines of at most [`COLUMNS`], of which the later ones are indented by four columns more.
fn wrapped(line: &str) -> Vec<String> {
    let indent = line.len() - line.trim_start().len();
    let mut lines = vec![" ".repeat(indent)];
    for word in line.trim_start().split_inclusive(' ') {
        let last = lines.len() - 1;
        if lines[last].trim_end().chars().count() > indent
            && lines[last].chars().count() + word.trim_end().chars().count() > COLUMNS
        {
            lines.push(" ".repeat(indent + 4) + word);
        } else {
            lines[last].push_str(word);
        }
    }
    lines
}

/// Run, network and sizes.
fn about(saved: &SavedPolicy, name: &str, header: &Header) -> Vec<String> {
    let SavedPolicy { run, seed, env_steps, policy, .. } = saved;
    let of_run = if run.is_empty() { "a policy".to_owned() } else { format!("the policy of run {run}") };
    vec![
        format!("{name}_act: {of_run} ({}, seed {seed}) after {env_steps} environment steps.", policy.env),
        format!(
            "Network {}; {:.1} kB of constants, and {:.1} kB for each struct {name}. Written by operant {}.",
            policy.network.architecture,
            header.constants as f64 / 1e3,
            header.memory as f64 / 1e3,
            env!("CARGO_PKG_VERSION")
        ),
    ]
}

/// A program.
fn usage(saved: &SavedPolicy, name: &str) -> Vec<String> {
    let capitals = name.to_uppercase();
    let mask = if saved.policy.masked { "legal" } else { "0" };
    let code = |line: String| format!("    {line}");
    let mut lines = vec![
        "C99 and C++. It allocates nothing and calls no library. Include it in one source file:".to_owned(),
        String::new(),
        code(format!("#include \"{name}.h\"")),
        code(format!("static struct {name} policy;")),
        code(format!("float observation[{capitals}_OBSERVATIONS], action[{capitals}_ACTIONS];")),
    ];
    if saved.policy.masked {
        lines.push(code(format!("unsigned char legal[{capitals}_CHOICES];")));
    }
    let reset = format!("{name}_reset(&policy);");
    let act = format!("{name}_act(&policy, observation, {mask}, action);");
    let width = act.len() + 2;
    lines.push(code(format!("{reset:<width$}// where an episode begins")));
    lines.push(code(format!("{act:<width$}// once for each step")));
    lines
}

/// What the numbers from `first` on are: `0 to 3  position, m`.
fn numbers(first: usize, count: usize, what: &str) -> String {
    let range = match count {
        1 => first.to_string(),
        _ => format!("{first} to {}", first + count - 1),
    };
    format!("    {range:<12} {what}").trim_end().to_owned()
}

/// The observation's numbers in order.
fn observation(saved: &SavedPolicy, lowered: &Lowered) -> Vec<String> {
    let EnvSpec { obs_names, .. } = saved.env.spec();
    let size = lowered.observations;
    let mut lines = vec![format!("observation, {}:", plural(size))];
    if obs_names.len() == size {
        lines.extend(obs_names.iter().enumerate().map(|(k, name)| numbers(k, 1, name)));
        return lines;
    }
    let own = saved.env.own_spaces();
    let own = own.as_ref().map(|own| own.observation.arrays()).unwrap_or_default();
    let (mut first, mut own) = (0, own.into_iter());
    for (name, part) in saved.policy.obs.parts() {
        let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
        let of_own = own.next().map_or_else(String::new, |(_, array)| of_array(array));
        lines.push(numbers(first, part.size(), &format!("{name}{}{of_own}", space(part))));
        first += part.size();
    }
    if !obs_names.is_empty() {
        lines.push(format!("    They are: {}.", obs_names.join("; ")));
    }
    lines
}

/// A part of the observation in words.
fn space(part: &ObsSpace) -> String {
    match part {
        ObsSpace::Binary { .. } => format!("{part}, 0 or 1"),
        ObsSpace::Bytes { .. } => format!("{part}, from 0 to 255"),
        ObsSpace::Index { below, .. } if part.size() > 1 => {
            let below: Vec<String> = below.iter().map(u32::to_string).collect();
            format!("{part} below {}", below.join(", "))
        }
        _ => part.to_string(),
    }
}

/// First values of an array of the environment's own spaces that do not begin with 0.
fn of_array(array: &OwnArray) -> String {
    match &array.start[..] {
        [] => String::new(),
        start => format!(", from {} on", start.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// The action's numbers in order.
fn action(saved: &SavedPolicy, lowered: &Lowered) -> Vec<String> {
    let EnvSpec { action_names, .. } = saved.env.spec();
    let own = saved.env.own_spaces();
    let starts: Vec<i64> = own.iter().flat_map(|own| starts(&own.action)).collect();
    let mut lines = vec![format!("action, {}, the greedy one:", plural(lowered.actions))];
    match &saved.policy.actions {
        ActionSpace::Discrete(choices) => {
            for (k, count) in choices.iter().enumerate() {
                let start = starts.get(k).copied().unwrap_or(0);
                let named = (start..).zip(&action_names).map(|(value, name)| format!("{value} {name}"));
                let named = named.collect::<Vec<_>>().join(", ");
                let last = start + *count as i64 - 1;
                let is_named = choices.len() == 1 && action_names.len() == *count;
                let what = if is_named { named } else { format!("a choice from {start} to {last}") };
                lines.push(numbers(k, 1, &what));
            }
        }
        ActionSpace::Box { low, high } => {
            lines.extend(
                low.iter()
                    .zip(high)
                    .enumerate()
                    .map(|(k, (low, high))| numbers(k, 1, &format!("from {low} to {high}"))),
            );
        }
    }
    lines
}

/// The first value of each number of an action.
fn starts(space: &OwnSpace) -> Vec<i64> {
    let of = |array: &OwnArray| {
        (0..array.size()).map(|k| array.start.get(k).copied().unwrap_or(0)).collect::<Vec<_>>()
    };
    space.arrays().into_iter().flat_map(|(_, array)| of(array)).collect()
}

/// The fields that a caller may read.
fn fields(name: &str, lowered: &Lowered) -> Vec<String> {
    let meaning = |field: &str| match field {
        "logits" => "logits of all choices; -1e8 where one is illegal",
        "q_values" => "values of all choices; -1e8 where one is illegal",
        "mean" => "means of the distribution, before they are squashed",
        "alpha" | "beta" => "a parameter of the Beta distribution",
        _ => "the value of the observation",
    };
    let of = |(field, size): &(String, usize)| format!("    {field}, {}: {}", plural(*size), meaning(field));
    let mut lines = vec![format!("struct {name} has after each action:")];
    lines.extend(lowered.fields.iter().map(of));
    lines
}

fn plural(count: usize) -> String {
    if count == 1 { "1 number".to_owned() } else { format!("{count} numbers") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_the_comment() {
        assert_eq!(safe("a */ b /* c \\\n"), "a * / b / * c   ");
    }

    #[test]
    fn long_lines_are_wrapped_between_words() {
        let lines = wrapped(&format!("  {}", "abcd ".repeat(25)));
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| line.trim_end().len() <= COLUMNS), "{lines:?}");
        assert!(lines[1].starts_with("      abcd"));
        assert_eq!(wrapped(""), [""]);
    }
}
