//! Members with COUNTER on a network without delay, with everything lost that a test names.

use super::*;

pub(super) type Loss = Box<dyn FnMut(Uuid, Uuid, &Message) -> bool>;

pub(super) struct Group {
    pub(super) members: Vec<Solo>,
    pub(super) results: Vec<Vec<(OpId, Result<i64, CounterFailure>)>>,
    pub(super) lose: Loss,
    pub(super) last_op: u64,
}

impl Group {
    pub(super) fn of(ids: &[Uuid], backups: u32) -> Self {
        let config = CounterConfig { num_backups: backups, ..CounterConfig::default() };
        let layers = || -> Vec<Box<dyn Protocol>> {
            [
                Box::new(Counter::new(config.clone())) as Box<dyn Protocol>,
                Box::new(Entry::new(EntryConfig::default())),
            ]
            .into()
        };
        let solo = |(i, m): (usize, &Uuid)| Solo::topped(i as u64 + 1, *m, layers());
        let members: Vec<Solo> = ids.iter().enumerate().map(solo).collect();
        let results = members.iter().map(|_| Vec::new()).collect();
        Self { members, results, lose: Box::new(|_, _, _| false), last_op: 0 }
    }

    /// Members 0 to `n` - 1 of ours in view 1.
    pub(super) fn new(n: u64) -> Self {
        let ids: Vec<Uuid> = (1..=n).map(ours).collect();
        let mut g = Self::of(&ids, 1);
        let all: Vec<usize> = (0..ids.len()).collect();
        g.install(1, &all);
        g
    }

    pub(super) fn id(&self, i: usize) -> Uuid {
        self.members[i].stack.local()
    }

    pub(super) fn view(&self, number: u64, who: &[usize]) -> View {
        let ids: Vec<Uuid> = who.iter().map(|i| self.id(*i)).collect();
        View::new(number, ids[0], ids)
    }

    pub(super) fn install(&mut self, number: u64, who: &[usize]) {
        let view = self.view(number, who);
        self.install_view(view, who);
    }

    pub(super) fn install_view(&mut self, view: View, who: &[usize]) {
        let view = Arc::new(view);
        for i in who {
            self.members[*i].install(Arc::clone(&view));
        }
        self.step();
    }

    pub(super) fn ask(&mut self, i: usize, action: CounterAction) -> OpId {
        self.last_op += 1;
        let op = OpId(self.last_op);
        let timeout = Some(5 * SECOND);
        let call = CounterCall { op, name: "c".into(), initial: 0, action, timeout };
        let now = self.members[i].now;
        self.members[i].stack.submit(now, Command::Counter(call));
        self.step();
        op
    }

    pub(super) fn add(&mut self, i: usize) -> OpId {
        self.ask(i, CounterAction::AddAndGet(1))
    }

    pub(super) fn get(&mut self, i: usize) -> i64 {
        let op = self.ask(i, CounterAction::Get);
        match self.result(i, op) {
            Some(Ok(value)) => *value,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn step(&mut self) {
        exchange(&mut self.members, &mut self.lose);
        self.drain();
    }

    pub(super) fn run(&mut self, d: Duration) {
        pass_time(&mut self.members, d, &mut self.lose);
        self.drain();
    }

    pub(super) fn drain(&mut self) {
        for (member, results) in self.members.iter_mut().zip(&mut self.results) {
            for ev in member.told() {
                if let AppEvent::Resolved { op, result: SendResult::Counted(result) } = ev {
                    results.push((op, result));
                }
            }
        }
    }

    pub(super) fn result(&self, i: usize, op: OpId) -> Option<&Result<i64, CounterFailure>> {
        self.results[i].iter().find(|(o, _)| *o == op).map(|(_, r)| r)
    }

    pub(super) fn value(&self, i: usize, op: OpId) -> Option<i64> {
        self.result(i, op).map(|r| *r.as_ref().expect("it was done"))
    }

    /// Nothing gets from the first to the second any more.
    pub(super) fn cut(&mut self, from: usize, to: usize) {
        let (from, to) = (self.id(from), self.id(to));
        self.lose = Box::new(move |f, t, _| (f, t) == (from, to));
    }

    pub(super) fn heal(&mut self) {
        self.lose = Box::new(|_, _, _| false);
    }

    pub(super) fn claim(&mut self, i: usize, primacy: Primacy) {
        let until = self.members[i].now + 3600 * SECOND;
        let claim = PrimaryClaim { primacy, until, minority: Minority::Report };
        self.members[i].stack.inject_change(GroupChange::Primary(claim));
        self.members[i].event_up(Event::Primary(primacy));
    }

    pub(super) fn gauge(&self, i: usize, name: &str) -> u64 {
        let mut found = None;
        self.members[i].stack.inspect(&mut |l, n, v| {
            if l == "COUNTER" && n == name {
                found = Some(v);
            }
        });
        found.expect("the gauge exists")
    }
}
