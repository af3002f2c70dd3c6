//! All members are started anew, one after the other, while all of them send.

use crate::common::{Proc, names};
use crate::world::{LONG, NAMES, World};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

crate::tests![all_members_are_restarted_one_by_one_under_load];

/// Messages a second of all members together, at least: few here, as debug builds share a busy
/// machine; in a whole run as many as the requirement says.
fn rate() -> u64 {
    let wish = std::env::var("RGROUPS_NETNS_RATE").ok();
    wish.map_or(500, |r| r.parse().expect("RGROUPS_NETNS_RATE is a number"))
}

/// A member that runs, or ran: what it sent, and what it got from whom.
struct Member {
    name: String,
    host: usize,
    proc: Option<Proc>,
    sent: Option<u64>,
    /// By sender: how many, the last number, and how many breaks in the numbers.
    got: BTreeMap<String, [u64; 3]>,
    views: Vec<(Vec<String>, bool)>,
    complaints: String,
}

impl Member {
    fn start(world: &World, host: usize, name: String) -> Member {
        // One of the five is away at times.
        let each = rate() as f64 / (NAMES.len() - 1) as f64;
        let proc = Some(world.lean(host, &name, each));
        let (got, views) = (BTreeMap::new(), Vec::new());
        Member { name, host, proc, sent: None, got, views, complaints: String::new() }
    }

    fn tell(&mut self, word: &str) {
        if let Some(p) = &mut self.proc {
            p.write(word);
        }
    }

    fn read(&mut self) {
        let lines = self.proc.as_mut().map(Proc::lines).unwrap_or_default();
        self.take(&lines);
    }

    fn take(&mut self, lines: &[String]) {
        for line in lines {
            let v: Value = serde_json::from_str(line).expect(line);
            let number = |name: &str| v[name].as_u64().expect("a number");
            match v["type"].as_str() {
                Some("view") => {
                    let members = names(&v).into_iter().map(str::to_owned).collect();
                    self.views.push((members, v["merge"] == true));
                }
                Some("sent") => self.sent = Some(number("messages")),
                Some("tally") => {
                    let from = v["from"].as_str().expect("a name").to_owned();
                    self.got.insert(from, ["messages", "last", "breaks"].map(number));
                }
                _ => panic!("{line}"),
            }
        }
    }

    /// Whether its view has these members.
    fn sees(&self, members: &[String]) -> bool {
        let same = |(v, _): &(Vec<String>, bool)| {
            v.len() == members.len() && members.iter().all(|m| v.contains(m))
        };
        self.views.last().is_some_and(same)
    }

    /// Leaves as a program does whose input ends.
    fn leave(&mut self) {
        let mut p = self.proc.take().expect("it runs");
        p.close_input();
        let ended = p.end(LONG);
        assert_eq!(ended.code, Some(0), "{} left: {}", self.name, ended.stderr);
        self.take(&ended.stdout);
        self.complaints = ended.complaints();
    }
}

/// Reads everything until `done`.
fn run(all: &mut [Member], mut done: impl FnMut(&[Member]) -> bool) {
    let end = Instant::now() + 2 * LONG;
    while !done(all) {
        assert!(Instant::now() < end, "not in time");
        all.iter_mut().for_each(Member::read);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs for a while, the length of which does not matter.
fn for_a_while(all: &mut [Member]) {
    let end = Instant::now() + Duration::from_secs(1);
    run(all, |_| Instant::now() >= end);
}

fn running(all: &[Member]) -> Vec<String> {
    all.iter().filter(|m| m.proc.is_some()).map(|m| m.name.clone()).collect()
}

fn all_together(all: &mut [Member]) {
    let there = running(all);
    run(all, |all| all.iter().filter(|m| m.proc.is_some()).all(|m| m.sees(&there)));
}

/// What `m` got of each sender has no gap and nothing twice; if `m` is there, it ends with the last.
fn check(m: &Member, all: &[Member]) {
    for (from, [_, last, breaks]) in &m.got {
        assert_eq!(*breaks, 0, "{}: of {from}", m.name);
        let sender = all.iter().find(|s| s.name == *from).expect("somebody sent it");
        if m.proc.is_some() {
            assert_eq!(Some(last + 1), sender.sent, "{}: of {from}", m.name);
        }
    }
}

fn all_members_are_restarted_one_by_one_under_load() {
    for transport in ["udp", "tcp"] {
        let world = World::new(transport);
        let mut all: Vec<Member> = Vec::new();
        for (i, name) in NAMES.iter().enumerate() {
            all.push(Member::start(&world, i + 1, (*name).into()));
            all_together(&mut all);
        }
        all.iter_mut().for_each(|m| m.tell("go"));
        let began = Instant::now();
        for i in 0..NAMES.len() {
            for_a_while(&mut all);
            let (host, name) = (all[i].host, format!("{}2", all[i].name));
            all[i].leave();
            all_together(&mut all);
            let mut new = Member::start(&world, host, name);
            new.tell("go");
            all.push(new);
            all_together(&mut all);
        }
        for_a_while(&mut all);
        let took = began.elapsed().as_secs_f64();
        all.iter_mut().for_each(|m| m.tell("quiet"));
        run(&mut all, |all| all.iter().all(|m| m.sent.is_some()));
        // What is on its way arrives.
        let sent: BTreeMap<String, u64> =
            all.iter().map(|m| (m.name.clone(), m.sent.unwrap_or(0))).collect();
        let there = running(&all);
        let has_all = |m: &Member| {
            there.iter().all(|s| m.got.get(s).is_some_and(|[_, last, _]| last + 1 == sent[s]))
        };
        let end = Instant::now() + LONG;
        while !all.iter().filter(|m| m.proc.is_some()).all(has_all) && Instant::now() < end {
            all.iter_mut().for_each(|m| m.tell("tally"));
            std::thread::sleep(Duration::from_millis(200));
            all.iter_mut().for_each(Member::read);
        }
        for m in &all {
            check(m, &all);
            assert!(m.views.iter().all(|(_, merge)| !merge), "{}: {:?}", m.name, m.views);
            assert_eq!(m.complaints, "", "{}", m.name);
            assert!(m.proc.is_none() || has_all(m), "{}: {:?} of {sent:?}", m.name, m.got);
        }
        for protocol in ["FD_SOCK2", "FD_ALL3"] {
            let suspicions = world.sum(5, &format!("{protocol}.num_suspect_events"));
            assert_eq!(suspicions, 0, "{transport}: {protocol} suspected a leaver");
        }
        let messages: u64 = sent.values().sum();
        println!(
            "{transport}: {messages} messages, {:.0} a second, all members restarted, nothing lost",
            messages as f64 / took
        );
    }
}
