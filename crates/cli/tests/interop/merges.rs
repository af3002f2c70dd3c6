//! Two members of each kind, cut into two halves of one member of each kind, and healed, again and
//! again, while everybody sends. `RGROUPS_MERGES=20 cargo test -p rgroups-cli --test interop merges`

use crate::peer::{PATIENCE, Peer};
use crate::table::{Table, versions, warnings};
use crate::world::World;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Quick to suspect and to merge; Java takes milliseconds, and has derived its check interval, 1.6
/// times the longest, from its file before it hears of these.
const SETTINGS: [&str; 4] = [
    "FD_ALL3.timeout=3000",
    "FD_ALL3.interval=1000",
    "MERGE3.min_interval=1000",
    "MERGE3.max_interval=3000",
];

const JAVA: [&str; 1] = ["MERGE3.check_interval=4800"];

/// Orders of joining. The halves are those of J1 and of J2, each with its R; a half is led by
/// whoever of it joined first, and the merge by one of the two leaders.
const ORDERS: [[&str; 4]; 4] = [
    ["J1", "J2", "R1", "R2"],
    ["R1", "R2", "J1", "J2"],
    ["J1", "R2", "R1", "J2"],
    ["R1", "J2", "J1", "R2"],
];

/// In one group, after which the next one is started with another order.
const ROUNDS_OF_A_GROUP: usize = 5;

#[test]
fn merges_of_halves_over_tcp() {
    run("tcp");
}

#[test]
fn merges_of_halves_over_udp() {
    run("udp");
}

fn run(stack: &'static str) {
    let rounds = std::env::var("RGROUPS_MERGES").ok();
    let rounds: usize = rounds.map_or(2, |r| r.parse().expect("RGROUPS_MERGES is a number"));
    let mut table = Table::new(&format!("merges-{stack}"));
    table.line(&format!(
        "{stack}.xml, FD_ALL3 timeout 3 s, MERGE3 1 to 3 s. Two halves of a Java and a Rust member \
         each hear nothing of each other (DISCARD), until each half has a view of its own, and are \
         healed. Cut: until each half has its view. Healed: until everybody has the one MergeView. \
         All four send a multicast and three unicasts every 20 ms all the while.\n\n\
         In each round: one MergeView everywhere and no other view; no multicast that was sent while \
         apart crosses, and both members of the other half begin with the same one; from then on \
         everything arrives once and in order, in all directions; and nothing is missing within a \
         half. While apart, each also sends a unicast to each member that its view excludes. Ours are \
         refused at once. JGroups sends them, and again after the merge, as it keeps its connections: \
         the last two columns count those of two that Java members deliver, and of two that ours do \
         ([decision 033](../decisions/033-unicasts-of-the-time-apart.md)).\n"
    ));
    table.line(
        "| round | halves, their leaders first | cut | healed | led by | late to Java | to ours |",
    );
    table.line("|---|---|---|---|---|---|---|");
    let mut healed = Vec::new();
    let (mut seen, mut said) = (BTreeMap::<String, u64>::new(), Vec::new());
    // Few rounds are of two groups as well, so that both kinds lead.
    let of_a_group = ROUNDS_OF_A_GROUP.min(rounds.div_ceil(2));
    for first in (0..rounds).step_by(of_a_group) {
        let Some(world) = World::new(stack) else { return };
        let members = group(&world, ORDERS[first / of_a_group % ORDERS.len()]);
        for round in first..rounds.min(first + of_a_group) {
            let took = Round::new(&members, round).run(&mut table);
            println!("{stack}: round {round} healed in {took:?}");
            healed.push(took);
        }
        for m in &members {
            m.answers("steady off");
        }
        for (kind, count) in warnings(&members) {
            *seen.entry(kind).or_default() += count;
        }
        said = versions(&members);
    }
    let slowest = healed.iter().max().expect("a round").as_secs_f64();
    let average = healed.iter().sum::<Duration>().as_secs_f64() / healed.len() as f64;
    table.line(&format!("\n{average:.1} s on average, at most {slowest:.1} s.\n"));
    table.line("| warnings | |\n|---|---|");
    for (kind, count) in seen {
        table.line(&format!("| {kind} | {count} |"));
    }
    table.write(&said);
}

