//! The page: what every function uses, as one table.

use std::collections::BTreeSet;

use operant_cuda::Version;

use super::Compiled;
use super::functions::Usage;
use super::matrix::{NUM_ENVS, NetworkVariant, SHOWN};

/// Fused kernels: a row for each network and precision. All others have one row.
const BY_NETWORK: [&str; 3] = ["rollout", "ppo_update", "update_gradient"];

/// The maximum resources of the programs of a row.
#[derive(Debug, Clone, Copy, Default)]
struct MaxUsage {
    registers: u32,
    shared: u32,
    stack: u32,
    spills: u32,
}

impl MaxUsage {
    fn add(&mut self, usage: &Usage) {
        self.registers = self.registers.max(usage.registers);
        self.shared = self.shared.max(usage.shared);
        self.stack = self.stack.max(usage.stack);
        self.spills = self.spills.max(usage.spills);
    }
}

/// One row.
struct Row {
    function: String,
    shape: Option<NetworkVariant>,
    shown: MaxUsage,
    everywhere: MaxUsage,
}

/// The page.
pub fn page(compiled: &[Compiled], version: Version) -> String {
    let architectures: BTreeSet<u32> = compiled.iter().map(|it| it.job.architecture).collect();
    let architectures: Vec<String> = architectures.iter().map(|number| format!("sm_{number}")).collect();
    let mut text = format!(
        "# What the kernels use

Written by `cargo xtask kernels`, which needs no GPU; `cargo xtask test --all` compares it. Do not edit.

NVRTC {version}, {} programs, specialised for {NUM_ENVS} environments.

Per function: registers a thread, bytes of shared memory a block, and bytes of stack and of spills (stored and loaded) a thread,
each the most that any environment needs on sm_{SHOWN}, then on any of {}. `a > b` is a function b that kernel a calls; its
registers are the kernel's. Auto: whether `kernels = \"auto\"` trains this network with these kernels on sm_{SHOWN}, or with matrix products.
A spill or a stack fails the check, except those that `xtask/kernels/src/functions.rs` allows by name and size.

| function | network | precision | auto | registers | shared | stack | spills | any: registers | stack | spills |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
",
        compiled.len(),
        architectures.join(", ")
    );
    for Row { function, shape, shown, everywhere } in rows(compiled) {
        let shape = shape.map_or("- | - | -".to_owned(), |NetworkVariant { hidden, precision, fused }| {
            format!("{hidden} | {precision} | {}", if fused { "yes" } else { "no" })
        });
        text += &format!(
            "| {function} | {shape} | {} | {} | {} | {} | {} | {} | {} |\n",
            shown.registers,
            shown.shared,
            shown.stack,
            shown.spills,
            everywhere.registers,
            everywhere.stack,
            everywhere.spills
        );
    }
    text
}

fn rows(compiled: &[Compiled]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    // The architecture that is shown comes first: its programs decide what a row says of them.
    let (shown, others): (Vec<_>, Vec<_>) = compiled.iter().partition(|it| it.job.architecture == SHOWN);
    for Compiled { job, functions, .. } in shown.into_iter().chain(others) {
        for usage in functions {
            let by_network = BY_NETWORK.contains(&usage.kernel.as_str());
            let shape = job.shape.clone().filter(|_| by_network);
            let key =
                |shape: &Option<NetworkVariant>| shape.as_ref().map(|it| (it.hidden.clone(), it.precision));
            let function = usage.name();
            let same = |row: &Row| row.function == function && key(&row.shape) == key(&shape);
            let index = rows.iter().position(same).unwrap_or_else(|| {
                rows.push(Row {
                    function: function.clone(),
                    shape,
                    shown: MaxUsage::default(),
                    everywhere: MaxUsage::default(),
                });
                rows.len() - 1
            });
            if job.architecture == SHOWN {
                rows[index].shown.add(usage);
            }
            rows[index].everywhere.add(usage);
        }
    }
    rows.sort_by(|a, b| (a.shape.is_none(), &a.function).cmp(&(b.shape.is_none(), &b.function)));
    rows
}

/// The compiler that made a page.
pub fn version_line(page: &str) -> Option<&str> {
    page.lines().find(|line| line.starts_with("NVRTC ")).and_then(|line| line.split(',').next())
}

/// Lines that only one of the pages has; the old and the new row of a function are adjacent.
pub fn differences(old: &str, new: &str) -> Vec<String> {
    let only = |sign: char, these: &str, those: &str| -> Vec<String> {
        let lines = these.lines().filter(|line| those.lines().all(|other| other != *line));
        lines.map(|line| format!("{sign} {line}")).collect()
    };
    let mut lines = [only('-', old, new), only('+', new, old)].concat();
    lines.sort_by_key(|line| line[2..].split('|').take(4).map(str::to_owned).collect::<Vec<_>>());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_show_old_and_new_rows_together() {
        let old = "| a | b | c | f32 | 90 | 128 |\n| a | d | c | f32 | 80 | 120 |\nsame";
        let new = "| a | b | c | f32 | 90 | 130 |\n| a | d | c | f32 | 80 | 140 |\nsame\nmore";
        assert_eq!(
            differences(old, new),
            [
                "- | a | b | c | f32 | 90 | 128 |",
                "+ | a | b | c | f32 | 90 | 130 |",
                "- | a | d | c | f32 | 80 | 120 |",
                "+ | a | d | c | f32 | 80 | 140 |",
                "+ more"
            ]
        );
        assert!(differences(new, new).is_empty());
    }

    #[test]
    fn the_version_is_read_back() {
        let text = page(&[], Version { major: 13, minor: 0 });
        assert_eq!(version_line(&text), Some("NVRTC 13.0"));
    }
}
