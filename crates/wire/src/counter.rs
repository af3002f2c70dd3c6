//! What members say to each other about counters: the payload under the header of COUNTER, which is
//! empty itself (WIRE §23). The payload of a BytesMessage: one byte says whether it is a request or
//! a response, one which. Matches `COUNTER.requestToBuffer` and `COUNTER.responseToBuffer`.

use crate::address_codec::{decode_addr, encode_addr};
use crate::error::DecodeErrorKind;
use crate::primitive::WriteExt;
use crate::{Address, Decode, Decoded, Encode, Reader, Writer};
use alloc::string::String;
use alloc::vec::Vec;

/// Something said about counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CounterPayload {
    /// To the coordinator: do this, and answer.
    Ask {
        /// Who asks, and its number for it.
        owner: CounterOwner,
        /// About which counter.
        name: String,
        /// What.
        ask: CounterAsk,
    },
    /// From the coordinator to a backup: the counter has this value. It counts if its version is
    /// higher than the known one.
    Update(NamedCounter),
    /// From a new coordinator to all: this is what I have; tell me what is newer.
    Reconcile(Vec<NamedCounter>),
    /// From a new coordinator to all: send me what is not answered.
    ResendPending,
    /// To an asker: it was done.
    Value {
        /// Whose request.
        owner: CounterOwner,
        /// The value; of a comparison, that before it.
        value: i64,
        /// The version.
        version: i64,
    },
    /// To an asker: it was not done.
    Failed {
        /// Whose request.
        owner: CounterOwner,
        /// Why.
        error: Option<String>,
    },
    /// To a new coordinator: this is newer here.
    Newer(Vec<NamedCounter>),
    /// To an asker: what a function of Java's returned, which only Java can read.
    FunctionResult {
        /// Whose request.
        owner: CounterOwner,
    },
}

/// Who asked, and the number of the request there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterOwner {
    /// Who; Java's can be null.
    pub member: Option<Address>,
    /// The number.
    pub request: i64,
}

/// What is asked of the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterAsk {
    /// The value; if there is no such counter there is one from now on, with this value.
    GetOrCreate(i64),
    /// There is no such counter from now on. Java does not answer it.
    Delete,
    /// It has this value.
    Set(i64),
    /// It has the value `update` if it has the value `expected`.
    CompareAndSet {
        /// What it must be.
        expected: i64,
        /// What it becomes.
        update: i64,
    },
    /// It grows by this. 0 changes nothing, not even the version.
    AddAndGet(i64),
    /// A function of Java's, which only Java can carry out.
    Function,
}

/// The value of a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCounter {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: i64,
    /// How often it was changed; 1 when it is new.
    pub version: i64,
}

const REQUEST: u8 = 1;
const RESPONSE: u8 = 2;
/// A name, a value and a version, as short as can be.
const SHORTEST: usize = 3;

/// | bytes | field |
/// |-------|-------|
/// | 1 | 1 request, 2 response |
/// | 1 | which |
/// | … | see WIRE §23 |
impl Encode for CounterPayload {
    fn encode(&self, w: &mut impl Writer) {
        let (kind, which) = self.tags();
        w.u8(kind);
        w.u8(which);
        match self {
            CounterPayload::Ask { owner, name, ask } => {
                owner.encode(w);
                w.str(Some(name));
                match ask {
                    CounterAsk::GetOrCreate(v) | CounterAsk::Set(v) | CounterAsk::AddAndGet(v) => {
                        w.clong(*v);
                    }
                    CounterAsk::CompareAndSet { expected, update } => {
                        w.clong(*expected);
                        w.clong(*update);
                    }
                    CounterAsk::Delete | CounterAsk::Function => {}
                }
            }
            CounterPayload::Update(c) => {
                w.str(Some(&c.name));
                w.clong(c.value);
                w.clong(c.version);
            }
            CounterPayload::Reconcile(list) | CounterPayload::Newer(list) => encode_list(list, w),
            CounterPayload::ResendPending => {}
            CounterPayload::Value { owner, value, version } => {
                owner.encode(w);
                w.clong(*value);
                w.clong(*version);
            }
            CounterPayload::Failed { owner, error } => {
                owner.encode(w);
                w.str(error.as_deref());
            }
            CounterPayload::FunctionResult { owner } => owner.encode(w),
        }
    }
}

