//! Counting on a small recorded kernel, whose numbers were counted by hand: `xtask/tests/data/tiny.sass`.

use super::*;

const TINY: &str = include_str!("../../../tests/data/tiny.sass");
const FACTS: Facts = Facts { policy: true, draws_every_fourth: true, bits_a_word: None };

fn turn_of(text: &str, facts: Facts) -> Result<Turn> {
    turn(&Kernel::parse(text, "tiny")?, facts)
}

/// What is wrong with the recorded kernel after a change.
fn complaint(from: &str, to: &str) -> String {
    assert!(TINY.contains(from), "{from}");
    format!("{:#}", turn_of(&TINY.replace(from, to), FACTS).expect_err(to))
}

#[test]
fn a_turn_is_what_was_counted_by_hand() {
    let turn = turn_of(TINY, FACTS).expect("it can be counted");
    let policy = turn.policy.expect("it has a policy");
    // The head's 7 instructions, 8 turns of 19, and 3 up to the branch to the bootstrap.
    assert_eq!((policy.all, policy.ffma, policy.shared, policy.global), (162.0, 32.0, 32.0, 32.0));
    // A quarter of the draw's 16, and 35 more; neither the bootstrap's 8 nor the loop behind that draws nothing.
    assert_eq!((turn.step.all, turn.step.ffma), (162.0 + 4.0 + 35.0, 33.0));
    assert_eq!((turn.step.shared, turn.step.global), (33.0, 33.0));
    assert_eq!(turn.end.map(|end| end.all), Some(20.0));
}

#[test]
fn a_loop_without_a_policy_has_no_bootstrap_to_leave_out() {
    let turn = turn_of(TINY, Facts { policy: false, ..FACTS }).expect("it can be counted");
    assert_eq!((turn.policy, turn.step.all), (None, 201.0 + 8.0));
}

#[test]
fn what_cannot_be_told_is_an_error() {
    // The only comparison with a constant that ends the loop over k.
    let endless = complaint("ISETP.GE.U32.AND P0, PT, R22, 0x40, PT", "ISETP.GE.U32.AND P0, PT, R22, R4, PT");
    assert!(endless.contains("the loop at 0x250"), "{endless}");
    let uneven = complaint("R22, 0x40, PT", "R22, 0x41, PT"); // half of the lanes would turn once more
    assert!(uneven.contains("the loop at 0x250"), "{uneven}");
    let still = complaint("-0x", "0x").to_lowercase();
    assert!(still.contains("0 outermost loops draw"), "{still}");
    let alone = complaint("VOTE.ANY P0, P0", "NOP");
    assert!(alone.contains("no vote"), "{alone}");
    let calls = complaint("VIADD R10, R10, 0x1 ;", "CALL.REL.NOINC `($other) ;");
    assert!(calls.contains("calls `$other`"), "{calls}");
    let first = complaint("@P0 BRA `(.L_x_7)", "NOP"); // the draw of every step, then
    assert!(first.contains("the draw of every fourth step"), "{first}");
    let computed = complaint("@P0 BRA `(.L_x_7)", "BRX R2 -0x10");
    assert!(computed.contains("is computed"), "{computed}");
}

#[test]
fn a_kernel_that_is_not_there_is_an_error() {
    let error = Kernel::parse(TINY, "other").expect_err("there is none");
    assert!(error.to_string().contains("no kernel `other`"), "{error}");
}

#[test]
fn ways_for_parted_lanes_are_not_taken() {
    let parted =
        TINY.replace("VOTE.ANY P0, P0 ;", "VOTE.ANY P0, P0 ;\n        /*0818*/ BRA.DIV UR4, `(.L_x_4) ;");
    let turn = turn_of(&parted, FACTS).expect("it can be counted");
    assert_eq!(turn.step.all, 202.0);
}
