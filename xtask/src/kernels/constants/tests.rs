//! Constants on a small made-up kernel: blocks of 128 threads in a launch of 4 blocks, 3 of which have tiles.

use super::*;

const LAUNCH: Launch = Launch { threads: 128, blocks: 4, busy: 3 };

const TEXT: &str = "\
made_up:
        /*0000*/                   LDC R0, c[0x0][RZ] ;
        /*0010*/                   SHF.R.U32.HI R1, RZ, 0x5, R0 ;
        /*0020*/                   LEA.HI R2, R0, -0x1, RZ, 0x1b ;
        /*0030*/                   S2R R3, SR_TID.X ;
        /*0040*/                   LD.E.128 R4, desc[UR4][R8.64] ;
        /*0050*/                   VIMNMX.U32 R9, R4, c[0x0][0xc], PT ;
        /*0060*/                   ISETP.GE.U32.AND P0, PT, R1, 0x5, PT ;
        /*0070*/                   MOV R10, 0x7 ;
        /*0080*/              @!P0 BRA `(.L_x_1) ;
        /*0090*/                   MOV R10, 0x8 ;
        /*00a0*/                   CALL.REL.NOINC `($never) ;
.L_x_1:
        /*00b0*/                   ISETP.NE.AND P1, PT, R3, RZ, PT ;
        /*00c0*/               @P1 MOV R2, 0x9 ;
        /*00d0*/               @P1 BRA `(.L_x_2) ;
        /*00e0*/                   MOV R11, 0x1 ;
        /*00f0*/                   MOV R12, 0x1 ;
        /*0100*/                   BRA `(.L_x_3) ;
.L_x_2:
        /*0110*/                   MOV R11, 0x2 ;
        /*0120*/                   MOV R12, 0x1 ;
.L_x_3:
        /*0130*/                   LOP3.LUT R13, R1, 0x6, RZ, 0xc0, !PT ;
        /*0140*/                   EXIT ;
";

fn known() -> (Kernel, Constants) {
    let kernel = Kernel::parse(TEXT, "made_up").expect("it is machine code");
    let known = constants(&kernel, LAUNCH, |callee| callee == "$slow");
    (kernel, known)
}

/// What the kernel's last instruction sees.
fn at_the_end(operand: &str) -> Option<u32> {
    let (kernel, known) = known();
    known.value(&kernel, kernel.instructions.len() - 1, operand)
}

#[test]
fn what_follows_from_the_launch_is_known() {
    assert_eq!(
        [at_the_end("R0"), at_the_end("R1"), at_the_end("-R1")],
        [Some(128), Some(4), Some(4u32.wrapping_neg())]
    );
    assert_eq!(at_the_end("R9"), Some(3), "the lesser of blocks and tiles");
    assert_eq!(at_the_end("R13"), Some(4));
}

#[test]
fn a_way_that_is_never_taken_changes_nothing() {
    assert_eq!(at_the_end("R10"), Some(7), "4 warps are not 5");
    let (kernel, known) = known();
    let blocks = known.graph.reachable(0, |_| false);
    assert!(!blocks.iter().any(|block| kernel.has(*block, |i| i.callee().is_some())));
}

#[test]
fn what_threads_or_ways_differ_in_is_not_known() {
    assert_eq!(at_the_end("R3"), None, "the number of the thread");
    assert_eq!(at_the_end("R2"), None, "written where a predicate of it holds");
    assert_eq!(at_the_end("R7"), None, "the last of four that were loaded");
    assert_eq!([at_the_end("R11"), at_the_end("R12")], [None, Some(1)]);
}

#[test]
fn slow_functions_are_not_called() {
    let text = TEXT.replace("$never", "$slow").replace("R1, 0x5, PT", "R3, 0x5, PT");
    let kernel = Kernel::parse(&text, "made_up").expect("it is machine code");
    let value = |slow: &str| {
        let known = constants(&kernel, LAUNCH, |callee| callee == slow);
        known.value(&kernel, kernel.instructions.len() - 1, "R10")
    };
    assert_eq!([value("$slow"), value("$other")], [Some(7), None]);
}

#[test]
fn predicates_are_combined() {
    let kernel = |code: &str| Kernel::parse(&format!("made_up:\n{code}        /*0100*/ EXIT ;\n"), "made_up");
    let value = |code: &str, name: &str| {
        let kernel = kernel(code).expect("it is machine code");
        constants(&kernel, LAUNCH, |_| false).value_after(0, name)
    };
    let table = |table: &str| format!("        /*0000*/ PLOP3.LUT P0, PT, PT, PT, PT, {table}, 0x0 ;\n");
    assert_eq!([value(&table("0x80"), "P0"), value(&table("0x8"), "P0")], [Some(1), Some(0)]);
    let or = format!("{}        /*0010*/ ISETP.NE.OR P0, PT, RZ, RZ, P0 ;\n", table("0x80"));
    let and = format!("{}        /*0010*/ ISETP.EQ.AND P0, PT, RZ, RZ, !P0 ;\n", table("0x80"));
    assert_eq!([value(&or, "P0"), value(&and, "P0")], [Some(1), Some(0)]);
}
