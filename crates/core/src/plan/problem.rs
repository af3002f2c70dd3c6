//! What can be wrong with a plan, in words that name the fix.

use crate::Service;
use crate::attributes::{AttrError, Attributes, nearest};
use alloc::string::String;
use core::fmt;

/// Something wrong or doubtful about a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanProblem {
    /// The plan has no protocol of this name.
    NoSuchProtocol {
        /// What was named.
        name: String,
        /// The nearest name in the plan.
        nearest: Option<&'static str>,
    },
    /// An attribute does not exist or cannot have this value.
    Attribute {
        /// Whose.
        protocol: &'static str,
        /// What is wrong.
        error: AttrError,
    },
    /// The plan has no transport at its bottom.
    NoTransport,
    /// More layers than a stack can have.
    TooManyLayers(usize),
    /// The same protocol twice.
    Duplicate {
        /// Which.
        protocol: &'static str,
    },
    /// Two protocols that do the same.
    Rivals {
        /// What both do.
        service: Service,
        /// The lower one.
        first: &'static str,
        /// The upper one.
        second: &'static str,
    },
    /// Two protocols whose headers could not be told apart.
    SameHeaderId {
        /// The id.
        id: i16,
        /// The lower one.
        first: &'static str,
        /// The upper one.
        second: &'static str,
    },
    /// A protocol needs something that nobody offers.
    Missing {
        /// Who needs it.
        protocol: &'static str,
        /// What.
        service: Service,
        /// Whether it is needed below (or else above).
        below: bool,
    },
    /// A protocol needs something that is there, but on the wrong side of it.
    WrongOrder {
        /// Who needs it.
        protocol: &'static str,
        /// Who offers it.
        other: &'static str,
        /// Whether it is needed below (or else above).
        below: bool,
    },
    /// The custom protocol calls itself otherwise than the plan.
    NameDiffers {
        /// In the plan.
        plan: &'static str,
        /// In its spec.
        spec: &'static str,
    },
    /// A value, or two that do not fit together.
    BadSetting {
        /// What is wrong and how to mend it, in one sentence.
        what: String,
    },
    /// It works, but hardly as meant.
    Doubtful {
        /// What, in one sentence.
        what: String,
    },
}

impl PlanProblem {
    /// Whether the stack can be built nevertheless.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        matches!(self, PlanProblem::Doubtful { .. })
    }

    pub(super) fn no_such_attribute(
        protocol: &'static str,
        attribute: &str,
        of: Option<&dyn Attributes>,
    ) -> Self {
        let names = of.map_or(&[][..], Attributes::list).iter().map(|a| a.name);
        let nearest = nearest(attribute, names);
        PlanProblem::Attribute {
            protocol,
            error: AttrError::Unknown { name: attribute.into(), nearest },
        }
    }
}

impl fmt::Display for PlanProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |below: &bool| if *below { "below" } else { "above" };
        match self {
            PlanProblem::NoSuchProtocol { name, nearest: Some(n) } => {
                write!(f, "the stack has no protocol {name:?}; did you mean {n}?")
            }
            PlanProblem::NoSuchProtocol { name, nearest: None } => {
                write!(f, "the stack has no protocol {name:?}")
            }
            PlanProblem::Attribute { protocol, error } => write!(f, "{protocol}: {error}"),
            PlanProblem::NoTransport => {
                write!(f, "the lowest protocol must be a transport: UDP, TCP or SHARED_LOOPBACK")
            }
            PlanProblem::TooManyLayers(n) => {
                write!(f, "{n} protocols are more than a stack can have (254)")
            }
            PlanProblem::Duplicate { protocol } => write!(f, "{protocol} is in the stack twice"),
            PlanProblem::Rivals { service, first, second } => {
                write!(f, "{first} and {second} both provide {service:?}; remove one")
            }
            PlanProblem::SameHeaderId { id, first, second } => {
                write!(f, "{first} and {second} both use header id {id}")
            }
            PlanProblem::Missing { protocol, service, below } => {
                write!(
                    f,
                    "{protocol} needs a protocol that provides {service:?} {} it",
                    side(below)
                )
            }
            PlanProblem::WrongOrder { protocol, other, below } => {
                write!(f, "{other} must be {} {protocol}", side(below))
            }
            PlanProblem::NameDiffers { plan, spec } => {
                write!(f, "the protocol named {plan} in the plan calls itself {spec}")
            }
            PlanProblem::BadSetting { what } | PlanProblem::Doubtful { what } => f.write_str(what),
        }
    }
}

impl core::error::Error for PlanProblem {}
