//! The resources of each function of each compiled program, and the allowed spills.

use anyhow::{Context, Result, ensure};
use operant_cuda::{CompiledProgram, Resources};

use super::Compiled;
use super::matrix::{Job, NetworkVariant};

/// One function of one program.
#[derive(Debug, Clone)]
pub struct Usage {
    /// The kernel that runs it.
    pub kernel: String,
    /// The function that the kernel calls; None for the kernel itself.
    pub callee: Option<String>,
    /// Registers a thread of the kernel, what it calls included.
    pub registers: u32,
    /// Bytes of shared memory a block of the kernel.
    pub shared: u32,
    /// Bytes of stack per thread: for a kernel at its deepest call, for a called function its own frame.
    pub stack: u32,
    /// Bytes a thread that spilled registers are stored in and loaded from.
    pub spills: u32,
}

impl Usage {
    /// `ppo_update`, or `ppo_update > gradient_phase` for what it calls.
    pub fn name(&self) -> String {
        let callee = self.callee.as_ref().map(|callee| format!(" > {callee}"));
        self.kernel.clone() + &callee.unwrap_or_default()
    }
}

/// A function that may spill, or have a stack.
struct Allowed {
    /// The function, as in [`Usage::name`].
    function: &'static str,
    /// The network's hidden layers, and its precision or None for each; None for all networks.
    network: Option<(&'static str, Option<&'static str>)>,
    /// Bytes of stack, and of spills, at most.
    stack: u32,
    spills: u32,
}

impl Allowed {
    fn is_for(&self, function: &str, shape: Option<&NetworkVariant>) -> bool {
        let same = |(hidden, precision): (_, Option<_>)| {
            shape.is_some_and(|it| it.hidden == hidden && precision.is_none_or(|name| it.precision == name))
        };
        self.function == function && self.network.is_none_or(same)
    }
}

const fn stack(function: &'static str, stack: u32) -> Allowed {
    Allowed { function, network: None, stack, spills: 0 }
}

const WIDEST: Option<(&str, Option<&str>)> = Some(("256-256", Some("bf16")));

const PRESETS: Option<(&str, Option<&str>)> = Some(("presets", Some("tf32")));

const TABLES: Option<(&str, Option<&str>)> = Some((super::matrix::WITH_TABLES, None));

/// Divisions and roots of double precision, once a minibatch, and tables of layers that are indexed by a parameter's number keep 16
/// bytes. The widest network in bf16 needs more than the 255 registers that a thread can have, most of all on sm_120. One-hot bits of
/// indices are set in an array that is indexed at run time: 16 words for the 500 values of taxi. In tf32 the presets' networks need
/// 248 registers and more; pendulum's, with a Gaussian, stores eight of them on sm_90.
const ALLOWED: &[Allowed] = &[
    stack("pack", 16),
    stack("update_pack", 16),
    stack("update_adam", 16),
    stack("ppo_update", 16),
    Allowed { function: "ppo_update", network: TABLES, stack: 80, spills: 0 },
    Allowed { function: "update_gradient", network: TABLES, stack: 64, spills: 0 },
    Allowed { function: "ppo_update", network: PRESETS, stack: 32, spills: 64 },
    Allowed { function: "ppo_update > gradient_phase", network: PRESETS, stack: 0, spills: 32 },
    Allowed { function: "rollout", network: WIDEST, stack: 88, spills: 316 },
    Allowed { function: "ppo_update", network: WIDEST, stack: 128, spills: 256 },
    Allowed { function: "ppo_update > gradient_phase", network: WIDEST, stack: 0, spills: 248 },
    Allowed { function: "update_gradient", network: WIDEST, stack: 48, spills: 0 },
    Allowed { function: "update_gradient > gradient_phase", network: WIDEST, stack: 0, spills: 164 },
];

