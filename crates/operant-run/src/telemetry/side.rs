//! The side thread, `operant-side`: it samples utilization, writes events, checks the ring's file and notifies the
//! service manager, so that the training loop does none of these.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use operant_host::{HostSample, Sampler};
use operant_metrics::{Core, CoreKind, Damage, Level, RunState, SideWriter};

use super::notify::Manager;
use super::shared::SharedState;
use crate::progress::Announcer;
use crate::runs::StateFile;
use crate::signals::{CALLER, Signals};

/// Time between samples.
const PERIOD: Duration = Duration::from_millis(250);

/// Time between the first sample and the second: utilization needs two readings some kernel ticks apart.
const SECOND_SAMPLE: Duration = Duration::from_millis(50);

/// Number of samples between checks of the ring's file.
const CHECK_EVERY: u32 = 4;

/// Longest wait for the first sample, so that the first records have utilization.
const FIRST_SAMPLE: Duration = Duration::from_millis(250);

/// Longest wait for the thread's end: a service manager that does not respond must not keep a run from ending.
const END_TIMEOUT: Duration = Duration::from_secs(2);

enum Message {
    Event(Level, String),
    Ready,
    Stopping,
}

/// What the side thread needs of the run.
pub(crate) struct SideContext {
    pub signals: Signals,
    pub state_file: Arc<StateFile>,
    /// UUID of the GPU to sample, if the device is one.
    pub gpu: Option<String>,
    /// Shows a line to the user.
    pub announce: Announcer,
}

