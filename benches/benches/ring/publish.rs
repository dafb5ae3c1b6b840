//! Nanoseconds to publish a record, archives included, without readers and with readers in another process at 60
//! frames a second; with the limit, a plain copy of the record's words into a ring of the same size.

use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use benches::Spread;
use operant_metrics::{COUNT, Capacity, Identity, Record, RingReader, RingWriter, create_in};
use rustix::time::{ClockId, clock_gettime};

use crate::cores;

/// Names how many readers poll which ring.
const POLL: &str = "OPERANT_BENCH_POLL";
const REPETITIONS: usize = 15;
const READERS: [usize; 2] = [1, 8];
/// Long enough for a dozen frames of every reader.
const REPETITION: Duration = Duration::from_millis(200);
/// Records between two readings of the clock.
const BLOCK: u64 = 50_000;
const FRAME: Duration = Duration::from_nanos(1_000_000_000 / 60);

/// Records that change as those of training do. Each is made some time before it is given, so that what is measured does
/// not wait for its own source's stores.
struct Source {
    records: [Record; Self::AHEAD * 2],
    update: usize,
}

impl Source {
    const AHEAD: usize = 8;

    fn new() -> Self {
        let full = Record::from_values(std::array::from_fn(|metric| metric as f64));
        let mut source = Source { records: [full; Self::AHEAD * 2], update: 0 };
        (0..Self::AHEAD).for_each(|_| _ = source.next());
        source
    }

    #[inline(always)]
    fn next(&mut self) -> &Record {
        let made = (self.update + Self::AHEAD) as f64;
        let record = &mut self.records[(self.update + Self::AHEAD) % (2 * Self::AHEAD)];
        (record.update, record.env_steps, record.time) = (made, made * 1024.0, made * 25e-9);
        (record.sps, record.episodic_return, record.policy_loss) = (made * 0.5, made * 0.25, -made);
        self.update += 1;
        &self.records[(self.update - 1) % (2 * Self::AHEAD)]
    }
}

/// Nanoseconds that `work` takes for each of its records: of this thread's processor time, so that what else the machine
/// does counts only by what it does to the caches.
fn measure(mut work: impl FnMut()) -> f64 {
    let own = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32).as_secs_f64()
    };
    let (begin, own_begin, mut records) = (Instant::now(), own(), 0);
    while begin.elapsed() < REPETITION {
        (0..BLOCK).for_each(|_| work());
        records += BLOCK;
    }
    (own() - own_begin) * 1e9 / records as f64
}

/// The limit: as many words, stored one after the other into a ring as large, with no one to read them.
struct Plain {
    words: Vec<u64>,
    written: usize,
}

impl Plain {
    const STRIDE: usize = (1 + COUNT).next_multiple_of(8);

    fn new() -> Self {
        Plain { words: vec![0; Self::STRIDE * Capacity::default().records], written: 0 }
    }

    #[inline(always)]
    fn publish(&mut self, record: &Record) {
        let at = self.written % Capacity::default().records * Self::STRIDE;
        let slot = &mut self.words[at..at + COUNT];
        for (word, value) in slot.iter_mut().zip(record.values()) {
            *word = value.to_bits();
        }
        black_box(&mut *slot);
        self.written += 1;
    }
}

/// A process with readers, which ends when this goes.
struct Readers(Child);

impl Readers {
    /// Starts them and waits until all have opened the ring.
    fn start(count: usize, ring: &Path) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.env(POLL, format!("{count}:{}", ring.display()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let said = child.stdout.take().context("no pipe from the readers")?;
        let readers = Readers(child);
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line)?;
        ensure!(line == "ready\n", "the readers did not start");
        Ok(readers)
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The readers' process: polls for as long as its input is open.
pub fn poll_if_asked() -> Option<Result<()>> {
    let asked = std::env::var(POLL).ok()?;
    Some(poll(&asked))
}

fn poll(asked: &str) -> Result<()> {
    let (count, path) = asked.split_once(':').context("which ring?")?;
    for _ in 0..count.parse::<usize>()? {
        let reader = RingReader::open(Path::new(path))?;
        std::thread::spawn(move || watch(&reader));
    }
    println!("ready");
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// What a monitor asks for in a frame, sixty times a second.
fn watch(reader: &RingReader) {
    let position = |name| reader.schema().position(name).unwrap_or(0);
    let x = position("env_steps");
    let charts = ["episodic_return", "sps", "policy_loss", "entropy"].map(position);
    let mut next = Instant::now();
    loop {
        black_box((reader.status(), reader.latest(), reader.records(reader.published().saturating_sub(60))));
        for y in charts {
            black_box(reader.series(x, y, 1..=u64::MAX, 400));
        }
        next += FRAME;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// Measures and prints.
pub fn run() -> Result<()> {
    let dir = tempfile::tempdir_in("/dev/shm").context("cannot make a directory in /dev/shm")?;
    let mut ring = create_in(dir.path(), &Identity::of_this_process("bench", "none"), &Default::default())?;
    let (mut plain, mut source) = (Plain::new(), Source::new());
    let publish = |writer: &mut RingWriter, source: &mut Source| measure(|| writer.publish(source.next()));
    publish(&mut ring.writer, &mut source);

    let all = cores::allowed()?;
    let (own, others) = cores::apart(&all);
    let (mut limit, mut alone) = (Vec::new(), Vec::new());
    let mut watched = READERS.map(|_| Vec::new());
    for _ in 0..REPETITIONS {
        cores::pin(own)?;
        limit.push(measure(|| plain.publish(source.next())));
        alone.push(publish(&mut ring.writer, &mut source));
        for (count, times) in READERS.into_iter().zip(&mut watched) {
            cores::pin(others)?;
            let readers = Readers::start(count, ring.writer.path())?;
            cores::pin(own)?;
            times.push(publish(&mut ring.writer, &mut source));
            drop(readers);
        }
    }
    cores::pin(&all)?;

    let limit = Spread::of(limit);
    println!("publish a record of {COUNT} metrics, archives included, ns of processor time:");
    println!("  {:<33}: {limit}", "the words alone, copied");
    let line = |what: &str, times: Vec<f64>| {
        let times = Spread::of(times);
        println!("  {what:<33}: {times}  {:.2} x the copy", times.median / limit.median);
    };
    line("published, no reader", alone);
    for (count, times) in READERS.into_iter().zip(watched) {
        line(&format!("published, {count} reader(s) at 60 Hz"), times);
    }
    Ok(())
}
