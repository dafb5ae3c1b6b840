//! Whether a rollout can run beside an update: whether the update's blocks leave room for those of the rollout.

use operant_cuda::{CudaError, DeviceProperties, Function, LaunchConfig};

/// Bytes of shared memory that the system takes of each block, and blocks that a multiprocessor holds at most, on every GPU that
/// the kernels run on.
pub const RESERVED: usize = 1024;
pub const MOST_BLOCKS: usize = 32;

/// What a block of a launch takes of a multiprocessor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockNeeds {
    threads: usize,
    registers: usize,
    shared: usize,
}

impl BlockNeeds {
    /// Of a kernel's launch.
    ///
    /// # Errors
    /// When the device fails.
    pub fn of((function, grid): (&Function, LaunchConfig)) -> Result<Self, CudaError> {
        let a_warp = function.registers()?.next_multiple_of(8) as usize * 32;
        let threads = grid.threads as usize;
        let shared = grid.shared as usize + RESERVED;
        Ok(Self { threads, registers: threads.div_ceil(32) * a_warp, shared })
    }
}

/// Why no block of the rollout runs while the update's blocks, which all run at once until it ends, do; None where one can.
pub fn no_room(
    properties: &DeviceProperties,
    (update, blocks): (BlockNeeds, usize),
    rollout: BlockNeeds,
) -> Option<String> {
    // The multiprocessor with the fewest of them.
    let each = blocks / (properties.multiprocessors as usize).max(1);
    let has = [
        ("threads", properties.threads_per_multiprocessor as usize, update.threads, rollout.threads),
        ("registers", properties.registers_per_multiprocessor as usize, update.registers, rollout.registers),
        ("bytes of shared memory", properties.shared_per_multiprocessor, update.shared, rollout.shared),
    ];
    let (what, all, taken, wanted) =
        has.into_iter().find(|(_, all, taken, wanted)| each * taken + wanted > *all)?;
    Some(format!(
        "overlap: no rollout runs beside an update, whose {blocks} blocks take {} of the {all} {what} of every multiprocessor, and a \
         block of the rollout takes {wanted}; more num_minibatches make an update of fewer blocks",
        each * taken
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::footprint::tests::h200;

    #[test]
    fn room_is_what_the_freest_multiprocessor_has_left() {
        let of = |threads, registers, shared| BlockNeeds { threads, registers, shared };
        let (update, rollout) = (of(128, 128 * 128, 100 << 10), of(128, 128 * 128, 30 << 10));
        let said = |blocks| no_room(&h200(), (update, blocks), rollout);
        assert_eq!(said(132), None);
        assert_eq!(said(132 * 2 - 1), None);
        let text = said(132 * 2).expect("228 KiB hold two blocks of the update and 28 KiB more");
        assert!(text.contains("204800 of the 233472 bytes of shared memory"), "{text}");
        assert_eq!(no_room(&h200(), (update, 131), of(1024, 65_536, 227 << 10)), None);
        let text = no_room(&h200(), (update, 132), of(1024, 65_536, 0)).expect("registers are shared, too");
        assert!(text.contains("16384 of the 65536 registers"), "{text}");
    }
}
