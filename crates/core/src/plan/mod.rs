//! Which protocols a stack has, bottom first, and how each is configured.
//!
//! A plan is data: it can be changed by JGroups' names ([`StackPlan::set`]), checked
//! ([`StackPlan::validate`], all problems at once) and built. The entry layer is no protocol of the
//! plan: every group's stack has it on top. Its settings go by the name ENTRY.

mod checks;
mod config;
mod diag;
mod presets;
mod problem;

pub use config::{Build, ProtocolConfig};
pub use diag::{DiagConfig, PREFIX as DIAG_PREFIX, Secret};
pub use problem::PlanProblem;

use crate::attributes::{Attributes, ByteSize, nearest};
use crate::protocols::entry::{Entry, EntryConfig};
use crate::protocols::reliable::Nakack2Config;
use crate::protocols::transport::TransportConfig;
use crate::{Protocol, Service, tag};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// A stack to be built.
#[derive(Clone, Debug, Default)]
pub struct StackPlan {
    /// The protocols, bottom first.
    pub protocols: Vec<ProtocolConfig>,
    /// The settings of the entry layer, which is on top of every group's stack.
    pub entry: EntryConfig,
    /// The settings of the diagnostics handler. They are attributes of the transport, named
    /// `diag.enabled` and so on.
    pub diag: DiagConfig,
    /// Changes that could not be made, reported by [`StackPlan::validate`] with the rest.
    mistakes: Vec<PlanProblem>,
}

impl StackPlan {
    /// A plan of these protocols, bottom first.
    #[must_use]
    pub fn new(protocols: impl IntoIterator<Item = ProtocolConfig>) -> Self {
        Self { protocols: protocols.into_iter().collect(), ..Self::default() }
    }

    /// The configuration of a protocol by its name; case does not matter.
    #[must_use]
    pub fn find(&self, protocol: &str) -> Option<&ProtocolConfig> {
        self.protocols.iter().find(|p| p.name().eq_ignore_ascii_case(protocol))
    }

    /// The same, to be changed.
    pub fn find_mut(&mut self, protocol: &str) -> Option<&mut ProtocolConfig> {
        self.protocols.iter_mut().find(|p| p.name().eq_ignore_ascii_case(protocol))
    }

    /// The configuration of the transport, if the plan has one.
    #[must_use]
    pub fn transport(&self) -> Option<TransportConfig> {
        self.protocols.iter().find_map(ProtocolConfig::transport)
    }

    /// The settings of a protocol, or of the entry layer, by its name; case does not matter.
    #[must_use]
    pub fn settings(&self, protocol: &str) -> Option<&dyn Attributes> {
        if protocol.eq_ignore_ascii_case(self.entry.protocol()) {
            return Some(&self.entry);
        }
        self.find(protocol)?.attributes()
    }