/// The functions that spill, or have a stack, beyond what is allowed.
pub fn not_allowed(compiled: &[Compiled]) -> Vec<String> {
    let mut broken = Vec::new();
    for Compiled { job, functions, .. } in compiled {
        for usage in functions {
            let name = usage.name();
            let allowed = ALLOWED.iter().filter(|allowed| allowed.is_for(&name, job.shape.as_ref()));
            let (stack, spills) =
                allowed.fold((0, 0), |most, it| (most.0.max(it.stack), most.1.max(it.spills)));
            if usage.stack > stack || usage.spills > spills {
                broken.push(format!(
                    "  {name} ({}): {} bytes of stack ({stack} allowed), {} of spills ({spills} allowed)",
                    job.name(),
                    usage.stack,
                    usage.spills
                ));
            }
        }
    }
    broken
}

/// The functions of a program, read from the compiler's log.
///
/// # Errors
/// The machine code has a function that the log does not.
pub fn usages(job: &Job, image: &CompiledProgram) -> Result<Vec<Usage>> {
    let resources = image.resources();
    let logged: Vec<String> = resources.iter().flat_map(symbols).collect();
    for symbol in functions_of(&image.code).context("the CUBIN is no ELF file as NVRTC makes them")? {
        // Divisions and roots that the assembler adds are not in its log; a kernel's stack has theirs.
        ensure!(
            symbol.starts_with("$__internal_") || logged.contains(&symbol),
            "the machine code has a function {symbol}, and the compiler's log does not say what it uses"
        );
    }
    let usage = |kernel: &Resources, number: usize| {
        let function = &kernel.functions[number];
        Usage {
            kernel: kernel.kernel.clone(),
            callee: (number > 0).then(|| plain_name(&function.name).to_owned()),
            registers: kernel.registers,
            shared: kernel.shared + job.shared.unwrap_or(0) as u32,
            stack: if number == 0 { kernel.stack } else { function.frame },
            spills: function.spill_stores + function.spill_loads,
        }
    };
    let all = |kernel: &Resources| (0..kernel.functions.len()).map(|number| usage(kernel, number)).collect();
    Ok(resources.iter().flat_map(|kernel| -> Vec<Usage> { all(kernel) }).collect())
}

/// The names of a kernel's functions in the CUBIN: `rollout`, and `$rollout$_Z7forwardPKf` for one that it calls.
fn symbols(kernel: &Resources) -> Vec<String> {
    let callees = kernel.functions.iter().skip(1);
    let callees = callees.map(|function| format!("${}${}", kernel.kernel, function.name));
    [kernel.kernel.clone()].into_iter().chain(callees).collect()
}

/// `gradient_phase` of `_Z14gradient_phaseRK12UpdateParamsjj`.
fn plain_name(mangled: &str) -> &str {
    let Some(rest) = mangled.strip_prefix("_Z") else { return mangled };
    let rest = rest.trim_start_matches(|c: char| !c.is_ascii_digit());
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let length: usize = rest[..digits].parse().unwrap_or(0);
    rest.get(digits..digits + length).unwrap_or(mangled)
}

