//! The tests of memory lifetimes again, with AddressSanitizer on the stand-in's device memory.

use crate::stand_in::{must_pass, rerun_sanitized};

fn passes(test: &str) {
    if let Some(output) = rerun_sanitized(test) {
        must_pass(&output);
    }
}

#[test]
#[ignore = "cargo xtask test --nightly"]
fn graphs_touch_only_memory_that_lives() {
    passes("streams::a_graph_repeats_what_was_captured_and_keeps_what_it_needs");
}

#[test]
#[ignore = "cargo xtask test --nightly"]
fn arenas_and_parts_touch_only_memory_that_lives() {
    passes("memory::an_arena_is_cut_at_multiples_of_256_bytes_and_outlived_by_its_buffers");
    passes("memory::a_part_is_the_same_memory_and_keeps_it");
}

#[test]
#[ignore = "cargo xtask test --nightly"]
fn pinned_memory_is_used_within_its_bounds() {
    passes("memory::pinned_memory_begins_as_zeros_and_is_copied_both_ways");
}

#[test]
#[ignore = "cargo xtask test --nightly"]
fn a_lost_device_leaves_nothing_in_use() {
    passes("lost::a_lost_device_answers_every_call_with_an_error");
}
