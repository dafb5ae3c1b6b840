//! A report as one self-contained HTML page.

use std::fmt::Write as _;

use crate::plot::Plot;
use crate::report::{CURVES, EnvReport, Report, SeedGroup};
use crate::stats::Estimate;

const STYLE: &str = "
body { font: 15px/1.5 system-ui, sans-serif; color: #1c1c1c; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem; margin: 0 } h2 { font-size: 1.25rem; margin: 2.2rem 0 .4rem } h3 { font-size: 1rem; margin: 1.6rem 0 .3rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { text-align: right; padding: .2rem .7rem; border-bottom: 1px solid #ddd; white-space: nowrap }
th { font-weight: 600; border-bottom: 2px solid #999 } td:first-child, th:first-child, td.text, th.text { text-align: left }
.note, figcaption { color: #555; font-size: .9rem } figure { margin: 1.2rem 0 } svg { max-width: 100%; height: auto }
.scroll { overflow-x: auto } pre { background: #f5f5f5; padding: .8rem; overflow-x: auto } .error { color: #b00020 }
";

/// The page of a report.
pub fn page(report: &Report) -> String {
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title><style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n",
        title = escaped(&report.title)
    );
    let _ = writeln!(html, "<p class=\"note\">{}</p>", escaped(&report.summary()));
    for part in &report.environments {
        environment(&mut html, part);
    }
    html + "</body></html>\n"
}

fn environment(html: &mut String, part: &EnvReport) {
    let _ = writeln!(html, "<h2>{}</h2>", escaped(&part.env));
    table(html, part);
    for plot in Plot::ALL {
        if let Some(svg) = plot.svg(part) {
            let _ = writeln!(html, "<figure><figcaption>{}</figcaption>{svg}</figure>", plot.title());
        }
    }
    if !part.importance.is_empty() {
        html.push_str(
            "<h3>Importance of settings</h3>\n<p class=\"note\">The share of the variance of the runs' objectives that a setting \
             explains by itself.</p>\n<table>\n",
        );
        for (key, share) in &part.importance {
            let _ = writeln!(html, "<tr><td>{}</td><td>{}</td></tr>", escaped(key), percent(*share));
        }
        html.push_str("</table>\n");
    }
    if part.improvement.iter().flatten().any(Option::is_some) {
        improvement(html, part);
    }
    let common = part.common.iter().map(|(key, value)| format!("{key} = {value}\n"));
    let common = escaped(&common.collect::<String>());
    let _ = writeln!(
        html,
        "<h3>Configuration</h3>\n<details><summary>Settings that all runs share</summary><pre>{common}</pre></details>"
    );
    let failed: Vec<(&SeedGroup, &str, u64)> = part
        .groups
        .iter()
        .flat_map(|group| {
            group.runs.iter().filter_map(move |run| Some((group, run.error.as_deref()?, run.seed)))
        })
        .collect();
    if !failed.is_empty() {
        html.push_str("<h3>Failed runs</h3>\n<ul>\n");
        for (group, error, seed) in failed {
            let _ = writeln!(
                html,
                "<li class=\"error\">{}, seed {seed}: {}</li>",
                escaped(&group.name),
                escaped(error)
            );
        }
        html.push_str("</ul>\n");
    }
}

fn table(html: &mut String, part: &EnvReport) {
    html.push_str("<div class=\"scroll\"><table>\n<tr><th>configuration</th>");
    for column in [
        "score",
        "95% interval",
        "mean",
        "seeds",
        "failed",
        "solved",
        "solved at step",
        "solved at (s)",
        "train time (s)",
    ] {
        let _ = write!(html, "<th>{column}</th>");
    }
    html.push_str("</tr>\n");
    for group in &part.groups {
        let (score, interval) = match group.score {
            Some(Estimate { value, low, high }) if group.scores().len() > 1 => {
                (number(value), format!("{} to {}", number(low), number(high)))
            }
            Some(score) => (number(score.value), String::new()),
            None => (String::new(), String::new()),
        };
        let cells = [
            score,
            interval,
            number(group.mean),
            group.runs.len().to_string(),
            group.failed().to_string(),
            group.solved.to_string(),
            group.solved_at_step.map_or_else(String::new, operant_run::progress::short),
            group.solved_at_s.map_or_else(String::new, |s| format!("{s:.2}")),
            if group.train_s.is_finite() { format!("{:.2}", group.train_s) } else { String::new() },
        ];
        let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
        let mark = if group.pareto { " *" } else { "" };
        let _ = writeln!(html, "<tr><td>{}{mark}</td>{cells}</tr>", escaped(&group.name));
    }
    html.push_str(
        "</table></div>\n<p class=\"note\">Score: interquartile mean of the runs' last greedy evaluations (the plain mean of up to \
         three), with a 95% percentile bootstrap interval over seeds (20,000 resamples). Times and steps are medians. * Pareto front: no \
         other configuration is at least as good in both score and training time.</p>\n",
    );
}

fn improvement(html: &mut String, part: &EnvReport) {
    let _ = writeln!(
        html,
        "<h3>Probability of improvement</h3>\n<p class=\"note\">Probability that a run of the row's configuration scores higher than a run \
         of the column's, with its 95% interval. Columns are numbered by rank; at most the best {CURVES} are shown.</p>\n<div class=\"scroll\"><table>"
    );
    let labels: Vec<String> =
        part.groups.iter().take(part.improvement.len()).map(|group| escaped(&group.name)).collect();
    let head: String = (2..=labels.len()).map(|place| format!("<th>{place}</th>")).collect();
    let _ = writeln!(html, "<tr><th></th>{head}</tr>");
    for (place, (row, label)) in part.improvement.iter().zip(&labels).take(labels.len() - 1).enumerate() {
        let cell = |cell: &Option<Estimate>| {
            cell.map_or_else(String::new, |e| {
                let interval = format!("{:.2} to {:.2}", e.low, e.high);
                format!(
                    "<span title=\"{interval}\">{:.2}</span><br><span class=\"note\">{interval}</span>",
                    e.value
                )
            })
        };
        let cells: String = row[1..].iter().map(|of| format!("<td>{}</td>", cell(of))).collect();
        let _ = writeln!(html, "<tr><td>{}. {label}</td>{cells}</tr>", place + 1);
    }
    html.push_str("</table></div>\n");
}

/// A share in percent.
pub fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:.0}%", share * 100.0) } else { "too few runs".to_owned() }
}

/// A score with digits that matter.
pub fn number(x: f64) -> String {
    match x.abs() {
        _ if !x.is_finite() => String::new(),
        1000.0.. => format!("{x:.0}"),
        10.0.. => format!("{x:.1}"),
        _ => format!("{x:.3}"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
