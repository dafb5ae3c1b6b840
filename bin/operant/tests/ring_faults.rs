//! A ring removed, truncated, overwritten or refused during training: training continues and reports it.

use std::io::Write;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Child;

use crate::common::{
    Finished, SMALL, Sandbox, endless, finish, send, wait_for, wait_for_event, wait_for_health,
    wait_for_progress,
};
use operant_metrics::{FileState, Health, RingReader, RunState};
use rustix::process::Signal;

const SHORT: &[&str] = &["train", "cartpole", "--name", "mine", "--steps", "12800", "--json"];

fn start(place: &Sandbox) -> (Child, RingReader) {
    let child = place.start(&endless("mine"));
    let ring = place.ring("mine");
    wait_for_progress(&ring);
    (child, ring)
}

/// Waits for the ring that replaces `old`, and for progress in it.
fn replaced(place: &Sandbox, old: &RingReader) -> RingReader {
    wait_for("another file", || (old.presence() != FileState::Here).then_some(()));
    let ring = wait_for("a complete ring", || {
        let ring = RingReader::open(old.path()).ok()?;
        (ring.presence() == FileState::Here && ring.published() > 0).then_some(ring)
    });
    wait_for_progress(&ring);
    assert!(ring.status().health.is_alive(), "{:?}", ring.status());
    assert_eq!(ring.identity(), place.ring("mine").identity());
    ring
}

fn stop(child: Child) {
    send(&child, Signal::TERM);
    let finished = finish(child);
    assert_eq!(finished.code, Some(75), "{finished:#?}");
}

#[test]
fn an_unlinked_ring_comes_back_with_its_history() {
    let place = Sandbox::new();
    let (child, ring) = start(&place);
    let published = ring.published();
    std::fs::remove_file(ring.path()).expect("removed");
    let new = replaced(&place, &ring);
    assert!(new.published() > published, "{} after {published}", new.published());
    wait_for_event(&new, "the ring was unlinked");
    assert!(new.events().iter().any(|event| event.text.contains("run mine in")), "older events are kept");
    // Another file in its place counts as removed.
    std::fs::remove_file(new.path()).expect("removed");
    std::fs::write(new.path(), "not a ring").expect("written");
    replaced(&place, &new);
    stop(child);
}

#[test]
fn a_ring_lost_while_training_pauses_comes_back_paused() {
    let place = Sandbox::new();
    let (child, ring) = start(&place);
    send(&child, Signal::USR2);
    wait_for_health(&ring, Health::Reported(RunState::Paused));
    std::fs::remove_file(ring.path()).expect("removed");
    let new = wait_for("a new ring", || {
        let ring = RingReader::open(ring.path()).ok()?;
        (ring.presence() == FileState::Here).then_some(ring)
    });
    assert_eq!(new.status().health, Health::Reported(RunState::Paused));
    assert!(new.published() > 0);
    stop(child);
}

#[test]
fn a_removed_directory_is_created_again_with_its_ring() {
    let place = Sandbox::new();
    let (child, ring) = start(&place);
    std::fs::remove_dir_all(place.rings()).expect("removed");
    let new = replaced(&place, &ring);
    wait_for_progress(&new);
    let mode = std::fs::metadata(place.rings()).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "no other user can read it");
    stop(child);
}

#[test]
fn a_truncated_ring_does_not_kill_the_run() {
    let place = Sandbox::new();
    let (child, mut ring) = start(&place);
    for length in [0, 4096, 100_000] {
        let file = std::fs::File::options().write(true).open(ring.path()).expect("opened");
        file.set_len(length).expect("cut");
        ring = replaced(&place, &ring);
        wait_for_event(&ring, "the ring was truncated");
    }
    stop(child);
}

#[test]
fn a_ring_overwritten_with_garbage_is_replaced() {
    let place = Sandbox::new();
    let (child, ring) = start(&place);
    let length = std::fs::metadata(ring.path()).expect("there").len();
    let garbage: Vec<u8> = (0..length).map(|i| (i.wrapping_mul(2_654_435_761) >> 7) as u8).collect();
    let mut file = std::fs::File::options().write(true).open(ring.path()).expect("opened");
    file.write_all(&garbage).expect("written");
    drop(file);
    let new = replaced(&place, &ring);
    wait_for_event(&new, "the ring was overwritten");
    stop(child);
}

#[test]
fn a_run_trains_the_same_without_a_ring() {
    let place = Sandbox::new();
    let args = [SHORT, SMALL, &["--no-ring"]].concat();
    let finished = place.operant(&args);
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    assert!(!place.rings().exists() && place.run_file("mine")["ring"].is_null());
    let with = place.operant(&[&["train", "cartpole", "--name", "with", "--steps", "12800"], SMALL].concat());
    assert_eq!(with.code, Some(0), "{with:#?}");
    assert!(place.final_state("mine") == place.final_state("with"), "the ring changes no bit");
    assert_eq!(place.metrics("mine"), place.metrics("with"));
    let variable =
        place.command(&args_named("other")).env("OPERANT_RING", "false").output().expect("started");
    assert_eq!(Finished::of(variable).code, Some(0));
    assert!(place.run_file("other")["ring"].is_null());
}

