//! The processes that `mpirun` or `srun` started, as the [`operant_learn::Group`] that trains a run.
//!
//! Without the feature `mpi` there is nothing to link, and [`start`] returns an error that describes how to get it.

#[cfg(not(feature = "mpi"))]
mod disabled;
#[cfg(feature = "mpi")]
mod enabled;

#[cfg(not(feature = "mpi"))]
pub use disabled::start;
#[cfg(feature = "mpi")]
pub use enabled::start;

/// Whether this build has MPI.
pub const IS_AVAILABLE: bool = cfg!(feature = "mpi");

/// Why MPI cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    /// What is missing.
    pub what: String,
    /// What to do.
    pub remedy: &'static str,
}

/// The place of a process among those that a launcher started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launched {
    /// Its number.
    pub rank: usize,
    /// How many there are, where the launcher says so.
    pub size: Option<usize>,
}

/// Variables in which launchers give a process its rank and their number: Open MPI, MPICH, Slurm.
const LAUNCHERS: [(&str, &str); 3] = [
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
];

/// The launcher's description of this process; None without a launcher. Available before [`start`], so that only one of many processes reports an error.
pub fn launched() -> Option<Launched> {
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    LAUNCHERS.iter().find_map(|(rank, size)| Some(Launched { rank: number(rank)?, size: number(size) }))
}