/// The four, who send numbered messages to all and to each other.
fn group(world: &World, names: [&str; 4]) -> Vec<Peer> {
    let mut members: Vec<Peer> = Vec::new();
    for (place, name) in names.iter().enumerate() {
        members.push(match name.starts_with('J') {
            true => world.stock_java(name, place as u16, &[&SETTINGS[..], &JAVA].concat()),
            false => world.stock_rust(name, place as u16, &SETTINGS),
        });
        for m in &members {
            m.hears(&format!("^view {place} {}$", names[..=place].join(",")));
        }
    }
    for m in &members {
        let others: Vec<&str> = names.into_iter().filter(|n| *n != m.name).collect();
        m.told(&format!("steady 20 0 {}", others.join(" ")));
    }
    members
}

/// Numbers of messages, by kind (`multicast` or `unicast`) and sender.
type Numbers<'a> = BTreeMap<(&'a str, &'a str), Vec<u64>>;

/// A cut and its end.
struct Round<'a> {
    members: &'a [Peer],
    number: usize,
    /// How many lines each has printed before it, and how many when it was healed.
    began: Vec<usize>,
    healed: Vec<usize>,
    /// What each had sent when it was healed, and when all were together again.
    sent_apart: Vec<BTreeMap<String, u64>>,
    sent_together: Vec<BTreeMap<String, u64>>,
}

impl<'a> Round<'a> {
    fn new(members: &'a [Peer], number: usize) -> Self {
        let (healed, sent_apart, sent_together) = Default::default();
        Round { members, number, began: places(members), healed, sent_apart, sent_together }
    }

    fn run(mut self, table: &mut Table) -> Duration {
        let cut = Instant::now();
        for m in self.members {
            m.answers(&format!("ignore {}", self.others(m, false).join(" ")));
        }
        for m in self.members {
            m.hears(&format!(" {}$", self.half(m).join(",")));
        }
        let cut = cut.elapsed();
        for m in self.members {
            for to in self.others(m, false) {
                m.answers(&format!("beyond {to} beyond-{}", self.number));
            }
        }
        self.healed = places(self.members);
        self.sent_apart = self.members.iter().map(sent).collect();
        let healed = Instant::now();
        self.members.iter().for_each(|m| m.told("ignore"));
        let merged: Vec<String> = self.members.iter().map(|m| m.hears("^merge ")).collect();
        let healed = healed.elapsed();
        self.traffic_flows();
        let [to_java, to_ours] = self.check(&merged);
        let halves: Vec<String> = self.halves().iter().map(|h| h.join(", ")).collect();
        let leader = merged[0].split([' ', ',']).nth(2).expect("a member");
        table.line(&format!(
            "| {} | {} / {} | {:.1} s | {:.1} s | {leader} | {to_java} | {to_ours} |",
            self.number + 1,
            halves[0],
            halves[1],
            cut.as_secs_f64(),
            healed.as_secs_f64(),
        ));
        healed
    }

    /// The half of `m`, in the order of joining.
    fn half(&self, m: &Peer) -> Vec<&str> {
        let same = |o: &&Peer| o.name[1..] == m.name[1..];
        self.members.iter().filter(same).map(|o| o.name.as_str()).collect()
    }

    fn halves(&self) -> [Vec<&str>; 2] {
        let first = self.half(&self.members[0]);
        let in_second = |m: &&Peer| !first.contains(&m.name.as_str());
        let second = self.half(self.members.iter().find(in_second).expect("two halves"));
        [first, second]
    }

    /// The others in the half of `m`, or those in the other half.
    fn others(&self, m: &Peer, here: bool) -> Vec<&str> {
        let half = self.half(m);
        let names = self.members.iter().map(|o| o.name.as_str()).filter(|o| *o != m.name);
        names.filter(|o| half.contains(o) == here).collect()
    }

    /// Everybody gets what is sent from now on, in all directions.
    fn traffic_flows(&mut self) {
        self.sent_together = self.members.iter().map(sent).collect();
        for (from, sent) in self.members.iter().zip(&self.sent_together) {
            for to in self.members {
                let later = format!("{} {:08}", from.name, sent["all"] + 10);
                to.has_heard(&format!("^multicast {later}"), PATIENCE);
                if let Some(n) = sent.get(&to.name) {
                    let later = format!("{} {:08}", from.name, n + 10);
                    to.has_heard(&format!("^unicast {later}"), PATIENCE);
                }
            }
        }
    }

