//! MPI, by the crate `mpi`.
//!
//! Collectives are nonblocking, and this module waits for them itself: it yields its CPU while it waits, and it detects a process
//! of this machine that has ended, for which MPI would wait forever.

#![allow(unsafe_code)] // Calls of MPI; every block has a SAFETY comment.

use std::collections::hash_map::DefaultHasher;
use std::ffi::c_int;
use std::hash::{Hash, Hasher};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mpi::environment::{Threading, Universe};
use mpi::ffi::{self, MPI_Comm, MPI_Request};
use mpi::topology::{Communicator, SimpleCommunicator};
use mpi::traits::AsRaw;
use operant_learn::group::Neighbours;
use operant_learn::{Group, LearnError};
use rustix::process::{Pid, test_kill_process};

use super::{Launched, Unavailable};

/// Bytes received at once, at most, so that the counts of MPI do not overflow and buffers stay small.
const PIECE: usize = 64 << 20;
/// Polls before the CPU is yielded, as messages within a machine take about a microsecond.
const SPINS: u32 = 2_000;
/// Polls before the thread sleeps between them.
const YIELDS: u32 = 20_000;
/// Time of such a sleep.
const SLEEP: Duration = Duration::from_micros(50);
/// How often a sleeping process checks whether the others live.
const CHECK: Duration = Duration::from_millis(50);
/// How long other processes wait for process 0 to report a loss, at most.
const REPORT: Duration = Duration::from_secs(10);
/// The tag of all messages between two processes, which are in order.
const TAG: c_int = 0;
/// Bytes of a machine's name.
const NAME: usize = 64;
/// Bytes of a [`Peer`].
const PEER: usize = NAME + 4 + 3 * 8;

/// A process of the group.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Peer {
    /// The name of its machine, for messages.
    host: String,
    pid: i32,
    /// A hash of the machine's boot id, or of its name.
    machine: u64,
    /// A hash of the machine and of the set of processes that it sees.
    processes: u64,
    /// A hash of the CPUs that it may use.
    cpus: u64,
}

fn hash_of(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Peer {
    fn own() -> Self {
        let name = rustix::system::uname();
        let host: String =
            name.nodename().to_string_lossy().chars().filter(char::is_ascii).take(NAME).collect();
        let machine = match std::fs::read("/proc/sys/kernel/random/boot_id") {
            Ok(boot) => hash_of(boot),
            Err(_) => hash_of(&host),
        };
        let space = std::fs::read_link("/proc/self/ns/pid").ok();
        let usable = operant_host::cores::usable();
        let cpus: Vec<u32> = usable.iter().map(|core| core.number).collect();
        Peer {
            host,
            // Linux has no larger numbers.
            pid: i32::try_from(std::process::id()).unwrap_or(i32::MAX),
            machine,
            processes: hash_of((machine, space)),
            cpus: hash_of(cpus),
        }
    }

    fn encode(&self) -> [u8; PEER] {
        let mut bytes = [0; PEER];
        bytes[..self.host.len()].copy_from_slice(self.host.as_bytes());
        let numbers = [self.machine, self.processes, self.cpus].map(u64::to_le_bytes).concat();
        bytes[NAME..NAME + 4].copy_from_slice(&self.pid.to_le_bytes());
        bytes[NAME + 4..].copy_from_slice(&numbers);
        bytes
    }

    fn decode(bytes: &[u8; PEER]) -> Self {
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[NAME + 4 + 8 * at + i]));
        Peer {
            host: String::from_utf8_lossy(&bytes[..NAME]).trim_end_matches('\0').to_owned(),
            pid: i32::from_le_bytes(std::array::from_fn(|i| bytes[NAME + i])),
            machine: number(0),
            processes: number(1),
            cpus: number(2),
        }
    }

    /// Whether it has ended. Only known if both share a process id namespace. A launcher may leave it as a zombie.
    fn has_ended(&self, own: &Peer) -> bool {
        if self.processes != own.processes {
            return false;
        }
        match std::fs::read_to_string(format!("/proc/{}/stat", self.pid)) {
            // The state follows the name, which is in brackets.
            Ok(stat) => stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['Z', 'X'])),
            Err(_) => Pid::from_raw(self.pid)
                .is_some_and(|pid| test_kill_process(pid) == Err(rustix::io::Errno::SRCH)),
        }
    }
}

