//! Counting on a small made-up update, by hand: `gradient_phase` copies in 2 turns, sums 8 launch-dependent parts that do not count,
//! and has a loop over tiles with a load that is added to and stored again.

use operant_learn::Precision;

use super::*;

const TEXT: &str = "\
ppo_update:
        /*0000*/                   CALL.REL.NOINC `($_Z14gradient_phase) ;
        /*0010*/                   EXIT ;
$_Z14gradient_phase:
        /*0000*/                   LDC R3, c[0x0][RZ] ;
        /*0010*/                   S2R R2, SR_TID.X ;
        /*0020*/                   SHF.L.U32 R14, R2, 0x2, RZ ;
.L_x_1:
        /*0028*/                   IMAD.WIDE.U32 R10, R14, 0x4, R12 ;
        /*0030*/                   LD.E.128 R20, desc[UR10][R10.64] ;
        /*0040*/                   LEA R14, R3, R14, 0x2 ;
        /*0050*/                   ISETP.GE.U32.AND P0, PT, R14, 0x300, PT ;
        /*0060*/                   STS.128 [R17], R20 ;
        /*0070*/              @!P0 BRA `(.L_x_1) ;
.L_x_2:
        /*0080*/                   LD.E.64 R4, desc[UR10][R10.64] ;
        /*0090*/                   DADD R6, R6, R4 ;
        /*00a0*/                   ISETP.NE.AND P0, PT, R4, RZ, PT ;
        /*00b0*/               @P0 BRA `(.L_x_2) ;
.L_x_3:
        /*00c0*/                   BAR.SYNC 0x0 ;
        /*00d0*/                   LD.E.64 R30, desc[UR10][R106.64] ;
        /*00e0*/                   LD.E.128 R40, desc[UR10][R30.64] ;
        /*00f0*/                   FFMA R1, R41, R42, R1 ;
.L_x_4:
        /*0100*/                   LOP3.LUT R9, R9, 0x7feb352d, RZ, 0x3c, !PT ;
        /*0110*/                   ISETP.GE.U32.AND P1, PT, R9, R8, PT ;
        /*0120*/               @P1 BRA `(.L_x_4) ;
        /*0130*/                   MOV R80, R2 ;
.L_x_5:
        /*0140*/                   LD.E R6, desc[UR10][R4.64] ;
        /*0150*/                   FADD R7, R6, R1 ;
        /*0160*/                   ST.E desc[UR10][R4.64], R7 ;
        /*0170*/                   IADD3 R80, R3, R80, RZ ;
        /*0180*/                   ISETP.GE.U32.AND P1, PT, R80, 0x101, PT ;
        /*0190*/              @!P1 BRA `(.L_x_5) ;
        /*01a0*/                   ISETP.GE.U32.AND P1, PT, R90, R91, PT ;
        /*01b0*/              @!P1 BRA `(.L_x_3) ;
        /*01c0*/                   RET.REL.NODEC R4 `(ppo_update) ;
update_reduce:
        /*0000*/                   VIMNMX.U32 R5, R9, c[0x0][0xc], PT ;
        /*0010*/                   MOV R6, RZ ;
        /*0018*/                   MOV R10, R12 ;
.L_x_6:
        /*0020*/                   LDG.E R7, desc[UR10][R10.64] ;
        /*0030*/                   LDG.E R8, desc[UR10][R10.64+0x4] ;
        /*0040*/                   FADD R4, R7, R8 ;
        /*0050*/                   VIADD R6, R6, 0x2 ;
        /*0060*/                   ISETP.GE.U32.AND P0, PT, R6, R5, PT ;
        /*0070*/              @!P0 BRA `(.L_x_6) ;
        /*0080*/                   EXIT ;
update_adam:
.L_x_7:
        /*0000*/                   DMUL R4, R4, R4 ;
        /*0010*/                   ISETP.NE.AND P0, PT, R9, RZ, PT ;
        /*0020*/               @P0 BRA `(.L_x_7) ;
        /*0030*/                   CALL.REL.NOINC `($division) ;
        /*0040*/                   EXIT ;
