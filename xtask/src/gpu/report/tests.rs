//! Tests of the report, from the results of a small round that was interrupted.

use super::*;

const ROWS: &str = include_str!("sample.txt");

/// The sample holds each file's lines after a line that names it.
fn file(name: &str) -> Option<String> {
    let from = ROWS.lines().skip_while(|line| *line != format!("# {name}")).skip(1);
    let lines: Vec<&str> = from.take_while(|line| !line.starts_with("# ")).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

const PAGE: &str = "\
# Speed

Prose before.

<!-- written by cargo xtask gpu --report -->

### CartPole, fused kernels

| environment | network and work | precision | environments | steps/s | of peak | rollout | update | measured |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
| cartpole | 4-64-64-2+1, 128 steps | f32 | 8192 | 171.4 M | - | 0.50 ms | 5.50 ms | H100, 2026-11-26, f877457 |
| cartpole | 4-64-64-2+1, 128 steps | tf32 | 8192 | 273.9 M | - | 0.19 ms | 3.60 ms | H100, 2026-11-26, f877457 |

<!-- end of what is written -->

Prose after.
";

#[test]
fn an_interrupted_round_replaces_what_it_measured_and_keeps_the_rest() {
    let round = Round::read(&file).expect("a round");
    let text = page(PAGE, &round).expect("a page");
    let (before, after) = ("# Speed\n\nProse before.\n\n<!--", "-->\n\nProse after.\n");
    assert!(text.starts_with(before) && text.ends_with(after), "{text}");
    let here = "NVIDIA H200, 2026-12-01, 0123456789ab |";
    let rows: Vec<&str> =
        text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---")).collect();
    let row = |start: &str| {
        let found: Vec<_> = rows.iter().filter(|row| row.starts_with(start)).collect();
        assert_eq!(found.len(), 1, "{start}: {text}");
        *found[0]
    };
    // Measured: replaced. Not measured, since the time was up: kept, with its date.
    let f32 = "| cartpole | 4-64-64-2+1, 128 steps | f32 | 8192 | 180.0 M (179.0 M .. 181.5 M) | 31.20 % | 0.45 ms | 5.40 ms | ";
    assert_eq!(row("| cartpole | 4-64-64-2+1, 128 steps | f32"), format!("{f32}{here}"));
    assert!(
        row("| cartpole | 4-64-64-2+1, 128 steps | tf32")
            .ends_with("| 3.60 ms | H100, 2026-11-26, f877457 |")
    );
    // Bits that agree, bits that do not, and a failure; the torn last line is omitted.
    assert_eq!(
        row("| cartpole | 64 |"),
        format!("| cartpole | 64 | 12.30 G (12.00 G .. 12.40 G) | yes | {here}")
    );
    assert!(row("| pendulum | 64").contains("| **no**: 3 of 65 environments differ |"), "{text}");
    assert!(row("| taxi | 64").contains("| failed: no room a/b | - |"), "{text}");
    assert!(!text.contains("acrobot"), "{text}");
    assert!(row("| overlap-on | 3.00 G | 430.0 M |").contains("| 7.50 | - | - |"), "{text}");
    // The ratio of medians, from the networks that both have; none without a measurement of operant.
    assert_eq!(row("| 8192 | bf16"), format!("| 8192 | bf16 | 280.0 M | 28.0 M | 10.00 | {here}"));
    assert!(row("| 65536 | bf16").contains("| - | 40.0 M | - |"), "{text}");
    assert!(row("| selftest | done | 70 | 64 |").contains("| 2 checks good, 1 failed |"), "{text}");
    assert!(
        row("| walk | skipped | 20 | 0 |").contains("| - |") || row("| walk | skipped").contains("|  |"),
        "{text}"
    );
    // A table without rows is not shown.
    assert!(!text.contains("### GEMM path"), "{text}");
}

#[test]
fn a_report_of_its_own_page_changes_nothing() {
    let round = Round::read(&file).expect("a round");
    let text = page(PAGE, &round).expect("a page");
    assert_eq!(page(&text, &round).expect("the same page"), text);
}

#[test]
fn nothing_to_report_and_no_place_for_it_are_errors() {
    assert!(Round::read(&|_| None).is_err());
    let round = Round::read(&file).expect("a round");
    assert!(page("# Speed\n", &round).is_err());
}

#[test]
fn the_page_keeps_its_figures() {
    let round = Round::read(&file).expect("a round");
    let now = include_str!("../../../../docs/results/gpu.md");
    let then = page(now, &round).expect("the page");
    let figures: Vec<&str> =
        now.lines().filter(|line| line.starts_with("| cartpole | 4-64-64-(2+1), ")).collect();
    assert!(!figures.is_empty() && figures.iter().all(|line| then.contains(line)), "{then}");
    assert!(then.contains("NVIDIA H200, 2026-12-01, 0123456789ab"));
}