/// All processes of the program.
#[derive(Debug)]
struct Processes {
    rank: usize,
    peers: Vec<Peer>,
    exchange: Mutex<Connection>,
    universe: Ended,
}

/// What is left to end MPI with; [`Universe`] finalises it when dropped.
struct Ended(Option<Universe>);

impl std::fmt::Debug for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Universe")
    }
}

/// The state of the one exchange at a time.
#[derive(Debug, Default)]
struct Connection {
    /// What this process sends, or the whole of a broadcast.
    own: Vec<u8>,
    /// What it receives.
    all: Vec<u8>,
    time: Duration,
    /// Why there will be no more exchanges.
    lost: Option<String>,
}

/// Joins the processes that `mpirun` or `srun` started; a process that was started alone is a group of one.
///
/// # Errors
/// When the library does not allow calls from more than one thread, or this process joined before.
pub fn start() -> Result<Arc<dyn Group>, Unavailable> {
    let Some((universe, threading)) = mpi::initialize_with_threading(Threading::Serialized) else {
        let what = "MPI is already initialised in this process".to_owned();
        return Err(Unavailable { what, remedy: "initialise MPI once in a process" });
    };
    if threading < Threading::Serialized {
        let what = format!(
            "this MPI library provides thread level {threading:?} only; MPI_THREAD_SERIALIZED is required"
        );
        return Err(Unavailable { what, remedy: "use an MPI library built with thread support" });
    }
    // SAFETY: MPI is initialised, and the arguments are constants of the library. From here on errors are returned to the caller.
    unsafe { ffi::MPI_Comm_set_errhandler(communicator(), ffi::RSMPI_ERRORS_RETURN) };
    let world = SimpleCommunicator::world();
    let count = |number: c_int| usize::try_from(number).unwrap_or(0);
    let (rank, size) = (count(world.rank()), count(world.size()));
    let is_other = |it: &Launched| it.rank != rank || it.size.is_some_and(|launched| launched != size);
    if let Some(Launched { rank: launched, size: of }) = super::launched().filter(is_other) {
        let of = of.map_or_else(String::new, |of| format!(" of {of}"));
        let what = format!("the launcher set rank {launched}{of}, but MPI reports rank {rank} of {size}");
        return Err(Unavailable {
            what,
            remedy: "use the mpirun of the MPI library that operant was built with; in Slurm srun --mpi=pmix or --mpi=pmi2",
        });
    }
    let own = Peer::own();
    let mut group = Processes {
        rank,
        peers: vec![own.clone(); size],
        exchange: Mutex::default(),
        universe: Ended(Some(universe)),
    };
    let mut all = vec![0; PEER * size];
    group.all_gather(&own.encode(), &mut all).map_err(|error| Unavailable {
        what: error.to_string(),
        remedy: "check the launcher and the network",
    })?;
    group.peers = all.as_chunks::<PEER>().0.iter().map(Peer::decode).collect();
    Ok(Arc::new(group))
}

fn communicator() -> MPI_Comm {
    SimpleCommunicator::world().as_raw()
}

fn bytes() -> ffi::MPI_Datatype {
    // SAFETY: it is a constant that the library sets before it is initialised.
    unsafe { ffi::RSMPI_UINT8_T }
}

