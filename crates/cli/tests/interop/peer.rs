//! A member in a process of its own: what it is told, and what it prints.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long anything may take that nobody is expected to wait long for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Everything that a member has printed, on both of its outputs.
#[derive(Default)]
struct Heard {
    lines: Mutex<(Vec<String>, Outputs)>,
    more: Condvar,
}

/// How many of the outputs have ended.
#[derive(Default)]
struct Outputs {
    ended: u8,
}

impl Heard {
    fn lock(&self) -> MutexGuard<'_, (Vec<String>, Outputs)> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listen(self: &Arc<Self>, output: impl Read + Send + 'static) {
        let heard = self.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                heard.lock().0.push(line);
                heard.more.notify_all();
            }
            heard.lock().1.ended += 1;
            heard.more.notify_all();
        });
    }

    /// The first line from `start` on with this text, and its place. Waits for it.
    fn find(&self, text: &str, start: usize, within: Duration) -> Result<(usize, String), String> {
        let end = Instant::now() + within;
        let (mut heard, mut seen) = (self.lock(), start);
        loop {
            if let Some(i) = heard.0.iter().skip(seen).position(|l| matches(l, text)) {
                return Ok((seen + i, heard.0[seen + i].clone()));
            }
            seen = seen.max(heard.0.len());
            let left = end.saturating_duration_since(Instant::now());
            let why = match (left.is_zero(), heard.1.ended) {
                (true, _) => format!("within {within:?}"),
                (_, 2) => "before it ended".into(),
                _ => {
                    heard = self
                        .more
                        .wait_timeout(heard, left)
                        .map_or_else(|e| e.into_inner().0, |r| r.0);
                    continue;
                }
            };
            let last = heard.0[heard.0.len().saturating_sub(30)..].join("\n  ");
            return Err(format!("did not print {text:?} {why}; last:\n  {last}"));
        }
    }
}

/// A member in its own process. It is killed when dropped.
pub(crate) struct Peer {
    pub(crate) name: String,
    child: Mutex<Child>,
    heard: Arc<Heard>,
    /// Up to where `hears` has listened.
    at: Mutex<usize>,
}

impl Peer {
    pub(crate) fn start(name: &str, mut command: Command) -> Peer {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the member starts");
        let heard = Arc::new(Heard::default());
        heard.listen(child.stdout.take().expect("piped"));
        heard.listen(child.stderr.take().expect("piped"));
        Peer { name: name.into(), child: Mutex::new(child), heard, at: Mutex::default() }
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a line to its standard input.
    pub(crate) fn told(&self, line: &str) {
        let mut child = self.child();
        let input = child.stdin.as_mut().expect("piped");
        writeln!(input, "{line}").and_then(|()| input.flush()).expect("the member reads");
    }

    /// Waits for a line with this text; `^` means at its start, `$` at its end. Lines before it
    /// are passed over for good, so events must come in the order in which they are waited for.
    pub(crate) fn hears(&self, text: &str) -> String {
        self.hears_within(text, PATIENCE)
    }

    /// The same within a time.
    pub(crate) fn hears_within(&self, text: &str, within: Duration) -> String {
        let mut at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        match self.heard.find(text, *at, within) {
            Ok((found, line)) => {
                *at = found + 1;
                line
            }
            Err(e) => panic!("{} {e}", self.name),
        }
    }

    /// Waits for such a line anywhere in what it ever printed.
    pub(crate) fn has_heard(&self, text: &str, within: Duration) -> String {
        self.heard.find(text, 0, within).map_or_else(|e| panic!("{} {e}", self.name), |f| f.1)
    }

    /// Whether such a line was printed or comes within a time.
    pub(crate) fn prints(&self, text: &str, within: Duration) -> bool {
        self.heard.find(text, 0, within).is_ok()
    }

    /// Tells it something, waits until it has done it, and returns what it printed meanwhile.
    pub(crate) fn answers(&self, command: &str) -> Vec<String> {
        let from = self.lines().len();
        self.told(command);
        let done = self.heard.find(&format!("^done {command}$"), from, PATIENCE);
        let (to, _) = done.unwrap_or_else(|e| panic!("{} {e}", self.name));
        self.lines()[from..to].to_vec()
    }

    /// Everything it has printed.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.heard.lock().0.clone()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, which: &str) {
        let id = self.id().to_string();
        let kill = Command::new("kill").args([which, &id]).status();
        assert!(kill.expect("kill runs").success());
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child().id()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let mut child = self.child();
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn matches(line: &str, text: &str) -> bool {
    let (start, text) = text.strip_prefix('^').map_or((false, text), |t| (true, t));
    let (end, text) = text.strip_suffix('$').map_or((false, text), |t| (true, t));
    match (start, end) {
        (true, true) => line == text,
        (true, false) => line.starts_with(text),
        (false, true) => line.ends_with(text),
        (false, false) => line.contains(text),
    }
}
