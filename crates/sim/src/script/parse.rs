//! The language of scenarios: one command a line. Indented lines are the transcript that is
//! expected after the command above them, `#` begins a comment.
//!
//! All commands are listed in `language.md`.

use super::expect::Expectation;
use crate::network::Link;
use rgroups_core::Duration;
use rgroups_core::attributes::AttrValue;

/// One command.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Line {
    Stack(String),
    Seed(u64),
    Set { protocol: String, attribute: String, value: String },
    Link(Vec<(String, String)>),
    Nodes(NodeVerb, Vec<String>),
    Slow(String, Duration),
    Drift(String, i32),
    Garbage(String, u32),
    Consume(String, Diet),
    Partition(Vec<Vec<String>>),
    Cut(String, String),
    Heal,
    Rule(RuleLine),
    Pass,
    Send(SendLine),
    Run(Duration),
    Expect(Expectation),
}

/// What is done to nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeVerb {
    Start,
    Leave,
    Crash,
    PowerOff,
    Restart,
    Freeze,
    Resume,
    Reset,
}

/// How an application consumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Diet {
    On,
    Off,
    Rate(u64),
}

/// A rule for certain messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RuleLine {
    /// `None`: they are dropped.
    pub(super) delay: Option<Duration>,
    /// `None`: all of them.
    pub(super) times: Option<u32>,
    pub(super) protocol: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) seqno: Option<i64>,
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
}

/// Messages to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SendLine {
    pub(super) from: String,
    pub(super) to: Option<String>,
    pub(super) count: u64,
    pub(super) size: usize,
    pub(super) oob: bool,
    pub(super) try_only: bool,
    pub(super) loopback: bool,
    pub(super) rsvp: bool,
    pub(super) within: Option<Duration>,
}

/// The words of a line, taken from the front.
pub(super) struct Words<'a> {
    words: std::iter::Peekable<std::str::SplitWhitespace<'a>>,
}

impl<'a> Words<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Self { words: text.split_whitespace().peekable() }
    }

    pub(super) fn next(&mut self, what: &str) -> Result<&'a str, String> {
        self.words.next().ok_or_else(|| format!("{what} is missing"))
    }

    pub(super) fn next_if(&mut self, word: &str) -> bool {
        self.words.next_if_eq(&word).is_some()
    }

    pub(super) fn rest(&mut self) -> Vec<String> {
        self.words.by_ref().map(str::to_owned).collect()
    }

    pub(super) fn peek(&mut self) -> Option<&'a str> {
        self.words.peek().copied()
    }

    pub(super) fn duration(&mut self) -> Result<Duration, String> {
        duration(self.next("a time")?)
    }

    pub(super) fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<T, String> {
        let word = self.next(what)?;
        word.parse().map_err(|_| format!("{what}: {word:?} is no such number"))
    }

    pub(super) fn end(&mut self) -> Result<(), String> {
        match self.words.next() {
            None => Ok(()),
            Some(w) => Err(format!("{w:?} is too much")),
        }
    }
}

