//! Real nodes, of which nothing is run twice: what a node makes of an input is looked up if the node
//! has been in the same state at the same time before, whatever led to it.

use super::input::{Input, feed};
use crate::addresses;
use crate::history::What;
use crate::network::Host;
use bytes::Bytes;
use rgroups_core::node::{Cast, Node, NodeEnv};
use rgroups_core::plan::StackPlan;
use rgroups_core::{Time, Trace, Uuid, View};
use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;

/// Names an input.
pub(super) type InputId = u32;
/// Names a state of a node.
pub(super) type StateId = u32;

/// A state of a node: all that it was given until then comes to the same.
#[derive(Debug)]
struct State {
    site: usize,
    /// One way to come to it: from where, with what, when.
    came: Option<(StateId, InputId, Time)>,
    deadline: Option<Time>,
    view: Option<Arc<View>>,
    /// What the oracles have seen of it, in order.
    seen: u64,
}

/// What a node made of an input.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) to: StateId,
    /// What the oracles want to know of it.
    pub(super) facts: Vec<What>,
    /// The packets that it sent, once for each node that they go to.
    pub(super) packets: Vec<InputId>,
}

/// All nodes, and what is known of them.
#[derive(Debug)]
pub(super) struct Memo {
    plan: StackPlan,
    nodes: Vec<NodeEnv>,
    states: Vec<State>,
    /// States by what nodes write of themselves, and by what was seen of them.
    known: HashMap<(u64, u64), StateId>,
    inputs: Vec<Input>,
    ids: HashMap<Input, InputId>,
    steps: HashMap<(StateId, InputId, Time), Rc<Step>>,
    /// Nodes that are in a state now; the newest are kept.
    live: BTreeMap<StateId, Node>,
    /// Steps that came to a known state in another way than before.
    joins: Vec<(StateId, StateId, InputId, Time)>,
}

/// Nodes that are kept alive.
const MOST_LIVE: usize = 256;

impl Memo {
    pub(super) fn new(plan: StackPlan) -> Self {
        Self {
            plan,
            nodes: Vec::new(),
            states: Vec::new(),
            known: HashMap::new(),
            inputs: Vec::new(),
            ids: HashMap::new(),
            steps: HashMap::new(),
            live: BTreeMap::new(),
            joins: Vec::new(),
        }
    }

    /// A further node, and the state that it begins in.
    pub(super) fn add(&mut self, env: NodeEnv) -> StateId {
        let site = self.nodes.len();
        self.nodes.push(env);
        let node = self.built(site);
        self.state_of(site, node, None, 0)
    }

    /// The number of an input.
    pub(super) fn id(&mut self, input: Input) -> InputId {
        if let Some(id) = self.ids.get(&input) {
            return *id;
        }
        let id = self.inputs.len() as InputId;
        self.inputs.push(input.clone());
        self.ids.insert(input, id);
        id
    }

    pub(super) fn input(&self, id: InputId) -> &Input {
        &self.inputs[id as usize]
    }

    /// What the node does when it is given this.
    pub(super) fn step(&mut self, state: StateId, input: InputId, now: Time) -> Rc<Step> {
        if let Some(step) = self.steps.get(&(state, input, now)) {
            return Rc::clone(step);
        }
        let node = self.live.remove(&state).unwrap_or_else(|| self.revived(state));
        let step = Rc::new(self.ran(node, state, input, now));
        self.steps.insert((state, input, now), Rc::clone(&step));
        step
    }

    /// When its timers fire next.
    pub(super) fn deadline(&self, state: StateId) -> Option<Time> {
        self.states[state as usize].deadline
    }

    /// The view that it has installed.
    pub(super) fn view(&self, state: StateId) -> Option<&Arc<View>> {
        self.states[state as usize].view.as_ref()
    }

    /// What the oracles have seen of it.
    pub(super) fn seen(&self, state: StateId) -> u64 {
        self.states[state as usize].seen
    }

    /// The identity of a node.
    pub(super) fn identity(&self, site: usize) -> Uuid {
        self.nodes[site].local
    }

    /// The name of a node.
    pub(super) fn name(&self, site: usize) -> &str {
        &self.nodes[site].name
    }

    /// How many states of nodes were met, and how many steps of nodes were run.
    pub(super) fn met(&self) -> (u64, u64) {
        (self.states.len() as u64, self.steps.len() as u64)
    }

    fn ran(&mut self, mut node: Node, from: StateId, input: InputId, now: Time) -> Step {
        let (facts, sent) = feed(&mut node, &self.inputs[input as usize], now);
        let State { site, seen, .. } = self.states[from as usize];
        let seen = facts.iter().fold(seen, |seen, fact| seen_after(seen, fact, now));
        let to = self.state_of(site, node, Some((from, input, now)), seen);
        let packets = sent.into_iter().flat_map(|(cast, bytes)| self.packets(site, cast, &bytes));
        let packets = packets.collect();
        Step { to, facts, packets }
    }

