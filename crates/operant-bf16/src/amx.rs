//! AMX's instructions: permission, tile configuration, and products of tiles.
//!
//! Tile registers keep values between [`begin`] and [`end`], and nowhere else. The compiler never uses tile registers itself. If other code
//! overwrote one, results would be wrong, but no memory outside the borrowed slices would be read or written.

#![allow(unsafe_code)] // Instructions without intrinsics; every block has a SAFETY comment.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) use instructions::{begin, end, multiply_adds, outer, request};

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

    /// Checks whether the CPU has AMX, and requests permission from the system, once for all threads of the process.
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

    /// Configures eight tiles of 16 rows of 64 bytes for this thread. Threads of the learner run no other code that configures tiles.
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
            // SAFETY: the operand is 64 readable bytes, valid for palette 1; the caller guarantees that the instruction exists.
            unsafe { asm!("ldtilecfg [{}]", in(reg) &configuration, options(nostack, readonly)) };
            CONFIGURED.set(true);
        }
        if !CONFIGURED.get() {
            // SAFETY: as this function's.
            unsafe { load() };
        }
    }

    /// Begins `c[m][h] = sum over k of a[k][m] b[16 k ..][H part + h]`: 16 outputs of H x 16 samples, H = 1 or 2. [`end`] stores it; nothing else may
    /// use tiles in between. The sum of each tile of `a` is added in turn.
    ///
    /// # Safety
    /// [`request`] has succeeded.
    pub(crate) unsafe fn begin<const V: usize, const H: usize>(
        a: &[Tile<u32>],
        b: &[[Words; V]],
        part: usize,
    ) {
        assert!(!a.is_empty() && b.len() == LANES * a.len() && matches!(H, 1 | 2) && H * (part + 1) <= V);
        // SAFETY: the caller's.
        unsafe { configure() };
        // `a` is `count` contiguous tiles of 16 rows x 64 bytes. A row of `b` has V x 64 bytes, so tile v of `b` is 16 rows of 64 bytes at
        // offset 64 v, with stride V x 64 bytes. The 16 rows of the next tile follow.
        macro_rules! begin {
            ($($zero:literal)+; $($multiply:literal)+) => {
                // SAFETY: whatever the configuration is, a tile has at most 16 rows of at most 64 bytes. By the lengths checked above, every
                // such row lies within `a` or `b`, and the loop advances both by what the lengths hold. The caller guarantees that the instructions
                // exist.
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
                        a = inout(reg) a.as_ptr() => _,
                        b = inout(reg) b.as_ptr().cast::<Words>().add(H * part) => _,
                        count = inout(reg) a.len() => _,
                        row = in(reg) ROW,
                        stride = in(reg) V * ROW,
                        step = const { V * ROW * LANES },
                        out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm5") _, out("tmm6") _,
                        options(nostack, readonly)
                    )
                }
            };
        }
        match H {
            1 => begin!("tilezero tmm0"; "tileloadd tmm5, [{b} + {stride}]" "tdpbf16ps tmm0, tmm4, tmm5"),
            _ => begin!("tilezero tmm0" "tilezero tmm1";
                "tileloadd tmm5, [{b} + {stride}]" "tdpbf16ps tmm0, tmm4, tmm5"
                "tileloadd tmm6, [{b} + {stride} + 64]" "tdpbf16ps tmm1, tmm4, tmm6"),
        }
    }

    /// Stores what [`begin`] has computed.
    ///
    /// # Safety
    /// [`begin`] was called on this thread.
    pub(crate) unsafe fn end<const H: usize>(c: &mut [[Floats; H]; LANES]) {
        assert!(matches!(H, 1 | 2));
        macro_rules! end {
            ($($store:literal)+) => {
                // SAFETY: 16 rows of at most 64 bytes, H x 64 bytes apart, lie within `c`, which is borrowed for writing. The instructions exist, as
                // `begin` was called.
                unsafe { asm!($($store,)+ c = in(reg) c.as_mut_ptr(), stride = in(reg) H * ROW, options(nostack)) }
            };
        }
        match H {
            1 => end!("tilestored [{c} + {stride}], tmm0"),
            _ => end!("tilestored [{c} + {stride}], tmm0" "tilestored [{c} + {stride} + 64], tmm1"),
        }
    }

    /// `sums[o][h] += deltas[o][.., k] inputs[k][h]`, for k = 0 and then 1: the gradient of 16 outputs' weights for each o, of 16 inputs for each h.
    ///
    /// # Safety
    /// [`request`] has succeeded.
    pub(crate) unsafe fn outer(
        deltas: &[[[Words; 2]; LANES]],
        inputs: &[[Tile<u32>; 2]; 2],
        sums: &mut [[Tile<f32>; 2]],
    ) {
        assert_eq!(deltas.len(), sums.len());
        // SAFETY: the caller's.
        unsafe { configure() };
        // Block $o is 16 outputs, with its sums in tiles $a and $b. Its deltas are at byte 2048 $o of `deltas`, 16 rows with stride 128; its
        // sums are at byte 2048 $o of `sums`, two tiles of 1024 bytes.
        macro_rules! load {
            ($o:literal, $a:literal, $b:literal) => {
                concat!(
                    "tileloadd ",
                    $a,
                    ", [{sums} + {row} + 2048*",
                    $o,
                    "]\n",
                    "tileloadd ",
                    $b,
                    ", [{sums} + {row} + 2048*",
                    $o,
                    " + 1024]\n"
                )
            };
        }
        macro_rules! store {
            ($o:literal, $a:literal, $b:literal) => {
                concat!(
                    "tilestored [{sums} + {row} + 2048*",
                    $o,
                    "], ",
                    $a,
                    "\n",
                    "tilestored [{sums} + {row} + 2048*",
                    $o,
                    " + 1024], ",
                    $b,
                    "\n"
                )
            };
        }
        macro_rules! multiply {
            ($o:literal, $a:literal, $b:literal) => {
                concat!(
                    "tileloadd tmm4, [{deltas} + {stride} + 2048*",
                    $o,
                    "]\n",
                    "tileloadd tmm6, [{inputs} + {row}]\n",
                    "tdpbf16ps ",
                    $a,
                    ", tmm4, tmm6\n",
                    "tileloadd tmm7, [{inputs} + {row} + 1024]\n",
                    "tdpbf16ps ",
                    $b,
                    ", tmm4, tmm7\n",
                    "tileloadd tmm5, [{deltas} + {stride} + 2048*",
                    $o,
                    " + 64]\n",
                    "tileloadd tmm6, [{inputs} + {row} + 2048]\n",
                    "tdpbf16ps ",
                    $a,
                    ", tmm5, tmm6\n",
                    "tileloadd tmm7, [{inputs} + {row} + 3072]\n",
                    "tdpbf16ps ",
                    $b,
                    ", tmm5, tmm7\n"
                )
            };
        }
        macro_rules! run { ($deltas:expr, $sums:expr, $($line:expr),+) => {
            // SAFETY: as in [`begin`], every tile row lies within `deltas`, `inputs` or `sums`: a block of `deltas` or `sums` has 2048 bytes,
            // and the lines use no more blocks than the slices have. `sums` is borrowed for writing.
            unsafe {
                asm!($($line,)+
                    deltas = in(reg) $deltas.as_ptr(), inputs = in(reg) inputs.as_ptr(), sums = in(reg) $sums.as_mut_ptr(),
                    row = in(reg) ROW, stride = in(reg) 2 * ROW,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack)
                )
            }
        } }
        let ((deltas, last), (sums, last_sums)) = (deltas.as_chunks::<4>(), sums.as_chunks_mut::<4>());
        for (deltas, sums) in deltas.iter().zip(sums) {
            // Two sets of sums alternate: one is multiplied while the other is stored and loaded. No sums are loaded right after a store 4096
            // bytes away, which the CPU would treat as a store to the same address.
            run!(
                deltas,
                sums,
                load!("0", "tmm0", "tmm1"),
                load!("2", "tmm2", "tmm3"),
                multiply!("0", "tmm0", "tmm1"),
                multiply!("2", "tmm2", "tmm3"),
                store!("0", "tmm0", "tmm1"),
                load!("1", "tmm0", "tmm1"),
                multiply!("1", "tmm0", "tmm1"),
                store!("2", "tmm2", "tmm3"),
                load!("3", "tmm2", "tmm3"),
                multiply!("3", "tmm2", "tmm3"),
                store!("1", "tmm0", "tmm1"),
                store!("3", "tmm2", "tmm3")
            );
        }
        for (deltas, sums) in last.iter().zip(last_sums) {
            run!(
                deltas,
                sums,
                load!("0", "tmm0", "tmm1"),
                multiply!("0", "tmm0", "tmm1"),
                store!("0", "tmm0", "tmm1")
            );
        }
    }

    /// `rounds` times four products of zeros without loads: the peak rate of a core.
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