impl CounterPayload {
    fn tags(&self) -> (u8, u8) {
        match self {
            CounterPayload::Ask { ask, .. } => (
                REQUEST,
                match ask {
                    CounterAsk::GetOrCreate(_) => 0,
                    CounterAsk::Delete => 1,
                    CounterAsk::Set(_) => 2,
                    CounterAsk::CompareAndSet { .. } => 3,
                    CounterAsk::AddAndGet(_) => 4,
                    CounterAsk::Function => 8,
                },
            ),
            CounterPayload::Update(_) => (REQUEST, 5),
            CounterPayload::Reconcile(_) => (REQUEST, 6),
            CounterPayload::ResendPending => (REQUEST, 7),
            CounterPayload::Value { .. } => (RESPONSE, 0),
            CounterPayload::Failed { .. } => (RESPONSE, 1),
            CounterPayload::Newer(_) => (RESPONSE, 2),
            CounterPayload::FunctionResult { .. } => (RESPONSE, 3),
        }
    }
}

impl Decode for CounterPayload {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        let kind = r.u8("COUNTER kind")?;
        let which = r.u8("COUNTER type")?;
        Ok(match (kind, which) {
            (REQUEST, 0..=4 | 8) => {
                let owner = CounterOwner::decode(r)?;
                let name = read_name(r)?;
                let ask = match which {
                    0 => CounterAsk::GetOrCreate(r.clong("initial value")?),
                    1 => CounterAsk::Delete,
                    2 => CounterAsk::Set(r.clong("value")?),
                    3 => CounterAsk::CompareAndSet {
                        expected: r.clong("expected value")?,
                        update: r.clong("update")?,
                    },
                    4 => CounterAsk::AddAndGet(r.clong("delta")?),
                    _ => {
                        // What follows is an object of Java's.
                        r.rest();
                        CounterAsk::Function
                    }
                };
                CounterPayload::Ask { owner, name, ask }
            }
            (REQUEST, 5) => CounterPayload::Update(NamedCounter {
                name: read_name(r)?,
                value: r.clong("value")?,
                version: r.clong("version")?,
            }),
            (REQUEST, 6) => CounterPayload::Reconcile(decode_list(r)?),
            (REQUEST, 7) => CounterPayload::ResendPending,
            (RESPONSE, 0) => CounterPayload::Value {
                owner: CounterOwner::decode(r)?,
                value: r.clong("value")?,
                version: r.clong("version")?,
            },
            (RESPONSE, 1) => {
                CounterPayload::Failed { owner: CounterOwner::decode(r)?, error: r.str("error")? }
            }
            (RESPONSE, 2) => CounterPayload::Newer(decode_list(r)?),
            (RESPONSE, 3) => {
                let owner = CounterOwner::decode(r)?;
                r.rest();
                CounterPayload::FunctionResult { owner }
            }
            _ => {
                let tag = u32::from(kind) << 8 | u32::from(which);
                return Err(r.error("COUNTER type", DecodeErrorKind::BadTag(tag)));
            }
        })
    }
}

/// addr member, clong request. Matches `Owner.writeTo`.
impl Encode for CounterOwner {
    fn encode(&self, w: &mut impl Writer) {
        encode_addr(self.member.as_ref(), w);
        w.clong(self.request);
    }
}

impl Decode for CounterOwner {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        Ok(CounterOwner { member: decode_addr(r)?, request: r.clong("request number")? })
    }
}

fn read_name(r: &mut Reader) -> Decoded<String> {
    r.str("counter name")?.ok_or_else(|| r.error("counter name", DecodeErrorKind::BadValue))
}

/// i32 count, the names, the values, the versions. Matches `COUNTER.writeReconciliation`.
fn encode_list(list: &[NamedCounter], w: &mut impl Writer) {
    w.i32(list.len() as i32);
    list.iter().for_each(|c| w.str(Some(&c.name)));
    list.iter().for_each(|c| w.clong(c.value));
    list.iter().for_each(|c| w.clong(c.version));
}

fn decode_list(r: &mut Reader) -> Decoded<Vec<NamedCounter>> {
    let n = r.i32("counters")?;
    let n = r.count(i64::from(n), SHORTEST, "counters")?;
    let mut list = Vec::new();
    for _ in 0..n {
        list.push(NamedCounter { name: read_name(r)?, value: 0, version: 0 });
    }
    for c in &mut list {
        c.value = r.clong("value")?;
    }
    for c in &mut list {
        c.version = r.clong("version")?;
    }
    Ok(list)
}