$division:
        /*0000*/                   MUFU.RCP R4, R4 ;
        /*0010*/                   RET.REL.NODEC R2 `(update_adam) ;
";

const FACTS: Facts = Facts {
    launch: Launch { threads: 128, blocks: 8, busy: 6 },
    tile: Work { hmma: 0.0, ffma: 1.0, mufu: 0.0 },
};

#[test]
fn a_step_is_what_was_counted_by_hand() {
    let step = count(TEXT, FACTS).expect("it can be counted");
    // 4 up to the shuffle's walk of 3, one move, 3 turns of 6 for the first thread, and 2.
    assert_eq!((step.tile.counts.all, step.tile.counts.global, step.tile.counts.ffma), (28.0, 8.0, 1.0));
    // The sample; the launch's parameters, and what is added to.
    assert_eq!((step.tile.trips, step.tile.own_trips), (1.0, 1.0 + 3.0));
    // 3, two turns of 6, and the return; the parts are left out.
    assert_eq!((step.around.counts.all, step.around.counts.shared_cycles), (16.0, 8.0));
    assert_eq!((step.around.trips, step.around.own_trips), (2.0, 0.0));
    // 6 blocks, two a turn.
    assert_eq!(
        (step.reduce.counts.all, step.reduce.counts.global, step.reduce.trips),
        (3.0 + 3.0 * 6.0 + 1.0, 6.0, 3.0)
    );
    // The powers are left out, the function that is called is not.
    assert_eq!((step.adam.counts.all, step.adam.counts.mufu), (4.0, 1.0));
}

/// What is wrong with the made-up update after a change.
fn complaint(from: &str, to: &str) -> String {
    assert!(TEXT.contains(from), "{from}");
    format!("{:#}", count(&TEXT.replace(from, to), FACTS).expect_err(to))
}

#[test]
fn what_cannot_be_told_is_an_error() {
    let copies = complaint("R14, 0x300, PT", "R14, R15, PT");
    assert!(copies.contains("the loop at 0x28") && copies.contains("the gradient's phase"), "{copies}");
    let blocks = complaint("R6, R5, PT", "R6, R9, PT");
    assert!(blocks.contains("update_reduce") && blocks.contains("the loop at 0x20"), "{blocks}");
    let tiles = complaint("BAR.SYNC 0x0", "NOP");
    assert!(tiles.contains("0 outermost loops have a barrier"), "{tiles}");
    let inlined = complaint("$_Z14gradient_phase", "$other");
    assert!(inlined.contains("0 gradient phases"), "{inlined}");
    let work = complaint("FFMA R1", "FADD R1");
    assert!(work.contains("0 FFMA"), "{work}");
}

#[test]
fn a_bound_may_stand_before_the_counter() {
    let mirrored = TEXT.replace("ISETP.GE.U32.AND P0, PT, R6, R5, PT", "ISETP.LE.U32.AND P0, PT, R5, R6, PT");
    assert_eq!(count(&mirrored, FACTS).expect("it can be counted"), count(TEXT, FACTS).expect("so can this"));
}

#[test]
fn a_counter_may_begin_beside_the_number_of_the_thread() {
    // Two turns: 0x400 and 0x600 are less than 0x300 and 0x400, as they are compared.
    let shifted = TEXT
        .replace(
            "        /*0020*/                   SHF.L.U32 R14, R2, 0x2, RZ ;",
            "        /*0020*/                   LEA R14, R2, 0x400, 0x2 ;",
        )
        .replace(
            "ISETP.GE.U32.AND P0, PT, R14, 0x300, PT",
            "IADD3 R15, R14, -0x400, RZ ;\n        /*0058*/ ISETP.GE.U32.AND P0, PT, R15, 0x300, PT",
        );
    let step = count(&shifted, FACTS).expect("it can be counted");
    assert_eq!((step.around.counts.all, step.around.trips), (18.0, 2.0));
}

#[test]
fn slow_paths_are_left_out() {
    let step = count(&TEXT.replace("$division", "$division_slowpath"), FACTS).expect("it can be counted");
    assert_eq!(step.adam.counts.mufu, 0.0);
}

#[test]
fn a_tile_executes_what_the_network_says() {
    use operant_learn::Config;
    use operant_learn::network::{Architecture, Head, Input, Network};
    let of = |hidden: usize, precision: Precision| {
        let config = Config { hidden: vec![hidden, hidden], shared_trunk: true, ..Config::default() };
        let architecture = Architecture::new(&config, Input::Dense(4), Head::MultiDiscrete(vec![2]));
        Work::of_tile(&Network::new(architecture), precision, 4)
    };
    // Forward 1 x 8, 4 x 8 and 4 x 1; back 1 x 8 and 4 x 8; weights 4, 32 and 8 tiles over 4 warps, 4 steps of 16 samples each.
    assert_eq!(of(64, Precision::Bf16).hmma, 44.0 + 40.0 + 4.0 * (1.0 + 8.0 + 2.0));
    assert_eq!(of(64, Precision::Tf32).hmma, 80.0 + (8.0 + 64.0) + 8.0 * (1.0 + 8.0 + 2.0));
    // Weights: 1 x 2, 4 x 8 and 1 x 2 numbers a thread, 64 samples; back 64 x 4 and 64 x 64 by 2 threads a sample; slopes.
    let weights = 64.0 * (2.0 + 32.0 + 2.0);
    assert_eq!(of(64, Precision::F32).ffma, 2_272.0 + 512.0 + weights + 32.0 * (4.0 + 64.0) + 64.0);
}
