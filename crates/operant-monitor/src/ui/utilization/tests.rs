//! The panel, drawn.

use std::time::Duration;

use operant_metrics::{Core, CoreKind};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::draw;
use crate::data::RunView;
use crate::headless::fixture::{run, sample, screen};
use crate::ui::panel::Context;
use crate::view::View;
use operant_draw::symbols::ASCII;
use operant_draw::theme::Theme;

/// A machine: its cores by kind, and whether it has a GPU.
#[derive(Clone, Copy)]
struct Machine {
    performance: u32,
    efficiency: u32,
    uniform: u32,
    gpu: bool,
}

const LAPTOP: Machine = Machine { performance: 6, efficiency: 8, uniform: 0, gpu: false };
const STATION: Machine = Machine { performance: 0, efficiency: 0, uniform: 64, gpu: true };

fn plain(uniform: u32) -> Machine {
    Machine { performance: 0, efficiency: 0, uniform, gpu: false }
}

fn view_of(machine: Machine) -> (tempfile::TempDir, RunView) {
    let (dir, mut ring, reader) = run(12);
    sample(&mut ring);
    let mut run = RunView::of_source("first-try", reader);
    let mut set = |name: &str, value: f64| {
        let at = run.position(name).unwrap();
        run.latest[at] = value;
    };
    if machine.gpu {
        for (name, value) in [
            ("gpu_utilization", 0.97),
            ("gpu_memory", 12.5e9),
            ("gpu_power", 613.0),
            ("gpu_temperature", 61.0),
            ("gpu_clock", 1.98e9),
            ("bytes_h2d", 64.0),
            ("bytes_d2h", 1024.0),
        ] {
            set(name, value);
        }
    }
    for name in ["comm_share", "env_wait", "env_restarts"] {
        set(name, f64::NAN);
    }
    if machine.performance == 0 {
        for name in ["cpu_performance", "cpu_efficiency", "cpu_balance"] {
            set(name, f64::NAN);
        }
    }
    let kinds = [
        (CoreKind::Performance, machine.performance),
        (CoreKind::Efficiency, machine.efficiency),
        (CoreKind::Uniform, machine.uniform),
    ];
    let seen = run.sample.as_mut().unwrap();
    seen.age = Duration::from_millis(100);
    let kinds = kinds.into_iter().flat_map(|(kind, count)| std::iter::repeat_n(kind, count as usize));
    seen.cores = kinds
        .enumerate()
        .map(|(i, kind)| Core { number: i as u32, kind, utilization: (i * 37 % 101) as f32 / 100.0 })
        .collect();
    (dir, run)
}

fn drawn(run: &RunView, (width, height): (u16, u16), change: impl Fn(&mut Context)) -> String {
    let (theme, view) = (Theme::dark(), View::default());
    let mut context = Context::still(run, &view, &theme);
    change(&mut context);
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    draw(&context, area, &mut buffer);
    screen(&buffer)
}

fn shown(machine: Machine, size: (u16, u16)) -> String {
    let (_dir, run) = view_of(machine);
    drawn(&run, size, |_| {})
}

#[test]
fn two_cores() {
    insta::assert_snapshot!(shown(plain(2), (44, 8)));
}

#[test]
fn workers_of_environments_and_the_balance_of_the_cores() {
    let (_dir, mut run) = view_of(plain(2));
    for (name, value) in [("env_wait", 0.43), ("env_restarts", 3.0)] {
        let at = run.position(name).unwrap();
        run.latest[at] = value;
    }
    insta::assert_snapshot!(drawn(&run, (44, 8), |_| {}));
}

#[test]
fn a_run_of_several_processes() {
    let (_dir, mut run) = view_of(plain(2));
    let at = run.position("comm_share").unwrap();
    run.latest[at] = 0.082;
    insta::assert_snapshot!(drawn(&run, (44, 8), |_| {}));
}

#[test]
fn two_kinds_of_cores_and_their_balance() {
    insta::assert_snapshot!(shown(LAPTOP, (50, 20)) + &shown(LAPTOP, (50, 9)));
}

#[test]
fn a_gpu_and_many_cores() {
    insta::assert_snapshot!(shown(STATION, (70, 24)) + &shown(STATION, (50, 10)));
}

#[test]
fn five_hundred_cores() {
    insta::assert_snapshot!(shown(plain(512), (60, 16)) + &shown(plain(512), (40, 8)));
}

#[test]
fn in_few_rows_the_most_important_stays() {
    let sizes = [(40, 5), (40, 4), (40, 3), (20, 3), (7, 2)];
    insta::assert_snapshot!(sizes.map(|size| shown(STATION, size)).join("\n"));
}

#[test]
fn in_ascii() {
    let (_dir, run) = view_of(LAPTOP);
    let text = drawn(&run, (50, 14), |context| context.symbols = &ASCII);
    assert!(text.is_ascii(), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn an_old_sample_says_how_old() {
    let (_dir, mut run) = view_of(plain(2));
    run.sample.as_mut().unwrap().age = Duration::from_secs(42);
    let text = drawn(&run, (44, 8), |_| {});
    assert!(text.lines().next().unwrap().contains("42 s ago"), "{text}");
}

#[test]
fn without_a_sample_it_says_so() {
    let (_dir, _ring, reader) = run(0);
    insta::assert_snapshot!(drawn(&RunView::of_source("first-try", reader), (40, 5), |_| {}));
}

#[test]
fn every_core_is_shown_at_any_size_that_has_room() {
    for cores in [1, 2, 7, 64, 512] {
        let (_dir, run) = view_of(plain(cores));
        for height in 6..30 {
            // A cell for each core there are, at least: borders and three rows aside.
            if (height - 5) * 58 >= cores {
                let text = drawn(&run, (60, height as u16), |_| {});
                assert!(!text.contains("cores a column"), "{cores} cores in {height} rows\n{text}");
            }
        }
    }
}

#[test]
fn any_area_will_do() {
    for machine in [LAPTOP, STATION, plain(512), plain(0)] {
        let (_dir, run) = view_of(machine);
        for (width, height) in (0..36).flat_map(|width| (0..16).map(move |height| (width, height))) {
            drawn(&run, (width, height), |_| {});
        }
    }
}
