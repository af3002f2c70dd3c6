//! The control socket between `up` and `up-ctl`: one line of JSON each way per connection.

use crate::args::{UpAction, UpCtlArgs};
use crate::failure::Failure;
use crate::output;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

/// A request may take this long: `partition` and `heal` wait for the views.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// What `up-ctl` asks for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase")]
pub(crate) enum Request {
    /// Kill a member.
    Kill {
        /// Which.
        member: String,
    },
    /// Let a member leave.
    Leave {
        /// Which.
        member: String,
    },
    /// Let a member stand still.
    Pause {
        /// Which.
        member: String,
        /// For how long.
        ms: u64,
    },
    /// Start a member.
    Add {
        /// Its name.
        member: Option<String>,
    },
    /// Cut the network between groups.
    Partition {
        /// The groups.
        groups: Vec<Vec<String>>,
    },
    /// Undo partitions.
    Heal,
    /// Who is there.
    Status,
    /// Stop the cluster.
    Stop,
}

/// What `up` answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Reply {
    /// Whether it was done.
    pub(crate) ok: bool,
    /// In words.
    pub(crate) text: String,
    /// For programs.
    pub(crate) data: Value,
}

/// Where the control socket of this user and name is.
pub(crate) fn socket_path(name: &str) -> Result<PathBuf, Failure> {
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
        return Err(Failure::usage(format!("--control {name:?}: use letters, digits, - and _")));
    }
    let dir = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let user = std::env::var("USER").unwrap_or_else(|_| "user".into());
    let user: String = user.chars().filter(char::is_ascii_alphanumeric).collect();
    Ok(dir.join(format!("rgroups-up-{user}-{name}.sock")))
}

/// The command `up-ctl`.
pub(crate) async fn send(a: &UpCtlArgs, json: bool) -> Result<u8, Failure> {
    let request = request(&a.action)?;
    let path = socket_path(&a.control)?;
    let reply = tokio::time::timeout(ANSWER_WITHIN, ask(&path, &request)).await;
    let reply = reply.map_err(|_| {
        Failure::run(format!("the cluster did not answer within {ANSWER_WITHIN:?}"))
    })??;
    if json {
        output::object("reply", serde_json::json!({"ok": reply.ok, "data": reply.data}));
    }
    if !reply.ok {
        return Err(Failure::run(reply.text));
    }
    if !json {
        output::line(&reply.text);
    }
    Ok(0)
}

async fn ask(path: &PathBuf, request: &Request) -> Result<Reply, Failure> {
    let stream = UnixStream::connect(path).await.map_err(|e| {
        Failure::run(format!("no cluster to control at {}: {e}", path.display()))
            .hint("start one in another terminal: rgroups up --nodes 3")
    })?;
    let (read, mut write) = stream.into_split();
    let broken = |e: std::io::Error| Failure::run(format!("the control connection broke: {e}"));
    let line = serde_json::to_string(request).map_err(|e| Failure::run(e.to_string()))? + "\n";
    write.write_all(line.as_bytes()).await.map_err(broken)?;
    let mut answer = String::new();
    BufReader::new(read).take(1 << 20).read_line(&mut answer).await.map_err(broken)?;
    serde_json::from_str(&answer).map_err(|e| Failure::run(format!("unreadable answer: {e}")))
}

fn request(action: &UpAction) -> Result<Request, Failure> {
    Ok(match action {
        UpAction::Kill { member } => Request::Kill { member: member.clone() },
        UpAction::Leave { member } => Request::Leave { member: member.clone() },
        UpAction::Pause { member, time } => {
            Request::Pause { member: member.clone(), ms: time.as_millis() as u64 }
        }
        UpAction::Add { member } => Request::Add { member: member.clone() },
        UpAction::Partition { groups } => Request::Partition { groups: parse_groups(groups)? },
        UpAction::Heal => Request::Heal,
        UpAction::Status => Request::Status,
        UpAction::Stop => Request::Stop,
    })
}

/// `A,B / C`, in any splitting into arguments.
fn parse_groups(words: &[String]) -> Result<Vec<Vec<String>>, Failure> {
    let text = words.join(" ");
    let groups: Vec<Vec<String>> = text
        .split('/')
        .map(|g| {
            let names = g.split([',', ' ']).map(str::trim).filter(|n| !n.is_empty());
            names.map(str::to_owned).collect()
        })
        .collect();
    if groups.len() < 2 || groups.iter().any(Vec::is_empty) {
        return Err(Failure::usage(format!("{text:?} names no two groups"))
            .hint("write: rgroups up-ctl partition A,B / C"));
    }
    let mut all: Vec<&String> = groups.iter().flatten().collect();
    all.sort();
    if let Some(twice) = all.windows(2).find(|w| w[0] == w[1]) {
        return Err(Failure::usage(format!("{:?} is in two groups", twice[0])));
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(text: &str) -> Result<Vec<Vec<String>>, Failure> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        parse_groups(&words)
    }

    #[test]
    fn groups_are_separated_by_slashes() {
        let parsed = groups("A,B / C").ok();
        assert_eq!(parsed, Some(vec![vec!["A".into(), "B".into()], vec!["C".into()]]));
        assert_eq!(groups("A/B").ok().map(|g| g.len()), Some(2));
    }

    #[test]
    fn one_group_or_a_member_in_two_groups_is_refused() {
        assert!(groups("A,B").is_err());
        assert!(groups("A / ").is_err());
        assert!(groups("A,B / B").is_err());
    }

    #[test]
    fn control_names_cannot_leave_their_folder() {
        assert!(socket_path("../x").is_err());
        assert!(socket_path("second-1").is_ok());
    }
}
