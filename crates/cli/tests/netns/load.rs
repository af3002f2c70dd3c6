//! All members are started anew, one after the other, while all of them send.

use crate::common::{Proc, names};
use crate::world::{LONG, NAMES, World};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

crate::tests![all_members_are_restarted_one_by_one_under_load];

/// Messages a second of all members together: few here, as debug builds share a busy machine; in a
/// whole run as many as the requirement says.
fn rate() -> u64 {
    let wish = std::env::var("RGROUPS_NETNS_RATE").ok();
    wish.map_or(500, |r| r.parse().expect("RGROUPS_NETNS_RATE is a number"))
}

/// A member that runs, or ran: what it sent, and what it got from whom.
struct Member {
    name: String,
    host: usize,
    proc: Option<Proc>,
    sent: u64,
    got: BTreeMap<String, Vec<u64>>,
    views: Vec<(Vec<String>, bool)>,
    complaints: String,
}

impl Member {
    fn start(world: &World, host: usize, name: String) -> Member {
        let proc = Some(world.member(host, "chat", &name, &[]));
        let (got, views) = (BTreeMap::new(), Vec::new());
        Member { name, host, proc, sent: 0, got, views, complaints: String::new() }
    }

    fn send(&mut self) {
        let Some(p) = &mut self.proc else { return };
        p.write(&format!("{} {}", self.name, self.sent));
        self.sent += 1;
    }

    fn read(&mut self) {
        let lines = self.proc.as_mut().map(Proc::lines).unwrap_or_default();
        self.take(&lines);
    }

    fn take(&mut self, lines: &[String]) {
        for line in lines {
            let v: Value = serde_json::from_str(line).expect(line);
            if v["type"] == "view" {
                let members = names(&v).into_iter().map(str::to_owned).collect();
                self.views.push((members, v["merge"] == true));
            } else if let Some((from, n)) = v["text"].as_str().and_then(|t| t.split_once(' ')) {
                self.got.entry(from.into()).or_default().push(n.parse().expect("a number"));
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

/// Everybody sends at the rate, and everything is read, until `done`.
fn run(all: &mut [Member], mut done: impl FnMut(&[Member]) -> bool) {
    let (began, end) = (Instant::now(), Instant::now() + 2 * LONG);
    let each = rate() as f64 / NAMES.len() as f64;
    let mut rounds = 0;
    while !done(all) {
        assert!(Instant::now() < end, "not in time");
        while (rounds as f64) < began.elapsed().as_secs_f64() * each {
            all.iter_mut().for_each(Member::send);
            rounds += 1;
        }
        all.iter_mut().for_each(Member::read);
        std::thread::sleep(Duration::from_millis(5));
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

/// What `m` got of each sender has no gap and nothing twice; of those that are there, or have left
/// properly while `m` was there, it ends with the last.
fn check(m: &Member, all: &[Member]) {
    for (from, numbers) in &m.got {
        let gap = numbers.windows(2).find(|w| w[1] != w[0] + 1);
        assert_eq!(gap, None, "{}: of {from}", m.name);
        let sender = all.iter().find(|s| s.name == *from).expect("somebody sent it");
        if m.proc.is_some() {
            assert_eq!(numbers.last(), Some(&(sender.sent - 1)), "{}: of {from}", m.name);
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
        for i in 0..NAMES.len() {
            for_a_while(&mut all);
            let (host, name) = (all[i].host, format!("{}2", all[i].name));
            all[i].leave();
            all_together(&mut all);
            all.push(Member::start(&world, host, name));
            all_together(&mut all);
        }
        for_a_while(&mut all);
        // Nobody sends any more; what is on its way arrives.
        let end = Instant::now() + LONG;
        let sent: BTreeMap<String, u64> = all.iter().map(|m| (m.name.clone(), m.sent)).collect();
        let there = running(&all);
        let has_all = |m: &Member| {
            there.iter().all(|s| {
                m.got.get(s).and_then(|n| n.last()).is_some_and(|last| last + 1 == sent[s])
            })
        };
        while !all.iter().filter(|m| m.proc.is_some()).all(has_all) && Instant::now() < end {
            all.iter_mut().for_each(Member::read);
            std::thread::sleep(Duration::from_millis(20));
        }
        for m in &all {
            check(m, &all);
            assert!(m.views.iter().all(|(_, merge)| !merge), "{}: {:?}", m.name, m.views);
            assert_eq!(m.complaints, "", "{}", m.name);
        }
        for protocol in ["FD_SOCK2", "FD_ALL3"] {
            let suspicions = world.sum(5, &format!("{protocol}.num_suspect_events"));
            assert_eq!(suspicions, 0, "{transport}: {protocol} suspected a leaver");
        }
        let messages: u64 = sent.values().sum();
        println!("{transport}: {messages} messages, all members restarted, nothing lost");
    }
}
