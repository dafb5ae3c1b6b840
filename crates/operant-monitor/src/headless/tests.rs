//! Headless output on rings made for the purpose.

use std::time::{Duration, SystemTime};

use operant_metrics::{COUNT, Core, CoreKind, Health, Level, METRICS, MetricKind, RunState};
use serde_json::Value;

use super::fixture::{event, run, sample};
use super::{FIXED, Reading, Style, line, select, snapshot};
use crate::data::RunLocations;

/// What the clock decides, decided.
fn steady(mut reading: Reading) -> Reading {
    reading.status.uptime = Duration::from_millis(123_456);
    reading.status.since_progress = Duration::from_millis(12);
    reading.status.since_alive = Duration::from_millis(400);
    reading.status.since_update = reading.status.since_update.map(|_| Duration::from_millis(34));
    if let Some(sample) = &mut reading.sample {
        sample.age = Duration::from_millis(90);
    }
    reading.events = vec![
        event(0, Level::Info, "training on cpu with 2 threads"),
        event(1, Level::Warning, "a minibatch of update 12 was skipped: its loss was not finite"),
        event(2, Level::Info, "checkpoint saved at 102,400 steps"),
    ];
    reading
}

fn parse(reading: &Reading) -> Value {
    let text = line(reading);
    assert!(!text.contains('\n'));
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_live_run_is_one_complete_object() {
    let (_dir, mut ring, reader) = run(100);
    sample(&mut ring);
    ring.writer.set_checkpoint(102_400, "/somewhere/runs/first-try/checkpoints/102400".as_ref());
    let object = parse(&Reading::of(&reader).unwrap());
    for name in FIXED {
        assert!(operant_metrics::unusable(name).is_some(), "{name} can be a metric of an environment");
        assert!(object.get(name).is_some(), "{name} is missing");
        assert!(!object[name].is_null(), "{name} is null");
    }
    for metric in METRICS {
        let gpu = metric.group == "gpu";
        assert_eq!(object[metric.name].is_null(), gpu, "{}: {}", metric.name, object[metric.name]);
        assert_eq!(
            object["history"].get(metric.name).is_some(),
            metric.kind == MetricKind::Gauge,
            "{}",
            metric.name
        );
    }
    assert_eq!(object.as_object().unwrap().len(), FIXED.len() + COUNT);
    for (name, value) in [("run", "first-try"), ("state", "running"), ("env", "cartpole"), ("device", "cpu")]
    {
        assert_eq!(object[name], value);
    }
    assert_eq!(object["started"], "2026-11-21T14:02:06.250Z");
    assert_eq!((object["seed"].as_u64(), object["pid"].as_u64()), (Some(7), Some(4242)));
    assert_eq!(object["env_steps"].as_u64(), Some(102_400), "a count has no point");
    assert_eq!(object["resident_memory"].as_u64(), Some(123_456_789), "nor have bytes");
    assert_eq!(object["progress"].as_f64(), Some(0.1024));
    assert_eq!(object["checkpoint"]["env_steps"].as_u64(), Some(102_400));
    assert_eq!(object["cores"][1]["kind"], "efficiency");
    assert_eq!(object["cores"][1]["utilization"].as_f64(), Some(0.6));
    assert_eq!(object["sampled"]["cpu_performance"].as_f64(), Some(0.875));
    assert_eq!(object["skipped_records"].as_u64(), Some(0));
    let eta = object["eta_s"].as_f64().unwrap();
    assert!((eta - 897_600.0 / 99_000.0).abs() <= 5e-4, "{eta}");
}

#[test]
fn a_gauge_without_news_shows_the_last_value_there_was() {
    let (_dir, _ring, reader) = run(99);
    // No episode ended in update 99; the last that reported one is 98.
    let object = parse(&Reading::of(&reader).unwrap());
    assert_eq!(object["update"].as_u64(), Some(99));
    assert_eq!(object["episodic_return"].as_f64(), Some(98.0));
    let history = &object["history"]["episodic_return"];
    assert_eq!(history["last"].as_f64(), Some(98.0));
    assert_eq!((history["min"].as_f64(), history["max"].as_f64()), (Some(1.0), Some(98.0)));
    assert_eq!(history["count"].as_u64(), Some(66));
}

#[test]
fn before_the_first_update_counters_are_zero_and_gauges_null() {
    let (_dir, _ring, reader) = run(0);
    let object = parse(&Reading::of(&reader).unwrap());
    assert_eq!(object["state"], "starting");
    assert!(object["seconds_since_update"].is_null());
    assert!(object["seconds_since_progress"].is_number());
    for metric in METRICS {
        match metric.kind {
            MetricKind::Counter => assert_eq!(object[metric.name].as_f64(), Some(0.0), "{}", metric.name),
            MetricKind::Gauge => assert!(object[metric.name].is_null(), "{}", metric.name),
        }
    }
    assert_eq!(object["history"]["sps"]["count"].as_u64(), Some(0));
    assert_eq!(object["progress"].as_f64(), Some(0.0));
    assert!(object["sampled"].is_null() && object["eta_s"].is_null());
    assert_eq!(object["cores"], Value::Array(Vec::new()));
}

#[test]
fn a_run_that_ended_says_how() {
    let (_dir, mut ring, reader) = run(50);
    ring.writer.set_state(RunState::Failed, "the disk is full");
    let mut reading = Reading::of(&reader).unwrap();
    assert_eq!(parse(&reading)["reason"], "the disk is full");
    // A ring is a file that anyone may have written.
    reading.status.reason = "the disk said \"no\"\u{1b}[31m".to_owned();
    let object = parse(&reading);
    assert_eq!(object["state"], "failed");
    assert_eq!(object["reason"], "the disk said \"no\"\u{1b}[31m");
    assert!(object["eta_s"].is_null());
    assert_eq!(object["env_steps"].as_u64(), Some(51_200));
}

#[test]
fn a_metric_of_a_later_trainer_cannot_break_the_object() {
    let (_dir, _ring, reader) = run(3);
    let mut reading = Reading::of(&reader).unwrap();
    reading.figures[3].info.name = "state".to_owned();
    reading.figures[4].info.name = "sps\"\n".to_owned();
    reading.figures[5].info.name = "sps\"\n".to_owned();
    let object = parse(&reading);
    assert_eq!(object["state"], "running");
    assert!(object["sps\"\n"].is_number());
    assert_eq!(object.as_object().unwrap().len(), FIXED.len() + COUNT - 2);
}

fn text(reading: &Reading, style: &Style) -> String {
    let text = snapshot(reading, style);
    for line in text.lines() {
        assert!(line.chars().count() <= style.width, "{line:?} is wider than {}", style.width);
        assert_eq!(line.trim_end(), line, "a line ends in blanks");
        assert!(style.colour || !line.chars().any(char::is_control), "{line:?}");
    }
    text
}

const PLAIN: Style = Style { width: 80, ascii: false, colour: false };

#[test]
fn text_of_a_live_run() {
    let (_dir, mut ring, reader) = run(300);
    sample(&mut ring);
    ring.writer.set_checkpoint(102_400, "/somewhere/runs/first-try/checkpoints/102400".as_ref());
    let reading = steady(Reading::of(&reader).unwrap());
    insta::assert_snapshot!(text(&reading, &PLAIN));
    let ascii = text(&reading, &Style { ascii: true, ..PLAIN });
    assert!(ascii.is_ascii(), "{ascii}");
    insta::assert_snapshot!(ascii);
}

#[test]
fn text_of_a_killed_run() {
    let (_dir, mut ring, reader) = run(300);
    sample(&mut ring);
    ring.writer.set_checkpoint(102_400, "/somewhere/runs/first-try/checkpoints/102400".as_ref());
    let mut reading = steady(Reading::of(&reader).unwrap());
    reading.status.health = Health::Killed;
    insta::assert_snapshot!(text(&reading, &PLAIN));
}

#[test]
fn text_before_the_first_update() {
    let (_dir, _ring, reader) = run(0);
    let mut reading = steady(Reading::of(&reader).unwrap());
    reading.events.clear();
    insta::assert_snapshot!(text(&reading, &PLAIN));
}

#[test]
fn text_survives_hostile_rings_and_many_cores() {
    let (_dir, mut ring, reader) = run(10);
    sample(&mut ring);
    let mut reading = steady(Reading::of(&reader).unwrap());
    reading.identity.run = "evil\u{1b}[2J\r\n".repeat(30);
    reading.identity.env = "\u{202e}".to_owned();
    reading.status.reason = "\u{7}".repeat(200);
    reading.events.push(event(3, Level::Error, &"wörd\u{1b} ".repeat(60)));
    reading.figures[0].info.name = "a_very_long_name_of_a_metric_that_nobody_would_give".to_owned();
    reading.figures[0].info.unit = "furlongs per fortnight\u{1b}[31m".to_owned();
    let cores = &mut reading.sample.as_mut().unwrap().cores;
    *cores = (0..512)
        .map(|number| Core { number, kind: CoreKind::Uniform, utilization: number as f32 / 511.0 })
        .collect();
    text(&reading, &PLAIN);
    text(&reading, &Style { ascii: true, ..PLAIN });
    for width in 20..80 {
        text(&reading, &Style { width, ..PLAIN });
    }
}

#[test]
fn colour_is_the_only_difference_on_a_terminal() {
    let (_dir, mut ring, reader) = run(10);
    sample(&mut ring);
    let reading = steady(Reading::of(&reader).unwrap());
    let coloured = snapshot(&reading, &Style { colour: true, ..PLAIN });
    assert!(coloured.contains("\u{1b}["));
    let mut bare = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        bare.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    assert_eq!(bare + rest, text(&reading, &PLAIN));
}

#[test]
fn without_a_name_a_newer_sweep_does_not_hide_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let locations = RunLocations { rings: Some(dir.path().join("rings")), run_dir: Some(dir.path().into()) };
    let make = |name: &str, file: &str, second: u64| {
        let run = dir.path().join(name);
        std::fs::create_dir(&run).unwrap();
        std::fs::write(run.join(file), "").unwrap();
        std::fs::write(run.join("run.json"), format!(r#"{{"run":"{name}","state":"finished"}}"#)).unwrap();
        let written = std::fs::File::options().write(true).open(run.join("run.json")).unwrap();
        written.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(second)).unwrap();
    };
    let shown = || match select::runs(&locations, &[]) {
        Ok(runs) => runs.iter().map(|run| run.identity().run.clone()).collect(),
        Err(error) => error.to_string(),
    };
    assert!(shown().contains("there is no run to show"), "{}", shown());
    make("rates", "sweep.db", 2);
    assert!(
        shown().contains("rates is a sweep, which is shown alone; watch it with `operant monitor"),
        "{}",
        shown()
    );
    make("mine", "config.toml", 1);
    assert_eq!(shown(), "mine");
}
