//! The service manager's protocol, over a real socket.

use std::os::unix::net::UnixDatagram;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::common::{Sandbox, endless, finish, send, wait_for, wait_for_health};
use operant_metrics::{Health, RunState};
use rustix::process::Signal;

/// A service manager's socket and the lines that it received.
struct Manager {
    socket: UnixDatagram,
    received: Vec<String>,
}

impl Manager {
    fn listen(place: &Sandbox) -> Self {
        let socket = UnixDatagram::bind(place.path().join("notify")).expect("bound");
        socket.set_nonblocking(true).expect("set");
        Manager { socket, received: Vec::new() }
    }

    /// Receives pending lines; returns how many of all lines so far start with `part`.
    fn count(&mut self, part: &str) -> usize {
        let mut bytes = [0; 4096];
        while let Ok(n) = self.socket.recv(&mut bytes) {
            let text = String::from_utf8(bytes[..n].to_vec()).expect("UTF-8");
            self.received.extend(text.lines().map(str::to_string));
        }
        self.received.iter().filter(|line| line.starts_with(part)).count()
    }

    fn wait_for(&mut self, part: &str, count: usize) {
        wait_for(part, || (self.count(part) >= count).then_some(()));
    }
}

/// An endless run under the manager.
fn service(place: &Sandbox) -> Child {
    let mut command = place.command(&endless("mine"));
    command.env("NOTIFY_SOCKET", place.path().join("notify")).env("WATCHDOG_USEC", "1000000");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    place.guard(&child);
    child
}

#[test]
fn a_service_reports_ready_progress_and_stopping() {
    let place = Sandbox::new();
    let mut manager = Manager::listen(&place);
    let child = service(&place);
    manager.wait_for("READY=1", 1);
    manager.wait_for("STATUS=", 1);
    manager.wait_for("WATCHDOG=1", 4);
    let ring = place.ring("mine");
    // A stopped process sends no watchdog pings.
    send(&child, Signal::STOP);
    wait_for_health(&ring, Health::Stalled);
    let before = manager.count("WATCHDOG=1");
    std::thread::park_timeout(Duration::from_secs(1));
    assert_eq!(manager.count("WATCHDOG=1"), before);
    send(&child, Signal::CONT);
    manager.wait_for("WATCHDOG=1", before + 1);
    assert_eq!(manager.count("STOPPING=1"), 0, "{:?}", manager.received);
    send(&child, Signal::TERM);
    manager.wait_for("STOPPING=1", 1);
    assert_eq!(finish(child).code, Some(75));
    assert_eq!((manager.count("READY=1"), manager.count("STOPPING=1")), (1, 1), "{:?}", manager.received);
    let status = manager.received.iter().rfind(|line| line.starts_with("STATUS=")).expect("a status");
    assert!(status.contains(" of ") && status.contains("steps"), "{status}");
}

#[test]
fn a_paused_run_pings_the_watchdog() {
    let place = Sandbox::new();
    let mut manager = Manager::listen(&place);
    let child = service(&place);
    manager.wait_for("READY=1", 1);
    send(&child, Signal::USR2);
    wait_for_health(&place.ring("mine"), Health::Reported(RunState::Paused));
    let before = manager.count("WATCHDOG=1");
    manager.wait_for("WATCHDOG=1", before + 2);
    send(&child, Signal::TERM);
    assert_eq!(finish(child).code, Some(75));
}

#[test]
fn a_resumed_service_reports_its_earlier_steps() {
    let place = Sandbox::new();
    let child = place.start(&endless("mine"));
    wait_for("progress", || (place.ring("mine").published() > 8).then_some(()));
    send(&child, Signal::TERM);
    assert_eq!(finish(child).code, Some(75));
    let mut manager = Manager::listen(&place);
    let mut command = place.command(&["train", "--resume", "mine"]);
    command.env("NOTIFY_SOCKET", place.path().join("notify"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    place.guard(&child);
    manager.wait_for("STATUS=", 1);
    assert_eq!(manager.count("STATUS=0 of"), 0, "{:?}", manager.received);
    send(&child, Signal::TERM);
    assert_eq!(finish(child).code, Some(75));
}

#[test]
fn no_pings_without_a_watchdog_and_a_missing_socket_is_ignored() {
    let place = Sandbox::new();
    let mut manager = Manager::listen(&place);
    let short = ["train", "cartpole", "--steps", "20480", "--set", "eval_episodes=5", "--quiet"];
    let mut command = place.command(&short);
    let output = command.env("NOTIFY_SOCKET", place.path().join("notify")).output().expect("started");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(
        (manager.count("READY=1"), manager.count("STOPPING=1"), manager.count("WATCHDOG=1")),
        (1, 1, 0)
    );
    let mut command = place.command(&short);
    let output = command.env("NOTIFY_SOCKET", place.path().join("gone")).output().expect("started");
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}
