//! `operant info` for a person: a label and its lines, what is missing in yellow on a terminal.

use comfy_table::{Attribute, Cell, Color, ContentArrangement, Table, presets};
use operant_metrics::plain;
use operant_run::path_text;

use super::{Auto, Core, Cpu, Found, Gpu, Info};
use crate::table::size;

/// Places that are named without `--verbose`, at most.
const FEW: usize = 4;

/// The rows of the page: a label, a text, and whether it says that something is missing.
#[derive(Debug, Default)]
struct Page(Vec<(String, String, bool)>);

impl Page {
    fn row(&mut self, label: &str, text: impl Into<String>) {
        self.0.push((label.to_owned(), text.into(), false));
    }

    fn warning(&mut self, label: &str, text: impl Into<String>) {
        self.0.push((label.to_owned(), text.into(), true));
    }

    /// A library: where it is, or what is wrong and what to do.
    fn found(&mut self, label: &str, found: &Found, more: &str, verbose: bool) {
        if let Some(path) = &found.path {
            let version =
                found.version.as_ref().map_or_else(String::new, |version| format!("CUDA {version}, "));
            self.row(label, format!("{version}{}{more}", path_text::shown(path)));
        }
        let (label, verdict) = if found.path.is_some() { ("", "problem") } else { (label, "missing") };
        if let Some(problem) = &found.problem {
            self.warning(label, format!("{verdict}: {problem}"));
        }
        if let Some(remedy) = &found.remedy {
            self.warning("", format!("remedy: {remedy}"));
        }
        if found.path.is_none() || verbose {
            self.searched(found, verbose);
        }
    }

    /// Where a library was searched for: few places, or the number of many.
    fn searched(&mut self, found: &Found, verbose: bool) {
        let (named, rest) = found.searched.split_at(match found.searched.len() {
            count if verbose || count <= FEW => count,
            _ => 0,
        });
        for (position, place) in named.iter().enumerate() {
            let lead = if position == 0 { "looked in: " } else { "           " };
            self.row("", format!("{lead}{place}"));
        }
        if !rest.is_empty() {
            self.row("", format!("looked in {} places, which --verbose and --json name", rest.len()));
        }
    }

    /// A library that only some networks need, with its own version.
    fn optional(&mut self, label: &str, found: &Found, wanted_by: &str, verbose: bool) {
        let version = found.version.as_ref().map_or_else(String::new, |version| format!("{version}, "));
        if let Some(path) = &found.path {
            self.row(label, format!("{version}{}", path_text::shown(path)));
        } else if let Some(problem) = &found.problem {
            self.row(label, format!("optional, for {wanted_by}: {problem}"));
            self.row("", format!("to get it: {}", found.remedy.as_deref().unwrap_or_default()));
        }
        if verbose {
            self.searched(found, verbose);
        }
    }

    fn finish(self) -> String {
        let mut table = Table::new();
        table.enforce_styling();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        for (label, text, warns) in self.0 {
            let (label, mut text) = (Cell::new(label), Cell::new(plain(&text)));
            if warns {
                text = text.fg(Color::Yellow);
            }
            table.add_row([label.add_attribute(Attribute::Bold), text]);
        }
        if let Some(labels) = table.column_mut(0) {
            labels.set_padding((0, 1));
        }
        let lines: Vec<String> = table.to_string().lines().map(|line| line.trim_end().to_owned()).collect();
        lines.join("\n") + "\n"
    }
}

pub fn text(info: &Info, verbose: bool) -> String {
    let mut page = Page::default();
    verdict(&mut page, info);
    let target = &info.target;
    page.row("operant", format!("{}, built for {} {}", info.version, target.os, target.arch));
    page.row("", format!("instructions: {}", listed(&target.features)));
    if !target.unused_features.is_empty() {
        page.warning("", format!("not used: {}, which this CPU has", listed(&target.unused_features)));
        page.warning("", "remedy: build operant on this machine, where cargo takes target-cpu=native");
    }
    cpu(&mut page, &info.cpu);
    page.found(
        "CUDA driver",
        &info.driver.found,
        &format!(" ({} is the least)", info.driver.minimum),
        verbose,
    );
    let architectures = info.compiler.architectures.as_ref().map_or_else(String::new, |list| {
        let list: Vec<String> = list.iter().map(u32::to_string).collect();
        format!(", compiles for sm_{}", list.join(", "))
    });
    page.found("NVRTC", &info.compiler.found, &architectures, verbose);
    page.optional("cuBLASLt", &info.blas, "wide networks", verbose);
    page.optional("NCCL", &info.nccl, "runs on several GPUs", verbose);
    match &info.kernel_cache {
        Some(cache) => page.row(
            "kernel cache",
            format!(
                "{}: {} kernels, {}",
                path_text::shown(&cache.directory),
                cache.kernels,
                size(cache.bytes)
            ),
        ),
        None => {
            page.warning("kernel cache", "missing: no directory for compiled kernels");
            page.warning("", "remedy: set HOME, XDG_CACHE_HOME or cache_dir");
        }
    }
    for device in &info.gpus {
        gpu(&mut page, device);
    }
    if info.gpus.is_empty() {
        page.row("GPU", "none");
    }
    page.finish()
}

