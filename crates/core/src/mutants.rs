//! Deliberately wrong protocols. Each is switched on by name in a stack that the simulator builds
//! (`Stack::enable_mutant`), and each must be caught by an oracle. Compiled only with the feature
//! `mutants`.

/// A fault that somebody could have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Mutant {
    /// MFC and UFC grant what was consumed twice over: receivers are overrun.
    CreditsGrantedTwice,
    /// NAKACK2 purges at every stability what it has delivered, not what is stable.
    WindowPurgedTooEarly,
    /// GMS acknowledges every third view without installing it.
    ViewSkipped,
    /// GMS applies the difference between two views to whatever view it has.
    DeltaOnWrongBase,
}