impl Processes {
    /// The exchange, unless there will be no more.
    fn exchange(&self) -> Result<MutexGuard<'_, Connection>, LearnError> {
        let exchange = self.exchange.lock().unwrap_or_else(PoisonError::into_inner);
        match &exchange.lost {
            Some(lost) => Err(LearnError::Process(lost.clone())),
            None => Ok(exchange),
        }
    }

    /// Waits for a request that uses the buffers of `exchange`; `code` is what the call returned that made it.
    fn wait(
        &self,
        exchange: &mut Connection,
        mut code: c_int,
        mut request: MPI_Request,
    ) -> Result<(), LearnError> {
        let (mut polls, mut checked, mut ended) = (0_u32, Instant::now(), None);
        loop {
            if code != SUCCESS {
                let unreachable =
                    || format!("communication with the other processes failed (MPI error {code})");
                let what = self.ended().map_or_else(unreachable, |rank| self.end_of(rank));
                return Err(self.lose(exchange, what));
            }
            let mut done = 0;
            // SAFETY: MPI is initialised, and the request was made and not completed yet: a completed one ends this loop.
            code = unsafe { ffi::MPI_Test(&mut request, &mut done, ffi::RSMPI_STATUS_IGNORE) };
            if code == SUCCESS && done != 0 {
                return Ok(());
            }
            // Seen to have ended, and nothing of it has come since.
            if let Some(rank) = ended {
                return Err(self.lose(exchange, self.end_of(rank)));
            }
            polls = polls.saturating_add(1);
            if polls < SPINS {
                std::hint::spin_loop();
            } else if polls < YIELDS {
                std::thread::yield_now();
            } else {
                std::thread::sleep(SLEEP);
                if checked.elapsed() > CHECK {
                    checked = Instant::now();
                    ended = self.ended();
                }
            }
        }
    }

    /// A process of this machine that has ended.
    fn ended(&self) -> Option<usize> {
        self.peers.iter().position(|peer| peer.has_ended(&self.peers[self.rank]))
    }

    fn end_of(&self, rank: usize) -> String {
        format!("{} of the run has ended unexpectedly", self.describe(rank))
    }

    /// Ends all exchanges.
    fn lose(&self, exchange: &mut Connection, what: String) -> LearnError {
        // The library may write to the buffers as long as the process lives.
        mem::forget(mem::take(&mut exchange.own));
        mem::forget(mem::take(&mut exchange.all));
        exchange.lost = Some(what.clone());
        // Process 0 reports the loss. It would take this process for the lost one if that ended first.
        let begun = Instant::now();
        while self.rank > 0 && !self.peers[0].has_ended(&self.peers[self.rank]) && begun.elapsed() < REPORT {
            std::thread::sleep(CHECK);
        }
        LearnError::Process(what)
    }
}

/// What MPI's calls return when they succeed.
const SUCCESS: c_int = ffi::MPI_SUCCESS as c_int;

/// A length of at most [`PIECE`].
fn count(length: usize) -> c_int {
    length as c_int
}

