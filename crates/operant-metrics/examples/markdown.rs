//! Prints the text of docs/metrics.md; `cargo xtask metrics-doc` puts it there.

fn main() {
    print!("{}", operant_metrics::markdown());
}
