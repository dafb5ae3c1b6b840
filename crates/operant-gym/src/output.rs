//! What workers print: lines on the standard error of the trainer, marked as theirs and without characters that a terminal obeys.

use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Read, Write};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use operant_metrics::plain;

/// Longest line; a longer one is shown in parts.
const MAX_LINE: u64 = 4096;

/// How long the last lines are waited for: a process that a worker started may keep the pipe open.
const LAST: Duration = Duration::from_secs(1);

/// Forwards what the workers of an environment print.
#[derive(Debug)]
pub(crate) struct Output {
    /// None at the end.
    writer: Option<PipeWriter>,
    /// Closed once the last line has been written.
    ended: Receiver<()>,
}

impl Output {
    pub(crate) fn start(env: &str) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let (sender, ended) = mpsc::channel();
        let env = env.to_owned();
        thread::Builder::new().name("worker output".to_owned()).spawn(move || {
            forward(reader, &env, &mut io::stderr());
            drop::<mpsc::Sender<()>>(sender);
        })?;
        Ok(Self { writer: Some(writer), ended })
    }

    /// Where a group's workers print.
    pub(crate) fn writer(&self) -> io::Result<PipeWriter> {
        self.writer.as_ref().expect("it has not ended").try_clone()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.writer = None;
        let _ = self.ended.recv_timeout(LAST);
    }
}

/// Copies lines until all writers have closed the pipe.
fn forward(reader: PipeReader, env: &str, to: &mut impl Write) {
    let (mut reader, mut line) = (BufReader::new(reader), Vec::new());
    while reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
        // In one write, so that lines of several threads are not mixed. A closed stderr must not block workers.
        let _ = to.write_all(
            format!("{env} worker: {}\n", plain(String::from_utf8_lossy(&line).trim_end())).as_bytes(),
        );
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_workers_are_marked_and_plain() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let mut shown = Vec::new();
        let text = "loading\u{1b}[2J\rerror: \u{202e}forged\nremedy: none\nlast without an end";
        writer.write_all(text.as_bytes()).expect("it fits into the pipe");
        drop(writer);
        forward(reader, "mine_v0", &mut shown);
        let expected = "mine_v0 worker: loading [2J error:  forged\nmine_v0 worker: remedy: none\nmine_v0 worker: last without an end\n";
        assert_eq!(String::from_utf8(shown).expect("UTF-8"), expected);
    }
}