impl Group for Processes {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.peers.len()
    }

    fn all_gather(&self, own: &[u8], all: &mut [u8]) -> Result<(), LearnError> {
        let (begun, size) = (Instant::now(), self.size());
        assert_eq!(all.len(), own.len() * size, "there is room for the parts of all");
        let mut exchange = self.exchange()?;
        let piece = (PIECE / size).max(1);
        for (index, part) in own.chunks(piece).enumerate() {
            let Connection { own: sent, all: received, .. } = &mut *exchange;
            sent.clear();
            sent.extend_from_slice(part);
            received.resize(part.len() * size, 0);
            let (mut request, count) = (null(), count(part.len()));
            // SAFETY: `sent` holds `count` bytes and `received` as many for each process. Both belong to `exchange`, which is locked,
            // and neither changes before `wait` returns; if that fails they are never freed.
            let code = unsafe {
                ffi::MPI_Iallgather(
                    sent.as_ptr().cast(),
                    count,
                    bytes(),
                    received.as_mut_ptr().cast(),
                    count,
                    bytes(),
                    communicator(),
                    &mut request,
                )
            };
            self.wait(&mut exchange, code, request)?;
            for (rank, received) in exchange.all.chunks_exact(part.len()).enumerate() {
                all[rank * own.len() + index * piece..][..part.len()].copy_from_slice(received);
            }
        }
        exchange.time += begun.elapsed();
        Ok(())
    }

    fn swap(&self, partner: usize, own: &[u8], other: &mut [u8]) -> Result<(), LearnError> {
        let begun = Instant::now();
        assert_eq!(own.len(), other.len(), "the parts are equally long");
        let mut exchange = self.exchange()?;
        for (own, other) in own.chunks(PIECE).zip(other.chunks_mut(PIECE)) {
            let Connection { own: sent, all: received, .. } = &mut *exchange;
            sent.clear();
            sent.extend_from_slice(own);
            received.resize(own.len(), 0);
            let (mut requests, count, partner) = ([null(); 2], count(own.len()), partner as c_int);
            // SAFETY: as above; both buffers hold `count` bytes.
            let codes = unsafe {
                let (to, from) = (sent.as_ptr().cast(), received.as_mut_ptr().cast());
                let [receive, send] = &mut requests;
                [
                    ffi::MPI_Irecv(from, count, bytes(), partner, TAG, communicator(), receive),
                    ffi::MPI_Isend(to, count, bytes(), partner, TAG, communicator(), send),
                ]
            };
            for (code, request) in codes.into_iter().zip(requests) {
                self.wait(&mut exchange, code, request)?;
            }
            other.copy_from_slice(&exchange.all);
        }
        exchange.time += begun.elapsed();
        Ok(())
    }

    fn broadcast(&self, whole: &mut [u8]) -> Result<(), LearnError> {
        let begun = Instant::now();
        let mut exchange = self.exchange()?;
        for part in whole.chunks_mut(PIECE) {
            let sent = &mut exchange.own;
            sent.clear();
            sent.extend_from_slice(part);
            let mut request = null();
            // SAFETY: as above; `sent` holds this many bytes.
            let code = unsafe {
                let (buffer, count) = (sent.as_mut_ptr().cast(), count(part.len()));
                ffi::MPI_Ibcast(buffer, count, bytes(), 0, communicator(), &mut request)
            };
            self.wait(&mut exchange, code, request)?;
            part.copy_from_slice(&exchange.own);
        }
        exchange.time += begun.elapsed();
        Ok(())
    }

    fn exchange_time(&self) -> Duration {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner).time
    }

    fn abandon(&self) {
        let mut exchange = self.exchange.lock().unwrap_or_else(PoisonError::into_inner);
        exchange.lost.get_or_insert_with(|| "this process has failed".to_owned());
    }

    fn neighbours(&self) -> Neighbours {
        let own = &self.peers[self.rank];
        let is_near = |peer: &&Peer| peer.machine == own.machine;
        let here = |peers: &[Peer]| peers.iter().filter(is_near).count();
        let on_cpus = self.peers.iter().filter(is_near).filter(|peer| peer.cpus == own.cpus).count();
        Neighbours { on_machine: here(&self.peers), on_cpus, index: here(&self.peers[..self.rank]) }
    }

    fn describe(&self, rank: usize) -> String {
        let Peer { host, pid, .. } = &self.peers[rank];
        format!("process {rank} (pid {pid} on {host})")
    }
}

fn null() -> MPI_Request {
    // SAFETY: it is a constant that the library sets before it is initialised.
    unsafe { ffi::RSMPI_REQUEST_NULL }
}

impl Drop for Processes {
    fn drop(&mut self) {
        let lost = self.exchange.get_mut().unwrap_or_else(PoisonError::into_inner).lost.is_some();
        if std::thread::panicking() {
            SimpleCommunicator::world().abort(1);
        }
        // To finalise is to wait for all others, also for one that has ended.
        if lost {
            mem::forget(self.universe.0.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_round_trip() {
        let own = Peer::own();
        assert_eq!(Peer::decode(&own.encode()), own);
        assert!(!own.host.is_empty() && !own.has_ended(&own));
        let mut child = std::process::Command::new("true").spawn().expect("started");
        let ended = Peer { pid: child.id() as i32, ..own.clone() };
        // A zombie until it is waited for.
        while !ended.has_ended(&own) {
            std::thread::yield_now();
        }
        child.wait().expect("it ended");
        assert!(ended.has_ended(&own));
        // A process outside this set of processes is never reported as ended.
        assert!(!Peer { processes: 0, ..ended }.has_ended(&own));
    }
}
