//! Deliberately wrong protocols. Each is switched on by name in a stack that the simulator builds
//! (`Stack::enable_mutant`), and each must be caught by an oracle. Compiled only with the feature
//! `mutants`.

use crate::Cx;
use crate::wire::SeqnoPair;

/// A fault that somebody could have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    /// GMS installs views at once: nobody repairs tails.
    TailsNotRepaired,
    /// In tail repair, whoever decides does so at once, whatever the others have.
    ReportsNotAwaited,
    /// GMS installs a view that waits for tail repair when another one takes its place.
    ReplacedViewInstalled,
    /// With view synchrony, what the others send is delivered while a view waits.
    NotHeldBackForView,
    /// With view synchrony, whoever decides takes what it has of the others for all that they sent.
    SurvivorsNotAsked,
    /// A part of a split group hands members into a merge that did not answer.
    SilentMergedIn,
    /// Members hand a digest into a merge that is ahead of what they sent.
    MergeDigestTooHigh,
    /// Members hand a digest into a merge that does not cover what they sent before it.
    MergeDigestTooLow,
    /// Who gives its state says with it what it has delivered by then, not what it had at the cut.
    StateCutTooLate,
    /// VERIFY_SUSPECT2 does not withdraw a suspicion of who answers.
    SuspicionKept,
    /// VERIFY_SUSPECT2 does not wait for an answer.
    SuspicionUnverified,
    /// PRIMARY calls any view primary to which all its members agree.
    MinorityIsPrimary,
    /// SEQUENCER does not forward again what the former sequencer had not ordered.
    ForwardedOnce,
    /// With SEQUENCER every member multicasts its own messages itself, and all deliver them as they come.
    EverybodyOrders,
    /// COUNTER answers before its backups have what it says.
    AnsweredBeforeBackup,
    /// A call goes on waiting for members that a merge brought back.
    MergedTargetsAwaited,
    /// An error counts as one of the values that a call waits for.
    ErrorCountsAsValue,
    /// A call to most of the members is a multicast, which joiners get too.
    SubsetIsMulticast,
    /// COUNTER carries out again what it is asked again.
    RequestsForgotten,
    /// LOCK grants when the first member of a view has said what it holds.
    ClaimsNotAwaited,
    /// LOCK keeps what it holds when it can no longer trust its view to be the primary one.
    LockOutlivesLease,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 25] = [
        Mutant::CreditsGrantedTwice,
        Mutant::WindowPurgedTooEarly,
        Mutant::ViewSkipped,
        Mutant::DeltaOnWrongBase,
        Mutant::TailsNotRepaired,
        Mutant::ReportsNotAwaited,
        Mutant::ReplacedViewInstalled,
        Mutant::NotHeldBackForView,
        Mutant::SurvivorsNotAsked,
        Mutant::SilentMergedIn,
        Mutant::MergeDigestTooHigh,
        Mutant::MergeDigestTooLow,
        Mutant::StateCutTooLate,
        Mutant::SuspicionKept,
        Mutant::SuspicionUnverified,
        Mutant::MinorityIsPrimary,
        Mutant::ForwardedOnce,
        Mutant::EverybodyOrders,
        Mutant::AnsweredBeforeBackup,
        Mutant::MergedTargetsAwaited,
        Mutant::ErrorCountsAsValue,
        Mutant::SubsetIsMulticast,
        Mutant::RequestsForgotten,
        Mutant::ClaimsNotAwaited,
        Mutant::LockOutlivesLease,
    ];

    /// Its name on command lines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mutant::CreditsGrantedTwice => "credits-granted-twice",
            Mutant::WindowPurgedTooEarly => "window-purged-too-early",
            Mutant::ViewSkipped => "view-skipped",
            Mutant::DeltaOnWrongBase => "delta-on-wrong-base",
            Mutant::TailsNotRepaired => "tails-not-repaired",
            Mutant::ReportsNotAwaited => "reports-not-awaited",
            Mutant::ReplacedViewInstalled => "replaced-view-installed",
            Mutant::NotHeldBackForView => "not-held-back-for-view",
            Mutant::SurvivorsNotAsked => "survivors-not-asked",
            Mutant::SilentMergedIn => "silent-merged-in",
            Mutant::MergeDigestTooHigh => "merge-digest-too-high",
            Mutant::MergeDigestTooLow => "merge-digest-too-low",
            Mutant::StateCutTooLate => "state-cut-too-late",
            Mutant::SuspicionKept => "suspicion-kept",
            Mutant::SuspicionUnverified => "suspicion-unverified",
            Mutant::MinorityIsPrimary => "minority-is-primary",
            Mutant::ForwardedOnce => "forwarded-once",
            Mutant::EverybodyOrders => "everybody-orders",
            Mutant::AnsweredBeforeBackup => "answered-before-backup",
            Mutant::MergedTargetsAwaited => "merged-targets-awaited",
            Mutant::ErrorCountsAsValue => "error-counts-as-value",
            Mutant::SubsetIsMulticast => "subset-is-multicast",
            Mutant::RequestsForgotten => "requests-forgotten",
            Mutant::ClaimsNotAwaited => "claims-not-awaited",
            Mutant::LockOutlivesLease => "lock-outlives-lease",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Mutant> {
        Mutant::ALL.into_iter().find(|m| m.name() == name)
    }
}

/// The entry of a member in the digest of a merge, as the mutants have it.
pub(crate) fn merge_digest(e: SeqnoPair, cx: &Cx<'_>) -> SeqnoPair {
    const AHEAD: i64 = 3;
    if cx.mutant(Mutant::MergeDigestTooHigh) {
        return SeqnoPair { delivered: e.delivered + AHEAD, received: e.received + AHEAD };
    }
    match cx.mutant(Mutant::MergeDigestTooLow) {
        true => SeqnoPair::default(),
        false => e,
    }
}
