//! A group: the environments of a tile, and the worker processes that step them.

use std::fs::File;
use std::io::{self, PipeWriter};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::description::Description;
use crate::layout::{Layout, Order};
use crate::shared::SharedWords;
use crate::worker::{Failure, Host, Worker, end, task};

/// How the workers of a group are started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setup {
    /// Rows of the tile, and how many of them are environments.
    pub(crate) rows: usize,
    pub(crate) count: usize,
    pub(crate) workers: usize,
    pub(crate) evaluation: bool,
    pub(crate) time_limit: u32,
    /// Seconds until a turn without an answer fails.
    pub(crate) timeout: f64,
}

/// Worker processes, their memory, and the environments that they step.
#[derive(Debug)]
pub(crate) struct WorkerGroup {
    shared: SharedWords,
    file: File,
    pub(crate) layout: Layout,
    pub(crate) setup: Setup,
    pub(crate) workers: Vec<Worker>,
    /// First word and bytes of the text that all workers read.
    task: (usize, usize),
    /// Where processes print.
    output: PipeWriter,
    /// What starts threads in place of processes.
    host: Option<Arc<dyn Host>>,
    deadline: Instant,
}

impl WorkerGroup {
    /// Starts the workers.
    pub(crate) fn start(
        description: &Description,
        host: Option<Arc<dyn Host>>,
        setup: Setup,
        output: PipeWriter,
    ) -> io::Result<Self> {
        let workers = setup.workers.clamp(1, setup.count);
        let spec = &description.spec;
        let mask_words = if description.masked { spec.actions.mask_words() } else { 0 };
        let (words, components, metrics) = (spec.obs.words(), spec.actions.components(), spec.metrics.len());
        let layout = Layout::new(workers, setup.rows, words, components, mask_words, metrics);
        let text = task(description, (setup.time_limit, setup.evaluation), &layout);
        let (shared, file) = SharedWords::create(layout.total + text.len().div_ceil(4))?;
        for (word, bytes) in shared.words()[layout.total..].iter().zip(text.as_bytes().chunks(4)) {
            let bytes: [u8; 4] = std::array::from_fn(|i| bytes.get(i).copied().unwrap_or_default());
            word.store(u32::from_le_bytes(bytes), Ordering::Relaxed);
        }
        let task = (layout.total, text.len());
        let (workers_of, deadline) = (Vec::new(), Instant::now());
        let mut group =
            Self { shared, file, layout, setup, workers: workers_of, task, output, host, deadline };
        for number in 0..workers {
            let rows = number * setup.count / workers..(number + 1) * setup.count / workers;
            let worker = group.start_worker(description, number, rows)?;
            group.workers.push(worker);
        }
        Ok(group)
    }

    fn start_worker(
        &self,
        description: &Description,
        number: usize,
        rows: Range<usize>,
    ) -> io::Result<Worker> {
        let control = self.layout.control(number);
        let memory = (&self.shared, &self.file);
        let runner = (&*description.python, self.host.as_deref());
        Worker::start(runner, memory, self.task, control, rows, &self.output)
    }

    /// Replaces a worker by a new one, after this failure.
    pub(crate) fn replace(
        &mut self,
        description: &Description,
        number: usize,
        failure: String,
    ) -> io::Result<()> {
        end(&mut self.workers[number..=number], false);
        let rows = self.workers[number].rows.clone();
        self.workers[number] = self.start_worker(description, number, rows)?;
        self.workers[number].replaces = Some(failure);
        Ok(())
    }

    pub(crate) fn words(&self) -> &[AtomicU32] {
        self.shared.words()
    }

    /// Sets what to do with a row in the next turn.
    pub(crate) fn order(&self, row: usize, order: Order) {
        self.words()[self.layout.orders + row].store(order as u32, Ordering::Relaxed);
    }

    /// Begins an episode in a row in the next turn.
    pub(crate) fn reset(&self, row: usize, seed: u32) {
        self.words()[self.layout.seeds + row].store(seed, Ordering::Relaxed);
        self.order(row, Order::Reset);
    }

    /// Begins a turn of all workers, or of one.
    pub(crate) fn begin(&mut self, only: Option<usize>) {
        let timeout = Duration::try_from_secs_f64(self.setup.timeout).unwrap_or(Duration::MAX);
        let now = Instant::now();
        // All have the same deadline, so that several that hang are found at the same time.
        self.deadline = now.checked_add(timeout).unwrap_or(now + Duration::from_secs(1 << 31));
        for (number, worker) in self.workers.iter_mut().enumerate() {
            if only.is_none_or(|only| only == number) {
                worker.begin(&self.shared);
            }
        }
    }

    /// Whether no worker's turn has to be waited for: each ended, or will not end.
    pub(crate) fn has_stepped(&mut self) -> bool {
        let is_late = Instant::now() >= self.deadline;
        is_late
            || self.workers.iter_mut().all(|worker| worker.has_finished(&self.shared) || !worker.is_alive())
    }

    /// Waits for the end of a worker's turn.
    pub(crate) fn finish(&mut self, number: usize) -> Result<(), Failure> {
        self.workers[number].finish(&self.shared, self.deadline, self.setup.timeout)
    }

    /// See [`Worker::take_keys`].
    pub(crate) fn take_keys(&self, number: usize) -> Option<String> {
        self.workers[number].take_keys(&self.shared)
    }

    /// Whether all processes still run.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.workers.iter_mut().all(Worker::is_alive)
    }
}

/// Two words as a double: the lower one first.
pub(crate) fn double(words: &[AtomicU32], first: usize) -> f64 {
    let [low, high] = [0, 1].map(|i| u64::from(words[first + i].load(Ordering::Relaxed)));
    f64::from_bits(high << 32 | low)
}

impl Drop for WorkerGroup {
    fn drop(&mut self) {
        // All close their environments at the same time.
        self.workers.iter_mut().for_each(|worker| worker.close(&self.shared));
        end(&mut self.workers, true);
    }
}
