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

impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 4] = [
        Mutant::CreditsGrantedTwice,
        Mutant::WindowPurgedTooEarly,
        Mutant::ViewSkipped,
        Mutant::DeltaOnWrongBase,
    ];

    /// Its name on command lines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mutant::CreditsGrantedTwice => "credits-granted-twice",
            Mutant::WindowPurgedTooEarly => "window-purged-too-early",
            Mutant::ViewSkipped => "view-skipped",
            Mutant::DeltaOnWrongBase => "delta-on-wrong-base",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Mutant> {
        Mutant::ALL.into_iter().find(|m| m.name() == name)
    }
}