/// The names of all functions in the symbol table of a 64-bit ELF file.
fn functions_of(elf: &[u8]) -> Option<Vec<String>> {
    let number = |at: usize, bytes: usize| -> Option<usize> {
        let bytes = elf.get(at..at + bytes)?;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    };
    const SYMBOLS: usize = 2;
    const FUNCTION: u8 = 2;
    let (sections, size, count) = (number(0x28, 8)?, number(0x3a, 2)?, number(0x3c, 2)?);
    let mut functions = Vec::new();
    for section in (0..count).map(|index| sections + index * size) {
        if number(section + 4, 4)? != SYMBOLS {
            continue;
        }
        let (start, bytes, entry) =
            (number(section + 24, 8)?, number(section + 32, 8)?, number(section + 56, 8)?);
        let names = number(sections + number(section + 40, 4)? * size + 24, 8)?;
        for symbol in (start..start + bytes).step_by(entry.max(1)) {
            if elf.get(symbol + 4)? & 0xf == FUNCTION {
                let name = elf.get(names + number(symbol, 4)?..)?.split(|byte| *byte == 0).next()?;
                functions.push(String::from_utf8_lossy(name).into_owned());
            }
        }
    }
    Some(functions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use operant_cuda::Program;

    #[test]
    fn names_of_functions_are_read_from_what_the_compiler_calls_them() {
        assert_eq!(plain_name("_Z14gradient_phaseRK12UpdateParamsjj"), "gradient_phase");
        assert_eq!(plain_name("_ZN7Weights4loadEv"), "Weights");
        assert_eq!(plain_name("rollout"), "rollout");
        assert_eq!(plain_name("_Z99short"), "_Z99short");
    }

    #[test]
    fn a_function_that_the_log_does_not_have_is_an_error() {
        // An ELF file of three sections: none, the symbols, their names.
        let mut elf = vec![0u8; 0x40 + 3 * 64];
        let mut put = |at: usize, value: usize, bytes: usize| {
            elf[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
        };
        let (symbols, names) = (0x40 + 3 * 64, 0x40 + 3 * 64 + 2 * 24);
        for (at, value, bytes) in [(0x28, 0x40, 8), (0x3a, 64, 2), (0x3c, 3, 2)] {
            put(at, value, bytes);
        }
        for (at, value, bytes) in [(4, 2, 4), (24, symbols, 8), (32, 2 * 24, 8), (40, 2, 4), (56, 24, 8)] {
            put(0x40 + 64 + at, value, bytes);
        }
        put(0x40 + 2 * 64 + 24, names, 8);
        elf.extend([1, 0, 0, 0, 2].iter().chain(&[0; 19]));
        elf.extend([9, 0, 0, 0, 0x12].iter().chain(&[0; 19]));
        elf.extend(b"\0rollout\0$rollout$_Z4stepv\0");
        assert_eq!(functions_of(&elf), Some(vec!["rollout".to_owned(), "$rollout$_Z4stepv".to_owned()]));
        assert_eq!(functions_of(b"no ELF file"), None);

        let job = Job {
            shape: None,
            architecture: 90,
            shared: Some(64),
            program: Program { name: "rollout.cu".to_owned(), ..Program::default() },
        };
        let kernel = "Compiling entry function 'rollout' for 'sm_90'\n\
                      Function properties for rollout\n 8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n\
                      : Used 165 registers, 72 bytes cumulative stack size, 16 bytes smem\n";
        let callee = "Function properties for _Z4stepv\n 64 bytes stack frame, 60 bytes spill stores, 0 bytes spill loads\n";
        let image = |log| CompiledProgram { code: elf.clone(), log, cached: false, seconds: 0.0, note: None };
        let error = usages(&job, &image(kernel.to_owned())).expect_err("a function is missing");
        assert!(error.to_string().contains("$rollout$_Z4stepv"), "{error}");

        let functions = usages(&job, &image(format!("{kernel}{callee}"))).expect("all are there");
        let shown = |usage: &Usage| (usage.name(), usage.registers, usage.shared, usage.stack, usage.spills);
        assert_eq!(shown(&functions[0]), ("rollout".to_owned(), 165, 80, 72, 16));
        assert_eq!(shown(&functions[1]), ("rollout > step".to_owned(), 165, 80, 64, 60));
        let broken = not_allowed(&[Compiled { job, functions, seconds: 0.0 }]);
        assert_eq!(broken.len(), 2, "{broken:?}");
        assert!(
            broken[1].contains("rollout > step (rollout.cu, sm_90): 64 bytes of stack (0 allowed)"),
            "{broken:?}"
        );
    }

    #[test]
    fn what_is_allowed_holds_for_its_network_alone() {
        let shape =
            |hidden: &str| NetworkVariant { hidden: hidden.to_owned(), precision: "bf16", fused: true };
        let allowed = |hidden: &str| ALLOWED.iter().any(|it| it.is_for("rollout", Some(&shape(hidden))));
        assert!(allowed("256-256") && !allowed("64-64"));
    }
}