    /// The name of an attribute of the diagnostics handler, if it is one of the transport that is
    /// meant.
    fn diag_attribute<'a>(&self, protocol: &str, attribute: &'a str) -> Option<&'a str> {
        let transport = self.find(protocol).is_some_and(|p| p.transport().is_some());
        attribute.strip_prefix(DIAG_PREFIX).filter(|_| transport)
    }

    /// What a member with this stack can do beyond JGroups, as its identity says (see [`crate::tag`]).
    #[must_use]
    pub fn capabilities(&self) -> u8 {
        let of = |p: &ProtocolConfig| match p {
            ProtocolConfig::Nakack2(config) if !config.discard_delivered_msgs => tag::TAIL_REPAIR,
            ProtocolConfig::Stable(_) => tag::REFERENCE_DIGESTS,
            ProtocolConfig::Rsvp(_) => tag::FLUSH,
            ProtocolConfig::Primary(_) => tag::PRIMARY,
            ProtocolConfig::Counter(_) => tag::COUNTS,
            ProtocolConfig::Lock(_) => tag::LOCKS,
            ProtocolConfig::VerifySuspect2(_) | ProtocolConfig::VerifySuspect(_) => tag::VERIFIES,
            _ => 0,
        };
        let all = self.protocols.iter().map(of).fold(0, |all, bit| all | bit);
        let wanted = self.protocols.iter().any(|p| match p {
            ProtocolConfig::Gms(config) => config.view_synchrony,
            _ => false,
        });
        let able = all & tag::TAIL_REPAIR != 0;
        if wanted && able { all | tag::VIEW_SYNCHRONY } else { all }
    }

    /// The value of an attribute, as text.
    pub fn get(&self, protocol: &str, attribute: &str) -> Result<String, PlanProblem> {
        if let Some(name) = self.diag_attribute(protocol, attribute) {
            let value = self.diag.show(name);
            return value.ok_or_else(|| {
                PlanProblem::no_such_attribute(self.diag.protocol(), name, Some(&self.diag))
            });
        }
        let Some(settings) = self.settings(protocol) else {
            return Err(match self.find(protocol) {
                Some(custom) => PlanProblem::no_such_attribute(custom.name(), attribute, None),
                None => self.no_such(protocol),
            });
        };
        settings.show(attribute).ok_or_else(|| {
            PlanProblem::no_such_attribute(settings.protocol(), attribute, Some(settings))
        })
    }

    /// Sets an attribute from text.
    pub fn set(&mut self, protocol: &str, attribute: &str, value: &str) -> Result<(), PlanProblem> {
        if let Some(name) = self.diag_attribute(protocol, attribute) {
            let protocol = self.diag.protocol();
            let set = self.diag.set(name, value);
            return set.map_err(|error| PlanProblem::Attribute { protocol, error });
        }
        let missing = self.no_such(protocol);
        let settings: &mut dyn Attributes = if protocol.eq_ignore_ascii_case(self.entry.protocol())
        {
            &mut self.entry
        } else {
            let config = self.find_mut(protocol).ok_or(missing)?;
            let name = config.name();
            config
                .attributes_mut()
                .ok_or_else(|| PlanProblem::no_such_attribute(name, attribute, None))?
        };
        let protocol = settings.protocol();
        settings.set(attribute, value).map_err(|error| PlanProblem::Attribute { protocol, error })
    }

    /// With this attribute set; a mistake is reported by [`StackPlan::validate`].
    #[must_use]
    pub fn with(mut self, protocol: &str, attribute: &str, value: &str) -> Self {
        if let Err(problem) = self.set(protocol, attribute, value) {
            self.mistakes.push(problem);
        }
        self
    }

    /// With this configuration in the place of the one of the same protocol.
    #[must_use]
    pub fn replace(mut self, config: impl Into<ProtocolConfig>) -> Self {
        let config = config.into();
        match self.find_mut(config.name()) {
            Some(old) => *old = config,
            None => self.mistakes.push(self.no_such(config.name())),
        }
        self
    }

    /// Without this protocol.
    #[must_use]
    pub fn without(mut self, protocol: &str) -> Self {
        match self.position(protocol) {
            Some(i) => drop(self.protocols.remove(i)),
            None => self.mistakes.push(self.no_such(protocol)),
        }
        self
    }

    /// With `config` directly above `protocol`.
    #[must_use]
    pub fn insert_above(mut self, protocol: &str, config: impl Into<ProtocolConfig>) -> Self {
        match self.position(protocol) {
            Some(i) => self.protocols.insert(i + 1, config.into()),
            None => self.mistakes.push(self.no_such(protocol)),
        }
        self
    }

    /// With `config` directly below `protocol`.
    #[must_use]
    pub fn insert_below(mut self, protocol: &str, config: impl Into<ProtocolConfig>) -> Self {
        match self.position(protocol) {
            Some(i) => self.protocols.insert(i, config.into()),
            None => self.mistakes.push(self.no_such(protocol)),
        }
        self
    }

    /// Everything that is wrong or doubtful, at once.
    #[must_use]
    pub fn validate(&self) -> Vec<PlanProblem> {
        let mut problems = self.mistakes.clone();
        checks::check(self, &mut problems);
        problems
    }

    /// The protocols, bottom first, with the entry layer on top of a group's stack. Warnings do
    /// not prevent it.
    pub fn build(&self) -> Result<Vec<Box<dyn Protocol>>, Vec<PlanProblem>> {
        let errors: Vec<PlanProblem> =
            self.validate().into_iter().filter(|p| !p.is_warning()).collect();
        if !errors.is_empty() {
            return Err(errors);
        }
        let mut layers: Vec<Box<dyn Protocol>> =
            self.protocols.iter().map(|p| self.completed(p).build()).collect();
        // Without membership there is no view to send into: the plan's own top layer takes the
        // commands of the application.
        if layers.iter().any(|l| l.spec().provides.contains(&Service::Membership)) {
            layers.push(Box::new(Entry::new(self.entry.clone())));
        }
        Ok(layers)
    }

    /// With what follows from the configuration of other protocols.
    fn completed(&self, config: &ProtocolConfig) -> ProtocolConfig {
        match config {
            ProtocolConfig::Nakack2(c) if c.own_limit.0 == 0 => {
                let own_limit = ByteSize(self.own_limit());
                Nakack2Config { own_limit, ..c.clone() }.into()
            }
            other => other.clone(),
        }
    }

    /// What may be multicast before some of it must be stable: one round that is complete, one that
    /// is not, one that was lost, and what is on its way. 0 if there are no rounds by volume.
    fn own_limit(&self) -> u64 {
        let (mut round, mut credits) = (0u64, 0u64);
        for p in &self.protocols {
            match p {
                ProtocolConfig::Stable(c) => round = c.max_bytes.0,
                ProtocolConfig::Mfc(c) => credits = c.max_credits.0,
                _ => {}
            }
        }
        match round {
            0 => 0,
            _ => round.saturating_mul(3).saturating_add(credits.saturating_mul(2)),
        }
    }

    fn position(&self, protocol: &str) -> Option<usize> {
        self.protocols.iter().position(|p| p.name().eq_ignore_ascii_case(protocol))
    }

    fn no_such(&self, protocol: &str) -> PlanProblem {
        let names = self.protocols.iter().map(ProtocolConfig::name);
        PlanProblem::NoSuchProtocol { name: protocol.into(), nearest: nearest(protocol, names) }
    }
}

#[cfg(test)]
mod tests;
