//! What a fetched state contains.

use rgroups_core::Uuid;
use std::collections::HashMap;

/// What a fetched state contains: the reader of events leaves it out.
#[derive(Debug)]
pub(crate) struct Cut {
    pub(crate) number: u64,
    upto: HashMap<Uuid, i64>,
}

impl Cut {
    pub(crate) fn new(number: u64, contains: &[(Uuid, i64)]) -> Self {
        Self { number, upto: contains.iter().copied().collect() }
    }

    pub(crate) fn contains(&self, from: Uuid, m: &rgroups_core::Message) -> bool {
        m.numbered(from).is_some_and(|(of, n)| self.contains_number(of, n))
    }

    /// As [`Cut::contains`], of the multicast with this number.
    pub(crate) fn contains_number(&self, from: Uuid, number: i64) -> bool {
        self.upto.get(&from).is_some_and(|upto| number <= *upto)
    }
}