    /// How many unicasts of Java members are delivered, to Java members and to ours, that were sent
    /// when the view excluded their receiver: JGroups keeps its connections. Of ours there are none.
    fn check(&self, merged: &[String]) -> [u64; 2] {
        let (mut cuts, mut late) = (BTreeMap::new(), [0; 2]);
        for (i, m) in self.members.iter().enumerate() {
            let lines = m.lines();
            let (apart, together) =
                (&lines[self.began[i]..self.healed[i]], &lines[self.healed[i]..]);
            let views: Vec<&String> = together.iter().filter(|l| is_view(l)).collect();
            assert_eq!(views, [&merged[0]], "{}: one MergeView and no other view", m.name);
            let merges = apart.iter().filter(|l| l.starts_with("merge ")).count();
            assert_eq!(merges, 0, "{}: a merge while apart", m.name);
            let told = lines[self.began[i]..].iter().filter(|l| l.starts_with("unicast "));
            for line in told.filter(|l| l.contains(" beyond-")) {
                let from_java = line.starts_with("unicast J");
                assert!(from_java, "{}: {line}: sent when the view excluded it", m.name);
                late[usize::from(!m.name.starts_with('J'))] += 1;
            }
            let (before, after) = (numbers(apart), numbers(together));
            for (s, from) in self.members.iter().enumerate() {
                let of = |kind, numbers: &Numbers| {
                    numbers.get(&(kind, from.name.as_str())).cloned().unwrap_or_default()
                };
                let what = format!("{}, of {}", m.name, from.name);
                let multicasts = [of("multicast", &before), of("multicast", &after)];
                let unicasts = [of("unicast", &before), of("unicast", &after)];
                if self.half(m).contains(&from.name.as_str()) {
                    unbroken(&multicasts.concat(), &format!("multicasts to {what}"));
                    if from.name != m.name {
                        unbroken(&unicasts.concat(), &format!("unicasts to {what}"));
                    }
                    continue;
                }
                unbroken(&multicasts[0], &format!("multicasts to {what}, before"));
                unbroken(&multicasts[1], &format!("multicasts to {what}, after"));
                let (first, apart) = (multicasts[1][0], self.sent_apart[s]["all"]);
                assert!(first >= apart, "{what}: {first} was sent before {apart}, while apart");
                let same = *cuts.entry((from.name.as_str(), &m.name[1..])).or_insert(first);
                assert_eq!(first, same, "{what}: others began with another one");
                let ordered = unicasts.concat().windows(2).all(|w| w[0] < w[1]);
                assert!(ordered, "unicasts to {what}: {unicasts:?}");
                let later = self.sent_together[s][&m.name];
                let later = unicasts[1].iter().copied().filter(|n| *n >= later);
                unbroken(&later.collect::<Vec<_>>(), &format!("unicasts to {what}, after"));
            }
        }
        late
    }
}

/// How many lines each has printed.
fn places(members: &[Peer]) -> Vec<usize> {
    members.iter().map(|m| m.lines().len()).collect()
}

fn is_view(line: &str) -> bool {
    line.starts_with("view ") || line.starts_with("merge ")
}

/// How many messages it has sent to all and to each.
fn sent(m: &Peer) -> BTreeMap<String, u64> {
    let answer = m.answers("tally");
    let lines = answer.iter().filter_map(|l| l.strip_prefix("sent "));
    let words = lines.map(|l| l.split(' ').collect::<Vec<_>>());
    words.map(|w| (w[0].to_owned(), w[1].parse().expect("a number"))).collect()
}

fn numbers(lines: &[String]) -> Numbers<'_> {
    let mut numbers = Numbers::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        if let [kind @ ("multicast" | "unicast"), from, number] = words[..]
            && let Ok(number) = number.parse()
        {
            numbers.entry((kind, from)).or_default().push(number);
        }
    }
    numbers
}

/// None is missing, and none comes twice.
fn unbroken(numbers: &[u64], what: &str) {
    let gap = numbers.windows(2).find(|w| w[1] != w[0] + 1);
    assert_eq!(gap, None, "{what}");
}