pub(super) fn parse(text: &str) -> Result<Line, String> {
    let mut words = Words::of(text);
    let verb = words.next("a command")?;
    let nodes = |words: &mut Words<'_>, verb| match words.rest() {
        list if list.is_empty() => Err("which node?".to_owned()),
        list => Ok(Line::Nodes(verb, list)),
    };
    let line = match verb {
        "stack" => {
            Line::Stack(words.next("udp, tcp, mping, udp-new, tcp-new or inproc")?.to_owned())
        }
        "seed" => Line::Seed(words.number("the seed")?),
        "set" => Line::Set {
            protocol: words.next("the protocol")?.to_owned(),
            attribute: words.next("the attribute")?.to_owned(),
            value: words.rest().join(" "),
        },
        "link" => Line::Link(pairs(&words.rest())?),
        "start" => nodes(&mut words, NodeVerb::Start)?,
        "leave" => nodes(&mut words, NodeVerb::Leave)?,
        "crash" => nodes(&mut words, NodeVerb::Crash)?,
        "poweroff" => nodes(&mut words, NodeVerb::PowerOff)?,
        "restart" => nodes(&mut words, NodeVerb::Restart)?,
        "freeze" => nodes(&mut words, NodeVerb::Freeze)?,
        "resume" => nodes(&mut words, NodeVerb::Resume)?,
        "reset" => nodes(&mut words, NodeVerb::Reset)?,
        "slow" => Line::Slow(words.next("the node")?.to_owned(), words.duration()?),
        "drift" => Line::Drift(words.next("the node")?.to_owned(), words.number("the drift")?),
        "garbage" => Line::Garbage(words.next("the node")?.to_owned(), words.number("how much")?),
        "consume" => {
            let name = words.next("the node")?.to_owned();
            let diet = match words.peek() {
                Some("on") => Diet::On,
                Some("off") => Diet::Off,
                _ => Diet::Rate(words.number("on, off, or bytes a second")?),
            };
            if !matches!(diet, Diet::Rate(_)) {
                words.next("on or off")?;
            }
            Line::Consume(name, diet)
        }
        "cut" => cut(&words.rest())?,
        "heal" => Line::Heal,
        "drop" => {
            let times = times(&mut words)?;
            Line::Rule(rule(&mut words, None, times)?)
        }
        "delay" => {
            let by = words.duration()?;
            Line::Rule(rule(&mut words, Some(by), None)?)
        }
        "pass" => Line::Pass,
        "send" => Line::Send(send(&mut words)?),
        "run" => Line::Run(words.duration()?),
        "expect" => Line::Expect(Expectation::parse(&mut words)?),
        other => return Err(format!("{other:?} is no command")),
    };
    words.end()?;
    Ok(line)
}

fn duration(word: &str) -> Result<Duration, String> {
    <Duration as AttrValue>::parse(word).ok_or_else(|| format!("{word:?} is no time"))
}

fn pairs(words: &[String]) -> Result<Vec<(String, String)>, String> {
    let pair = |w: &String| {
        let (k, v) = w.split_once('=').ok_or_else(|| format!("{w:?}: name=value is expected"))?;
        Ok((k.to_owned(), v.to_owned()))
    };
    words.iter().map(pair).collect()
}

/// A link with these properties changed.
pub(super) fn change_link(mut link: Link, changes: &[(String, String)]) -> Result<Link, String> {
    for (name, value) in changes {
        match name.as_str() {
            "delay" => link.delay = duration(value)?,
            "jitter" => link.jitter = duration(value)?,
            "loss" => link.loss = share(value)?,
            "dup" => link.duplication = share(value)?,
            "reorder" => link.reordering = share(value)?,
            "mtu" => link.mtu = value.parse().map_err(|_| format!("{value:?} is no size"))?,
            "bandwidth" => {
                let rate = value.parse().map_err(|_| format!("{value:?} is no rate"))?;
                link.bandwidth = Some(rate);
            }
            other => return Err(format!("a link has no {other:?}")),
        }
    }
    Ok(link)
}

fn share(word: &str) -> Result<f64, String> {
    let percent = word.strip_suffix('%').and_then(|n| n.parse::<f64>().ok());
    percent.map(|p| p / 100.0).ok_or_else(|| format!("{word:?} is no percentage"))
}

fn cut(words: &[String]) -> Result<Line, String> {
    if let [from, arrow, to] = words
        && arrow == ">"
    {
        return Ok(Line::Cut(from.clone(), to.clone()));
    }
    let groups: Vec<Vec<String>> = words.split(|w| w == "|").map(<[String]>::to_vec).collect();
    if groups.len() < 2 {
        return Err("cut needs two groups, as in: cut A B | C; or one way, as in: cut A > B".into());
    }
    Ok(Line::Partition(groups))
}