fn args_named(name: &str) -> Vec<&str> {
    [&["train", "cartpole", "--steps", "1280", "--name", name], SMALL].concat()
}

#[test]
fn a_group_may_read_the_ring() {
    use std::os::unix::fs::MetadataExt;
    let place = Sandbox::new();
    for (name, set, mode) in [("own", "ring_group=false", 0o600), ("group", "ring_group=true", 0o640)] {
        let finished = place.operant(&[&args_named(name)[..], &["--set", set]].concat());
        assert_eq!(finished.code, Some(0), "{finished:#?}");
        let ring = std::fs::metadata(place.ring(name).path()).expect("there");
        assert_eq!(ring.mode() & 0o777, mode, "{name}");
    }
}

/// Asserts one warning, and a normal result.
fn assert_trained_without_telemetry(finished: &Finished, part: &str) {
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    assert!(finished.json()["env_steps"].as_u64() >= Some(12_800));
    assert_eq!(finished.stderr.matches("training continues without telemetry").count(), 1, "{finished:#?}");
    assert_eq!(finished.stderr.matches("warning: ").count(), 1, "{finished:#?}");
    assert!(finished.stderr.contains(part), "no \"{part}\" in {finished:#?}");
}

/// Runs a short training after `mounts`, in a separate mount namespace in which they change /dev/shm; none if this
/// system forbids that.
fn with_shared_memory(place: &Sandbox, mounts: &str) -> Option<Finished> {
    let mut command = place.unshared(&["--mount"], mounts, &[SHORT, SMALL].concat())?;
    command.env_remove("OPERANT_RING_DIR").env_remove("XDG_RUNTIME_DIR");
    Some(Finished::of(command.output().expect("started")))
}

#[test]
fn with_full_shared_memory_only_the_ring_is_missing() {
    let place = Sandbox::new();
    let Some(finished) = with_shared_memory(&place, "mount -t tmpfs -o size=100k tmpfs /dev/shm") else {
        return;
    };
    assert_trained_without_telemetry(&finished, "No space left");
}

#[test]
fn with_read_only_shared_memory_only_the_ring_is_missing() {
    let place = Sandbox::new();
    let Some(finished) = with_shared_memory(&place, "mount -t tmpfs -o ro tmpfs /dev/shm") else { return };
    assert_trained_without_telemetry(&finished, "Read-only");
}

#[test]
fn shared_memory_on_a_disk_is_refused() {
    let place = Sandbox::new();
    std::fs::create_dir(place.path().join("disk")).expect("made");
    let Some(finished) = with_shared_memory(&place, "mount --bind disk /dev/shm") else { return };
    if finished.stderr.contains("is not in memory") {
        assert_trained_without_telemetry(&finished, "OPERANT_RING_DIR");
    } else {
        // The temporary directory itself is in memory.
        assert_eq!(finished.code, Some(0), "{finished:#?}");
    }
}

#[test]
fn a_ring_directory_of_another_user_is_refused() {
    let place = Sandbox::new();
    std::fs::create_dir(place.rings()).expect("made");
    if !rustix::process::geteuid().is_root() {
        let _ =
            writeln!(std::io::stderr(), "SKIPPED a directory of another user: only root can change owners");
        return;
    }
    std::os::unix::fs::chown(place.rings(), Some(12_345), Some(12_345)).expect("given away");
    let finished = place.operant(&[SHORT, SMALL].concat());
    assert_trained_without_telemetry(&finished, "belongs to another user");
    assert_eq!(std::fs::read_dir(place.rings()).expect("read").count(), 0);
    assert!(Path::new(&place.run_file("mine")["checkpoint"].as_str().expect("a path")).exists());
}

#[test]
fn with_few_descriptors_a_run_ends() {
    let place = Sandbox::new();
    for limit in [6, 7, 8, 9, 10, 12] {
        let name = format!("with{limit}");
        let args = ["train", "cartpole", "--name", &name, "--steps", "1280", "--quiet"];
        let mut command = place.shell(&format!("ulimit -n {limit}"), &[&args[..], SMALL].concat());
        let mut child = command.stderr(std::process::Stdio::null()).spawn().expect("started");
        place.guard(&child);
        // It may train without a ring, or report what it cannot open.
        let ended = wait_for("the end", || child.try_wait().expect("waited for"));
        assert!(matches!(ended.code(), Some(0..=2)), "{ended}");
    }
}
