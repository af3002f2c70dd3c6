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
        let Some(upto) = self.upto.get(&from) else { return false };
        rgroups_core::protocols::reliable::multicast_number(m).is_some_and(|n| n <= *upto)
    }
}
