//! Whether a rollout can overlap an update: the update's blocks must leave enough resources for the rollout's blocks.

use operant_cuda::{CudaError, DeviceProperties, Function, LaunchConfig};

/// Bytes of shared memory per block that the system reserves, and the maximum blocks per multiprocessor, on every supported GPU.
pub const RESERVED: usize = 1024;
pub const MAX_RESIDENT_BLOCKS: usize = 32;

/// The resources that a block of a launch takes of a multiprocessor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockResources {
    threads: usize,
    registers: usize,
    shared: usize,
}

impl BlockResources {
    /// The resources of a kernel's launch.
    pub fn of((function, grid): (&Function, LaunchConfig)) -> Result<Self, CudaError> {
        let a_warp = function.registers()?.next_multiple_of(8) as usize * 32;
        let threads = grid.threads as usize;
        let shared = grid.shared as usize + RESERVED;
        Ok(Self { threads, registers: threads.div_ceil(32) * a_warp, shared })
    }
}

/// Why no block of the rollout can run together with the update's blocks, which are all resident until it ends; None if one
/// can.
pub fn no_room(
    properties: &DeviceProperties,
    (update, blocks): (BlockResources, usize),
    rollout: BlockResources,
) -> Option<String> {
    // The multiprocessor with the fewest blocks of the update.
    let each = blocks / (properties.multiprocessors as usize).max(1);
    let has = [
        ("threads", properties.threads_per_multiprocessor as usize, update.threads, rollout.threads),
        ("registers", properties.registers_per_multiprocessor as usize, update.registers, rollout.registers),
        ("bytes of shared memory", properties.shared_per_multiprocessor, update.shared, rollout.shared),
    ];
    let (what, all, taken, needed) =
        has.into_iter().find(|(_, all, taken, needed)| each * taken + needed > *all)?;
    Some(format!(
        "overlap has no effect: the update's {blocks} blocks take {} of the {all} {what} of every multiprocessor, and a \
         block of the rollout needs {needed}; with more num_minibatches an update has fewer blocks",
        each * taken
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::footprint::tests::h200;

    #[test]
    fn room_is_what_the_freest_multiprocessor_has_left() {
        let of = |threads, registers, shared| BlockResources { threads, registers, shared };
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
