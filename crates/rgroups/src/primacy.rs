//! Whether a view is the primary one of its group.

use rgroups_core as core;
use std::fmt;

/// What this member says of its view, where the stack has PRIMARY (docs/partitions.md).
///
/// There is never more than one primary view at a time. A member that loses contact with too many
/// others says [`Primacy::Unknown`] before they can go on without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Primacy {
    /// The members have not agreed yet, or this one has no contact with enough of them.
    Unknown,
    /// It is the primary view.
    Yes,
    /// It is not, and will not become it.
    No,
}

impl From<core::Primacy> for Primacy {
    fn from(p: core::Primacy) -> Self {
        match p {
            core::Primacy::Unknown => Primacy::Unknown,
            core::Primacy::Yes => Primacy::Yes,
            core::Primacy::No => Primacy::No,
        }
    }
}

impl fmt::Display for Primacy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Primacy::Unknown => "unknown",
            Primacy::Yes => "yes",
            Primacy::No => "no",
        })
    }
}