    /// The packets that something sent becomes.
    fn packets(&mut self, from: usize, cast: Cast, bytes: &Bytes) -> Vec<InputId> {
        let meant = |to: &usize| match cast {
            Cast::Group | Cast::Discovery => *to != from,
            Cast::To(address) => address == addresses::transport(Host(*to)),
        };
        let receivers: Vec<usize> = (0..self.nodes.len()).filter(meant).collect();
        let discovery = matches!(cast, Cast::Discovery);
        let packet = |to| {
            let (from, to, bytes) = (from as u8, to as u8, bytes.clone());
            self.id(Input::Packet { from, to, discovery, bytes })
        };
        receivers.into_iter().map(packet).collect()
    }

    /// The state that this node is in.
    fn state_of(
        &mut self,
        site: usize,
        node: Node,
        came: Option<(StateId, InputId, Time)>,
        seen: u64,
    ) -> StateId {
        let key = (written(&node), seen);
        let id = match self.known.get(&key) {
            Some(id) => {
                self.joins.extend(came.map(|(from, input, now)| (*id, from, input, now)));
                *id
            }
            None => {
                let id = self.states.len() as StateId;
                let view = node.stack().group().view.clone();
                self.states.push(State { site, came, deadline: node.poll_deadline(), view, seen });
                self.known.insert(key, id);
                id
            }
        };
        self.live.insert(id, node);
        if self.live.len() > MOST_LIVE {
            self.live.pop_first();
        }
        id
    }

    fn built(&self, site: usize) -> Node {
        match Node::new(&self.plan, self.nodes[site].clone()) {
            Ok(node) => node,
            Err(problems) => panic!("the plan cannot be built: {problems:?}"),
        }
    }

    /// A node that is given all again that led to the state.
    fn revived(&self, state: StateId) -> Node {
        let mut given = Vec::new();
        let mut at = &self.states[state as usize];
        while let Some((from, input, now)) = at.came {
            given.push((input, now));
            at = &self.states[from as usize];
        }
        let mut node = self.built(at.site);
        for (input, now) in given.into_iter().rev() {
            feed(&mut node, &self.inputs[input as usize], now);
        }
        node
    }

    /// Checks what this memory rests on: a node that came to a known state in another way does the
    /// same from then on. Takes each of these along one way on for each of its next steps, and panics
    /// where one differs; how many steps were compared.
    #[cfg(test)]
    pub(super) fn compare(&mut self) -> usize {
        let mut ways: BTreeMap<StateId, Vec<(InputId, Time, Rc<Step>)>> = BTreeMap::new();
        for ((state, input, now), step) in &self.steps {
            ways.entry(*state).or_default().push((*input, *now, Rc::clone(step)));
        }
        let joins = std::mem::take(&mut self.joins);
        let mut compared = 0;
        for (joined, from, by, at) in joins {
            for first in ways.get(&joined).into_iter().flatten() {
                let mut node = self.revived(from);
                feed(&mut node, &self.inputs[by as usize], at);
                let mut on = Some(first);
                while let Some((input, now, step)) = on {
                    let (facts, sent) = feed(&mut node, &self.inputs[*input as usize], *now);
                    let site = self.states[step.to as usize].site;
                    let sent = sent.into_iter().flat_map(|(c, b)| self.packets(site, c, &b));
                    let sent: Vec<InputId> = sent.collect();
                    assert_eq!(sent, step.packets, "{:?}", self.input(*input));
                    assert_eq!(format!("{facts:?}"), format!("{:?}", step.facts));
                    compared += 1;
                    on = ways.get(&step.to).and_then(|all| all.get(compared % all.len()));
                }
            }
        }
        compared
    }
}

/// Oracles look at the order of these facts, and of a member that does not know also when.
fn seen_after(seen: u64, fact: &What, now: Time) -> u64 {
    let mut h = DefaultHasher::new();
    (seen, format!("{fact:?}")).hash(&mut h);
    if matches!(fact, What::Trace(Trace::TailUnknown { .. })) {
        now.0.hash(&mut h);
    }
    h.finish()
}

/// What a node writes of itself, as a hash.
fn written(node: &Node) -> u64 {
    struct Hashed(DefaultHasher);
    impl Write for Hashed {
        fn write_str(&mut self, s: &str) -> fmt::Result {
            self.0.write(s.as_bytes());
            Ok(())
        }
    }
    let mut h = Hashed(DefaultHasher::new());
    let written = node.write_state(&mut h);
    debug_assert!(written.is_ok(), "a hash takes everything");
    h.0.finish()
}