/// The training loop's handle of the side thread.
pub(super) struct SideHandle {
    inbox: Option<Sender<Message>>,
    sampled: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl SideHandle {
    /// Starts the thread. If that fails, there are no samples and events.
    pub fn start(
        ring: Option<SideWriter>,
        shared: Arc<SharedState>,
        pulse: Arc<AtomicU64>,
        context: SideContext,
    ) -> Self {
        let (inbox, messages) = mpsc::channel();
        let (first, sampled) = mpsc::channel();
        let body = move || {
            let SideContext { signals, state_file, gpu, announce } = context;
            let sampler = gpu.as_deref().map_or_else(Sampler::new, Sampler::with_gpu);
            let thread = SideThread {
                ring,
                shared,
                pulse,
                signals,
                state_file,
                sampler,
                manager: Manager::new(),
                announce,
                damage: None,
                ticks: 0,
                stopping: false,
                first: Some(first.clone()),
            };
            thread.run(&messages);
            // Dropping this last sender signals that the thread has ended.
            drop(first);
        };
        match std::thread::Builder::new().name("operant-side".to_string()).spawn(body) {
            Ok(thread) => SideHandle { inbox: Some(inbox), sampled, thread: Some(thread) },
            Err(error) => {
                tracing::warn!("no thread for samples and events: {error}");
                SideHandle { inbox: None, sampled, thread: None }
            }
        }
    }

    /// Waits, for a moment at most, until utilization is known.
    pub fn wait_for_a_sample(&self) {
        let _ = self.sampled.recv_timeout(FIRST_SAMPLE);
    }

    pub fn event(&self, level: Level, text: &str) {
        self.send(Message::Event(level, text.to_string()));
    }

    pub fn ready(&self) {
        self.send(Message::Ready);
    }

    pub fn stopping(&self) {
        self.send(Message::Stopping);
    }

    fn send(&self, message: Message) {
        if let Some(inbox) = &self.inbox {
            let _ = inbox.send(message);
        }
    }

    /// Lets the thread write queued events and end.
    pub fn end(&mut self) {
        self.inbox = None;
        let Some(thread) = self.thread.take() else { return };
        let deadline = Instant::now() + END_TIMEOUT;
        // The first sample may still be in the channel; after it comes the end.
        while let Ok(()) = self.sampled.recv_timeout(deadline.saturating_duration_since(Instant::now())) {}
        if thread.is_finished() || Instant::now() < deadline {
            let _ = thread.join();
        }
    }
}

impl Drop for SideHandle {
    fn drop(&mut self) {
        self.end();
    }
}

struct SideThread {
    ring: Option<SideWriter>,
    shared: Arc<SharedState>,
    pulse: Arc<AtomicU64>,
    signals: Signals,
    state_file: Arc<StateFile>,
    sampler: Sampler,
    manager: Manager,
    announce: Announcer,
    damage: Option<Damage>,
    ticks: u32,
    stopping: bool,
    first: Option<Sender<()>>,
}

impl SideThread {
    fn run(mut self, messages: &Receiver<Message>) {
        if let Some(reason) = self.sampler.gpu_missing().map(str::to_string) {
            tracing::warn!("the GPU is not sampled: {reason}");
            self.event(Level::Warning, &format!("the GPU is not sampled: {reason}"));
        }
        let mut next = Instant::now();
        loop {
            let now = Instant::now();
            if now >= next {
                self.tick();
                let period = if self.ticks == 1 { SECOND_SAMPLE } else { PERIOD };
                next = (next + period).max(now);
                continue;
            }
            match messages.recv_timeout(next - now) {
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        if !self.stopping {
            self.manager.stopping(&self.shared.status_line());
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Event(level, text) => self.event(level, &text),
            Message::Ready => self.manager.ready(&self.shared.status_line()),
            Message::Stopping => self.stopping(),
        }
    }

    fn event(&mut self, level: Level, text: &str) {
        if let Some(ring) = &mut self.ring {
            ring.event(level, text);
        }
    }

    fn tick(&mut self) {
        let sample = self.sampler.sample();
        let values = self.shared.sampled(&sample);
        let pulse = self.pulse.load(Ordering::Relaxed);
        if let Some(ring) = &mut self.ring {
            ring.sample(&values, &cores(&sample), pulse);
        }
        if let Some(first) = self.first.take() {
            let _ = first.send(());
        }
        // An update may be long, so a stop is acknowledged at once.
        if let Some(signal) = self.signals.stopped_by() {
            self.signals.arm();
            if !self.stopping {
                let verb = if signal == CALLER { "requested a stop" } else { "received" };
                let text = format!("{signal} {verb}: training stops after this update");
                self.event(Level::Info, &text);
                (self.announce)(&format!(
                    "{text}; another SIGINT or SIGTERM ends it at once, without a checkpoint"
                ));
                self.stopping();
            }
        }
        if self.ticks.is_multiple_of(CHECK_EVERY) {
            self.check();
        }
        self.ticks = self.ticks.wrapping_add(1);
        self.manager.tick(pulse, || self.shared.status_line());
    }

    /// Checks the ring's file, and reports damage once.
    fn check(&mut self) {
        let Some(ring) = &mut self.ring else { return };
        let damage = ring.check();
        if damage.is_some() {
            // An update would replace it by itself, but a pause has none.
            self.shared.lose_ring();
        }
        if damage != self.damage
            && let Some(damage) = damage
        {
            let text = format!("the ring was {}; it is replaced", damage.name());
            tracing::warn!("{text}");
            ring.event(Level::Warning, &text);
        }
        self.damage = damage;
    }

    fn stopping(&mut self) {
        if !self.stopping {
            self.stopping = true;
            self.state_file.set(RunState::Stopping, "");
            self.manager.stopping(&self.shared.status_line());
        }
    }
}

/// The cores in the ring's format.
fn cores(sample: &HostSample) -> Vec<Core> {
    let kind = |kind| match kind {
        operant_host::CoreKind::Uniform => CoreKind::Uniform,
        operant_host::CoreKind::Performance => CoreKind::Performance,
        operant_host::CoreKind::Efficiency => CoreKind::Efficiency,
    };
    let core = |core: &operant_host::CoreSample| Core {
        number: core.number,
        kind: kind(core.kind),
        utilization: core.utilization,
    };
    sample.cores.iter().map(core).collect()
}
