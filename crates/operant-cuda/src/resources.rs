//! What each kernel uses of a multiprocessor, read from the assembler's part of the compiler's log.

/// What a kernel uses, as the assembler counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resources {
    /// The kernel's name.
    pub kernel: String,
    /// Registers a thread.
    pub registers: u32,
    /// Bytes a thread that spilled registers are stored in, at all places together.
    pub spill_stores: u32,
    /// Bytes a thread that are loaded to get them back.
    pub spill_loads: u32,
    /// Bytes of stack a thread.
    pub stack: u32,
    /// Bytes of shared memory a block whose size the text fixes; dynamic shared memory is not among them.
    pub shared: u32,
}

/// Reads the log of `--ptxas-options=-v`. Per kernel it has three lines:
///
/// ```text
/// ptxas info    : Compiling entry function 'rollout' for 'sm_90'
/// ptxas info    : Function properties for rollout
///     8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
/// ptxas info    : Used 165 registers, used 1 barriers, 8 bytes cumulative stack size, 16 bytes smem, 528 bytes cmem[0]
/// ```
pub(crate) fn parse(log: &str) -> Vec<Resources> {
    let mut kernels: Vec<Resources> = Vec::new();
    // Properties of functions that are called, not launched, come between; only the kernel's own count.
    let mut function = String::new();
    for line in log.lines() {
        if let Some(name) = quoted_after(line, "Compiling entry function '") {
            kernels.push(Resources { kernel: name.to_owned(), ..Resources::default() });
        } else if let Some((_, name)) = line.split_once("Function properties for ") {
            function = name.trim().trim_matches('\'').to_owned();
        }
        let Some(kernel) = kernels.last_mut() else { continue };
        if line.contains(" bytes stack frame") && function == kernel.kernel {
            kernel.stack = number_before(line, " bytes stack frame");
            kernel.spill_stores = number_before(line, " bytes spill stores");
            kernel.spill_loads = number_before(line, " bytes spill loads");
        } else if line.contains(": Used ") {
            kernel.registers = number_before(line, " registers");
            kernel.shared = number_before(line, " bytes smem");
        }
    }
    kernels
}

fn quoted_after<'a>(line: &'a str, start: &str) -> Option<&'a str> {
    line.split_once(start)?.1.split('\'').next()
}

/// The number that stands before `unit`; 0 where the line does not have it.
fn number_before(line: &str, unit: &str) -> u32 {
    let Some((before, _)) = line.split_once(unit) else { return 0 };
    before.rsplit(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'rollout' for 'sm_90'
ptxas info    : Function properties for helper
    64 bytes stack frame, 60 bytes spill stores, 60 bytes spill loads
ptxas info    : Function properties for rollout
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 165 registers, used 1 barriers, 8 bytes cumulative stack size, 16 bytes smem, 528 bytes cmem[0]
ptxas info    : Compile time = 11.5 ms
ptxas info    : Compiling entry function 'gae' for 'sm_90'
ptxas info    : Function properties for gae
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers, 360 bytes cmem[0]
";

    #[test]
    fn every_kernel_has_its_own_numbers() {
        let expected = [
            Resources {
                kernel: "rollout".to_owned(),
                registers: 165,
                spill_stores: 4,
                spill_loads: 12,
                stack: 8,
                shared: 16,
            },
            Resources { kernel: "gae".to_owned(), registers: 8, ..Resources::default() },
        ];
        assert_eq!(parse(LOG), expected);
    }

    #[test]
    fn other_text_has_no_kernels() {
        assert_eq!(parse(""), []);
        assert_eq!(parse("warning: 3 registers were Used : Used 4 registers\n"), []);
    }
}