fn times(words: &mut Words<'_>) -> Result<Option<u32>, String> {
    if words.next_if("all") {
        return Ok(None);
    }
    Ok(Some(words.number("how many, or all")?))
}

fn rule(
    words: &mut Words<'_>,
    delay: Option<Duration>,
    times: Option<u32>,
) -> Result<RuleLine, String> {
    let mut r =
        RuleLine { delay, times, protocol: None, kind: None, seqno: None, from: None, to: None };
    while let Some(word) = words.peek() {
        words.next("")?;
        match word {
            "from" => r.from = Some(words.next("the sender")?.to_owned()),
            "to" => r.to = Some(words.next("the receiver")?.to_owned()),
            "seqno" => r.seqno = Some(words.number("the seqno")?),
            name if r.protocol.is_none() => r.protocol = Some(name.to_owned()),
            name if r.kind.is_none() => r.kind = Some(name.to_owned()),
            other => return Err(format!("{other:?} is too much")),
        }
    }
    Ok(r)
}

fn send(words: &mut Words<'_>) -> Result<SendLine, String> {
    let from = words.next("the sender")?.to_owned();
    let to = if words.next_if("to") { Some(words.next("the receiver")?.to_owned()) } else { None };
    let first: u64 = words.number("how many bytes, or how many x how many bytes")?;
    let (count, size) = if words.next_if("x") {
        (first, words.number("how many bytes")?)
    } else {
        (1, first as usize)
    };
    let mut s = SendLine {
        from,
        to,
        count,
        size,
        oob: false,
        try_only: false,
        loopback: true,
        rsvp: false,
        within: None,
    };
    while let Some(word) = words.peek() {
        words.next("")?;
        match word {
            "oob" => s.oob = true,
            "try" => s.try_only = true,
            "noloop" => s.loopback = false,
            "rsvp" => s.rsvp = true,
            "within" => s.within = Some(words.duration()?),
            other => return Err(format!("{other:?} is no option of send")),
        }
    }
    Ok(s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read() {
        let start = Line::Nodes(NodeVerb::Start, vec!["A".into(), "B".into()]);
        assert_eq!(parse("start A B"), Ok(start));
        assert_eq!(parse("run 1.5s"), Ok(Line::Run(Duration::from_millis(1_500))));
        let groups = vec![vec!["A".to_owned()], vec!["B".into(), "C".into()]];
        assert_eq!(parse("cut A | B C"), Ok(Line::Partition(groups)));
        assert_eq!(parse("cut A > B"), Ok(Line::Cut("A".into(), "B".into())));
        assert_eq!(parse("consume A off"), Ok(Line::Consume("A".into(), Diet::Off)));
        assert_eq!(parse("consume A 9"), Ok(Line::Consume("A".into(), Diet::Rate(9))));
    }

    #[test]
    fn a_rule_names_what_it_is_about_in_any_order() {
        let Ok(Line::Rule(r)) = parse("drop 2 NAKACK2 MSG seqno 5 to B from A") else {
            panic!("not a rule")
        };
        assert_eq!((r.times, r.seqno), (Some(2), Some(5)));
        assert_eq!((r.protocol.as_deref(), r.kind.as_deref()), (Some("NAKACK2"), Some("MSG")));
        assert_eq!((r.from.as_deref(), r.to.as_deref()), (Some("A"), Some("B")));
    }

    #[test]
    fn sends_are_read_with_their_options() {
        let Ok(Line::Send(s)) = parse("send A to B 3 x 100 oob within 2s") else {
            panic!("not a send")
        };
        assert_eq!((s.count, s.size, s.oob), (3, 100, true));
        assert_eq!(s.within, Some(Duration::from_secs(2)));
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(parse("dance"), Err("\"dance\" is no command".into()));
        assert!(parse("run fast").is_err());
        assert!(parse("cut A").is_err());
        assert!(parse("heal A").is_err());
    }
}
