//! AMX's instructions: permission, tile configuration, and products of tiles.
//!
//! Each `asm!` block loads, multiplies and stores by itself: no tile is alive between blocks, and all of them are declared as clobbered.

#![allow(unsafe_code)] // Instructions without intrinsics; every block has a SAFETY comment.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) use instructions::{multiply_adds, outer, outer_pair, product, request};

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod instructions {
    use std::arch::asm;
    use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
    use std::cell::Cell;

    use crate::{Floats, LANES, Tile, Words};

    /// `arch_prctl`, and its request for a component of the processor's state.
    const ARCH_PRCTL: i64 = 158;
    const REQUEST_PERMISSION: i64 = 0x1023;
    /// Numbers of the components: tile configuration and tile data.
    const TILE_CONFIG: u32 = 17;
    const TILE_DATA: u32 = 18;
    /// Bytes of a tile's row.
    const ROW: usize = 64;

    /// Asks the CPU and the system whether this process may use AMX, once and for all its threads.
    pub(crate) fn request() -> Result<(), String> {
        if __cpuid(0).eax < 7 {
            return Err("the CPU has no AMX".to_owned());
        }
        let (has_xgetbv, features) = (__cpuid(1).ecx >> 27 & 1 == 1, __cpuid_count(7, 0).edx);
        let [bf16, tile] = [22, 24].map(|bit| features >> bit & 1 == 1);
        if !(bf16 && tile) {
            return Err("the CPU has no AMX".to_owned());
        }
        if !std::arch::is_x86_feature_detected!("avx512f") {
            return Err("the CPU has no AVX-512".to_owned());
        }
        // SAFETY: bit 27 of CPUID says that the instruction exists.
        let enabled =
            has_xgetbv && [TILE_CONFIG, TILE_DATA].iter().all(|bit| unsafe { xcr0() } >> bit & 1 == 1);
        if !enabled {
            return Err("the system has not enabled AMX".to_owned());
        }
        let result: i64;
        // SAFETY: a system call without pointers, which only permits the process to use a component. The kernel overwrites rcx and r11.
        unsafe {
            asm!("syscall", inlateout("rax") ARCH_PRCTL => result, in("rdi") REQUEST_PERMISSION,
                in("rsi") i64::from(TILE_DATA), out("rcx") _, out("r11") _, options(nostack));
        }
        if result == 0 { Ok(()) } else { Err(format!("the system does not permit AMX (error {})", -result)) }
    }

    /// Which components of its state the system has enabled.
    #[target_feature(enable = "xsave")]
    fn xcr0() -> u64 {
        // SAFETY: callers have checked that XGETBV exists; register 0 always does.
        unsafe { _xgetbv(0) }
    }

    thread_local! {
        /// Whether this thread's tiles are configured.
        static CONFIGURED: Cell<bool> = const { Cell::new(false) };
    }

    /// Gives this thread eight tiles of 16 rows of 64 bytes. Threads of the learner run no other code that configures tiles.
    ///
    /// # Safety
    /// [`request`] has succeeded.
    #[inline(always)]
    unsafe fn configure() {
        #[cold]
        unsafe fn load() {
            #[repr(C, align(64))]
            struct Configuration([u8; ROW]);
            let mut configuration = Configuration([0; ROW]);
            configuration.0[0] = 1; // The palette.
            for tile in 0..8 {
                configuration.0[16 + 2 * tile] = ROW as u8;
                configuration.0[48 + tile] = LANES as u8;
            }
            // SAFETY: the operand is 64 readable bytes, valid for palette 1; the caller vouches that the instruction exists.
            unsafe { asm!("ldtilecfg [{}]", in(reg) &configuration, options(nostack, readonly)) };
            CONFIGURED.set(true);
        }
        if !CONFIGURED.get() {
            // SAFETY: as this function's.
            unsafe { load() };
        }
    }

    /// `c[m][v] = sum over k of a[k][m] b[16 k ..][v]`: 16 outputs of V x 16 samples. The sum of each tile of `a` is added in turn.
    ///
    /// # Safety
    /// [`request`] has succeeded.
    pub(crate) unsafe fn product<const V: usize>(
        _used: [usize; 2],
        a: &[Tile<u32>],
        b: &[[Words; V]],
        c: &mut [[Floats; V]; LANES],
    ) {
        assert!(!a.is_empty() && b.len() == LANES * a.len() && matches!(V, 1 | 2 | 4));
        // SAFETY: the caller's.
        unsafe { configure() };
        // `a` has `count` tiles of 16 rows of 64 bytes one after another. Row k of `b` and row m of `c` are V x 64 bytes each, so the 16
        // rows of tile v begin 64 v bytes into 16 rows that lie V x 64 bytes apart, and the next 16 rows of `b` follow.
        macro_rules! product {
            ($($zero:literal)+; $($multiply:literal)+; $($store:literal)+) => {
                // SAFETY: whatever the configuration is, a tile has at most 16 rows of at most 64 bytes. By the lengths checked above, every
                // such row lies within `a`, `b` or `c`, and the loop advances `a` and `b` by what the lengths hold. `c` is borrowed for
                // writing. The tiles are declared as clobbered, and the caller vouches that the instructions exist.
                unsafe {
                    asm!(
                        $($zero,)+
                        "2:",
                        "tileloadd tmm4, [{a} + {row}]",
                        $($multiply,)+
                        "add {a}, 1024",
                        "add {b}, {step}",
                        "dec {count}",
                        "jnz 2b",
                        $($store,)+
                        a = inout(reg) a.as_ptr() => _,
                        b = inout(reg) b.as_ptr() => _,
                        c = in(reg) c.as_mut_ptr(),
                        count = inout(reg) a.len() => _,
                        row = in(reg) ROW,
                        stride = in(reg) V * ROW,
                        step = const { V * ROW * LANES },
                        out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _, out("tmm4") _, out("tmm5") _, out("tmm6") _,
                        options(nostack)
                    )
                }
            };
        }
        match V {
            1 => product!("tilezero tmm0";
                "tileloadd tmm5, [{b} + {stride}]" "tdpbf16ps tmm0, tmm4, tmm5";
                "tilestored [{c} + {stride}], tmm0"),
            2 => product!("tilezero tmm0" "tilezero tmm1";
                "tileloadd tmm5, [{b} + {stride}]" "tdpbf16ps tmm0, tmm4, tmm5"
                "tileloadd tmm6, [{b} + {stride} + 64]" "tdpbf16ps tmm1, tmm4, tmm6";
                "tilestored [{c} + {stride}], tmm0" "tilestored [{c} + {stride} + 64], tmm1"),
            _ => product!("tilezero tmm0" "tilezero tmm1" "tilezero tmm2" "tilezero tmm3";
                "tileloadd tmm5, [{b} + {stride}]" "tdpbf16ps tmm0, tmm4, tmm5"
                "tileloadd tmm6, [{b} + {stride} + 64]" "tdpbf16ps tmm1, tmm4, tmm6"
                "tileloadd tmm5, [{b} + {stride} + 128]" "tdpbf16ps tmm2, tmm4, tmm5"
                "tileloadd tmm6, [{b} + {stride} + 192]" "tdpbf16ps tmm3, tmm4, tmm6";
                "tilestored [{c} + {stride}], tmm0" "tilestored [{c} + {stride} + 64], tmm1"
                "tilestored [{c} + {stride} + 128], tmm2" "tilestored [{c} + {stride} + 192], tmm3"),
        }
    }

    /// `sums[h] += deltas[.., k] inputs[k][h]`, for k = 0 and then 1: the gradient of 16 outputs' weights, of 16 inputs for each h.
    ///
    /// # Safety
    /// [`request`] has succeeded.
    pub(crate) unsafe fn outer(
        deltas: &[[Words; 2]; LANES],
        inputs: &[[Tile<u32>; 2]; 2],
        sums: &mut [Tile<f32>; 2],
    ) {
        // SAFETY: the caller's.
        unsafe { configure() };
        // SAFETY: as in [`product`]: `deltas` has 16 rows of 2 x 64 bytes, the others tiles of 1024 bytes, four of them in `inputs`.
        unsafe {
            asm!(
                "tileloadd tmm0, [{sums} + {row}]", "tileloadd tmm1, [{sums} + {row} + 1024]",
                "tileloadd tmm4, [{deltas} + {stride}]",
                "tileloadd tmm6, [{inputs} + {row}]", "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{inputs} + {row} + 1024]", "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloadd tmm4, [{deltas} + {stride} + 64]",
                "tileloadd tmm6, [{inputs} + {row} + 2048]", "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{inputs} + {row} + 3072]", "tdpbf16ps tmm1, tmm4, tmm7",
                "tilestored [{sums} + {row}], tmm0", "tilestored [{sums} + {row} + 1024], tmm1",
                deltas = in(reg) deltas.as_ptr(), inputs = in(reg) inputs.as_ptr(), sums = in(reg) sums.as_mut_ptr(),
                row = in(reg) ROW, stride = in(reg) 2 * ROW,
                out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm6") _, out("tmm7") _,
                options(nostack)
            );
        }
    }

    /// [`outer`] for 32 outputs, whose inputs are loaded once.
    ///
    /// # Safety
    /// [`request`] has succeeded.
    pub(crate) unsafe fn outer_pair(
        deltas: &[[[Words; 2]; LANES]; 2],
        inputs: &[[Tile<u32>; 2]; 2],
        sums: &mut [[Tile<f32>; 2]; 2],
    ) {
        // SAFETY: the caller's.
        unsafe { configure() };
        // SAFETY: as in [`product`]: `deltas` has 32 rows of 2 x 64 bytes, the others tiles of 1024 bytes, four each.
        unsafe {
            asm!(
                "tileloadd tmm0, [{sums} + {row}]", "tileloadd tmm1, [{sums} + {row} + 1024]",
                "tileloadd tmm4, [{deltas} + {stride}]",
                "tileloadd tmm6, [{inputs} + {row}]", "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{inputs} + {row} + 1024]", "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloadd tmm2, [{sums} + {row} + 2048]", "tileloadd tmm3, [{sums} + {row} + 3072]",
                "tileloadd tmm5, [{deltas} + {stride} + 2048]",
                "tdpbf16ps tmm2, tmm5, tmm6", "tdpbf16ps tmm3, tmm5, tmm7",
                "tileloadd tmm4, [{deltas} + {stride} + 64]",
                "tileloadd tmm6, [{inputs} + {row} + 2048]", "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{inputs} + {row} + 3072]", "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{deltas} + {stride} + 2112]",
                "tdpbf16ps tmm2, tmm5, tmm6", "tdpbf16ps tmm3, tmm5, tmm7",
                "tilestored [{sums} + {row}], tmm0", "tilestored [{sums} + {row} + 1024], tmm1",
                "tilestored [{sums} + {row} + 2048], tmm2", "tilestored [{sums} + {row} + 3072], tmm3",
                deltas = in(reg) deltas.as_ptr(), inputs = in(reg) inputs.as_ptr(), sums = in(reg) sums.as_mut_ptr(),
                row = in(reg) ROW, stride = in(reg) 2 * ROW,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack)
            );
        }
    }

    /// `rounds` times four products of zeros without loads: the most that a core multiplies.
    ///
    /// # Safety
    /// [`request`] has succeeded.
    pub(crate) unsafe fn multiply_adds(rounds: usize) {
        if rounds == 0 {
            return;
        }
        // SAFETY: the caller's.
        unsafe { configure() };
        // SAFETY: registers alone.
        unsafe {
            asm!(
                "tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3", "tilezero tmm4", "tilezero tmm5",
                "2:",
                "tdpbf16ps tmm0, tmm4, tmm5", "tdpbf16ps tmm1, tmm4, tmm5",
                "tdpbf16ps tmm2, tmm4, tmm5", "tdpbf16ps tmm3, tmm4, tmm5",
                "dec {rounds}", "jnz 2b",
                rounds = inout(reg) rounds => _,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _, out("tmm4") _, out("tmm5") _,
                options(nostack, nomem)
            );
        }
    }
}

/// See the module of the same functions for Linux on x86-64: there is no AMX elsewhere, and no caller gets past [`request`].
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod none {
    pub(crate) fn request() -> Result<(), String> {
        Err("AMX is used on x86-64 under Linux alone".to_owned())
    }
}
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub(crate) use none::request;