/// What training runs on, and whether something is wrong.
fn verdict(page: &mut Page, info: &Info) {
    let Auto { device, reason } = &info.auto;
    let threads = match (device.as_str(), info.cpu.threads) {
        ("cpu", 1) => " with 1 thread".to_owned(),
        ("cpu", threads) => format!(" with {threads} threads"),
        _ => String::new(),
    };
    let on = format!("trains on {device}{threads}");
    match info.problems.as_slice() {
        [] => page.row("verdict", format!("{on}; nothing is wrong")),
        [one] => page.warning("verdict", format!("{on}; one problem: {one}")),
        several => {
            page.warning("verdict", format!("{on}; {} problems:", several.len()));
            several.iter().for_each(|problem| page.warning("", problem.as_str()));
        }
    }
    page.row("--device auto", format!("takes {device}: {reason}"));
}

fn cpu(page: &mut Page, cpu: &Cpu) {
    page.row("CPU", cpu.model.as_deref().unwrap_or("of unknown model"));
    page.row("", cores(&cpu.cores));
    if let (Some(total), Some(available)) = (cpu.memory_total, cpu.memory_available) {
        page.row("", format!("{} of memory, {} available", size(total), size(available)));
    }
    let plural = if cpu.threads == 1 { "" } else { "s" };
    page.row(
        "",
        format!("{} environments to a vector; training takes {} thread{plural}", cpu.lane_width, cpu.threads),
    );
    page.row("", format!("products in bf16: {}", cpu.bf16));
    if let Some(problem) = &cpu.plan_problem {
        page.warning("plan", format!("without the configuration, which cannot be used: {problem}"));
    }
    for (position, setting) in cpu.plan.iter().enumerate() {
        let label = if position == 0 && cpu.plan_problem.is_none() { "plan" } else { "" };
        page.row(label, format!("{} {}: {}", setting.name, setting.value, setting.reason));
    }
}

/// `8 performance and 4 efficiency cores`; hardware threads count each.
fn cores(cores: &[Core]) -> String {
    let count = |kind: &str| cores.iter().filter(|core| core.kind == kind).count();
    let kinds = [("performance", "performance "), ("efficiency", "efficiency "), ("uniform", "")];
    let parts: Vec<String> = kinds
        .iter()
        .filter(|(kind, _)| count(kind) > 0)
        .map(|(kind, shown)| format!("{} {shown}", count(kind)))
        .collect();
    match parts.as_slice() {
        [] => "cores unknown".to_owned(),
        parts => format!("{} hardware threads that this process may use", parts.join("and ").trim_end()),
    }
}

fn gpu(page: &mut Page, gpu: &Gpu) {
    let clock = |hertz: Option<u64>| {
        hertz.map_or_else(String::new, |hertz| format!(" at {:.2} GHz", hertz as f64 / 1e9))
    };
    page.row(
        &gpu.device,
        format!("{}, compute capability {}, {}", gpu.name, gpu.compute_capability, gpu.uuid),
    );
    page.row(
        "",
        format!(
            "{} multiprocessors{}, each {} of shared memory ({} a block) and {} registers",
            gpu.multiprocessors,
            clock(gpu.clock),
            size(gpu.shared_per_multiprocessor as u64),
            size(gpu.shared_per_block as u64),
            gpu.registers_per_multiprocessor
        ),
    );
    let bus = gpu.memory_bus_bits.map_or_else(String::new, |bits| format!(", {bits} bits wide"));
    let cache =
        gpu.l2_bytes.map_or_else(String::new, |bytes| format!(", {} of L2 cache", size(bytes as u64)));
    page.row("", format!("{} of memory{}{bus}{cache}", size(gpu.memory_total), clock(gpu.memory_clock)));
    let widths: Vec<String> =
        gpu.fused_up_to.iter().map(|(precision, width)| format!("{width} in {precision}")).collect();
    page.row(
        "",
        format!(
            "two hidden layers of up to {} run inside the kernels, wider ones by cuBLASLt",
            widths.join(", ")
        ),
    );
    if !gpu.cooperative {
        page.warning("", "no cooperative launch: an update takes a launch for each phase");
    }
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() { "the architecture's own".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_is_told_with_its_reasons() {
        let setting = |name, value: &str, reason: &str| super::super::Planned {
            name,
            value: value.to_owned(),
            reason: reason.to_owned(),
        };
        let mut of = Cpu {
            model: None,
            cores: Vec::new(),
            memory_total: None,
            memory_available: None,
            lane_width: 16,
            threads: 2,
            bf16: "by tiles".to_owned(),
            plan: vec![setting("threads", "2", "two cores"), setting("pinning", "off", "why")],
            plan_problem: None,
        };
        let rows = |of: &Cpu| {
            let mut page = Page::default();
            cpu(&mut page, of);
            page.0.split_off(4)
        };
        let row = |label: &str, text: &str, warns| (label.to_owned(), text.to_owned(), warns);
        let expected = [row("plan", "threads 2: two cores", false), row("", "pinning off: why", false)];
        assert_eq!(rows(&of), expected);
        of.plan_problem = Some("threads = -1".to_owned());
        let problem = rows(&of).swap_remove(0);
        assert!(problem.0 == "plan" && problem.1.ends_with("threads = -1") && problem.2, "{problem:?}");
    }

    #[test]
    fn cores_are_told_by_kind() {
        let of = |kinds: &[&'static str]| {
            let cores: Vec<Core> = kinds.iter().map(|&kind| Core { number: 0, kind }).collect();
            super::cores(&cores)
        };
        assert_eq!(of(&["uniform"; 2]), "2 hardware threads that this process may use");
        assert_eq!(
            of(&["performance", "efficiency", "efficiency"]),
            "1 performance and 2 efficiency hardware threads that this process may use"
        );
        assert_eq!(of(&[]), "cores unknown");
    }
}
