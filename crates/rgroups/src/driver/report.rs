//! What a member says about itself.

use crate::Address;
use crate::shared::Shared;
use crate::stats::{Credit, Heard, Inspection, Stability, Suspicion, Window};
use rgroups_core::event::CreditAccount;
use rgroups_core::node::Node;
use rgroups_core::{self as core, Answer, DropReason, Pool, Query, Time, strangers};
use std::net::SocketAddr;
use std::time::Duration;

/// Everything that the protocols report.
pub(crate) fn inspect(node: &Node, shared: &Shared, now: Time) -> Inspection {
    let stack = node.stack();
    let strangers = stack.strangers();
    let heard = |what: String, h: &strangers::Heard| Heard {
        what,
        times: h.times,
        ago: now.since(h.last),
        from: h.from,
    };
    let mut counters = Vec::new();
    node.inspect(&mut |layer, name, value| {
        counters.push((layer.to_owned(), name.to_owned(), value));
    });
    let mut add = |layer: &str, name: &str, value| {
        counters.push((layer.to_owned(), name.to_owned(), value));
    };
    let gauges = shared.gauges();
    gauges.each(&mut |name, value| add("CHANNEL", name, value));
    shared.stats().each(&mut |name, value| add("CHANNEL", name, value));
    add("CHANNEL", "stalled_ms", stack.stalled().as_millis() as u64);
    for why in DropReason::ALL {
        add("DROPPED", why.as_str(), stack.dropped(why));
    }
    let credits = |pool| -> Vec<Credit> {
        match stack.ask(&Query::Credits(pool)) {
            Some(Answer::Credits(list)) => list.into_iter().map(Into::into).collect(),
            _ => Vec::new(),
        }
    };
    let windows = |a| match a {
        Answer::Windows(list) => list,
        _ => Vec::new(),
    };
    let windows = stack.ask_all(&Query::Windows).into_iter().flat_map(windows);
    let stability = match stack.ask(&Query::Stability) {
        Some(Answer::Stability(s)) => Some(Stability {
            waiting_for: s.waiting_for.into_iter().map(Address).collect(),
            held_back: s
                .held_back
                .iter()
                .map(|h| (Address(h.sender), h.oldest, Address(h.by)))
                .collect(),
            oldest: s.oldest.map(|u| (Address(u.sender), u.oldest, now.since(u.since))),
        }),
        _ => None,
    };
    let suspicions = stack.ask_all(&Query::Suspects).into_iter().flat_map(|a| match a {
        Answer::Suspicions(list) => list,
        _ => Vec::new(),
    });
    let suspicions: Vec<Suspicion> = suspicions.map(Suspicion::from).collect();
    let mut suspects: Vec<Address> = suspicions.iter().map(|s| s.member).collect();
    suspects.sort_unstable();
    suspects.dedup();
    Inspection {
        counters,
        multicast_credits: credits(Pool::Multicast),
        unicast_credits: credits(Pool::Unicast),
        windows: windows.map(Window::from).collect(),
        stability,
        suspects,
        suspicions,
        blocked_on: gauges.blocked_on,
        physical: stack.group().addresses.known().map(|(m, at)| (Address(m), at)).collect(),
        protocols: stack.layer_names().map(str::to_owned).collect(),
        dropped: DropReason::ALL
            .into_iter()
            .map(|why| (why.as_str().to_owned(), stack.dropped(why)))
            .filter(|(_, times)| *times > 0)
            .collect(),
        clusters_heard: strangers.clusters.iter().map(|(c, h)| heard(escaped(c), h)).collect(),
        versions_heard: strangers.versions.iter().map(|(v, h)| heard(v.to_string(), h)).collect(),
        outsiders_heard: strangers
            .outsiders
            .iter()
            .map(|(who, h)| heard(shared.label(Address(*who)), h))
            .collect(),
        garbage_heard: strangers.garbage.as_ref().map(|(e, h)| heard(e.to_string(), h)),
    }
}

/// Text of other processes, with nothing in it that a terminal would obey.
pub(super) fn escaped(name: &[u8]) -> String {
    String::from_utf8_lossy(name).escape_debug().to_string()
}

/// Says that this member is the first, what came of its search (`how`), and whom else it heard, as
/// that may be the reason.
pub(crate) fn founded(shared: &Shared, node: &Node, place: SocketAddr, how: &str) {
    let (cluster, member) = (shared.cluster.as_str(), &*shared.name);
    let clusters = &node.stack().strangers().clusters;
    let others: Vec<String> = clusters
        .iter()
        .map(|(c, h)| format!("{} packets of cluster \"{}\"", h.times, escaped(c)))
        .collect();
    let heard = match others.as_slice() {
        [] => String::new(),
        some => format!("; heard {} (not ours)", some.join(", ")),
    };
    tracing::info!(
        // A target of its own, so that programs can show this line and no other.
        target: "rgroups::founded",
        cluster,
        member,
        code = "RG0302",
        "started a new group as coordinator at {place}: {how}; looked at {}{heard}. If others \
         should be there: rgroups doctor",
        shared.asked
    );
}

/// The credit accounts of both pools.
pub(super) fn accounts(node: &Node) -> impl Iterator<Item = CreditAccount> {
    let lists = [Pool::Multicast, Pool::Unicast].into_iter().filter_map(|pool| {
        match node.stack().ask(&Query::Credits(pool)) {
            Some(Answer::Credits(list)) => Some(list),
            _ => None,
        }
    });
    lists.flatten()
}

/// Says who makes a send wait, and how many like it were not told in the time before.
pub(crate) fn blocked(
    shared: &Shared,
    node: &Node,
    by: &[Address],
    since: Duration,
    (untold, within): (u64, Duration),
) {
    let (cluster, member) = (shared.cluster.as_str(), &*shared.name);
    let seconds = since.as_secs_f64();
    let like_it = match untold {
        0 => String::new(),
        n => format!(" ({n} like it in the last {} s)", within.as_secs()),
    };
    if by.contains(&shared.local) {
        let unread = shared.outbox.gauges().2;
        tracing::warn!(
            cluster,
            member,
            code = "RG0410",
            "blocked for {seconds:.1} s by this member itself: nobody polls its Events \
             ({unread} bytes unread). Read them, or drop Events if nobody wants them{like_it}"
        );
        return;
    }
    let accounts: Vec<CreditAccount> = accounts(node).collect();
    let one = |m: &Address| {
        // The poorer of the two accounts is the one that blocks.
        let account = accounts.iter().filter(|a| a.peer == m.0).min_by_key(|a| a.shown);
        match account {
            Some(a) => format!("{} ({} of {} bytes)", shared.label(*m), a.balance, a.max),
            None => shared.label(*m),
        }
    };
    let who = by.iter().map(one).collect::<Vec<_>>().join(", ");
    let slow = shared.labels(by);
    tracing::warn!(
        cluster,
        member,
        code = "RG0410",
        "blocked for {seconds:.1} s: no credits from {who}. Either the application of {slow} is \
         slow to read its events, or the network to it is. Options: speed it up, raise \
         max_credits, or send with NO_FC (unbounded memory there){like_it}"
    );
}

/// Says that survivors may differ in the last messages of former members.
pub(crate) fn tail_unknown(shared: &Shared, of: &[Address]) {
    let (cluster, member) = (shared.cluster.as_str(), &*shared.name);
    tracing::warn!(
        cluster,
        member,
        code = "RG0415",
        "excluded, and whether all that stay have the same last messages of them is not known: {}",
        shared.labels(of)
    );
}

/// Says that a change of the view is not synchronous, although this member wants that.
pub(crate) fn not_synchronous(shared: &Shared, view: core::ViewId) {
    let (cluster, member) = (shared.cluster.as_str(), &*shared.name);
    tracing::warn!(
        cluster,
        member,
        code = "RG0419",
        "who installs view {} may not have delivered the same before it: a member of it has no \
         view_synchrony, or somebody did not answer in time",
        view.id
    );
}

/// Says who is to be excluded, who accused it, and why.
pub(crate) fn suspected(shared: &Shared, s: &core::Suspicion) {
    let (cluster, member) = (shared.cluster.as_str(), &*shared.name);
    let who = |m| shared.label(Address(m));
    tracing::warn!(
        cluster,
        member,
        code = "RG0308",
        "excludes {}, accused by {}: {}. It has not answered since",
        who(s.member),
        if s.by == shared.local.0 { "this member".to_owned() } else { who(s.by) },
        s.why
    );
}

/// Says what is known of the view.
pub(crate) fn primacy(shared: &Shared, view: core::ViewId, primacy: core::Primacy) {
    let (cluster, member) = (shared.cluster.as_str(), &*shared.name);
    let view = view.id;
    match primacy {
        core::Primacy::Yes => {
            tracing::info!(cluster, member, view, "the view is the primary one");
        }
        core::Primacy::No => {
            let code = "RG0306";
            tracing::warn!(cluster, member, code, view, "the view is not the primary one");
        }
        core::Primacy::Unknown => {
            tracing::info!(cluster, member, view, "whether the view is primary is not known");
        }
    }
}

/// Says that no primary view can be agreed on with `other`.
pub(crate) fn primary_rules_differ(shared: &Shared, other: Address) {
    let (cluster, member) = (shared.cluster.as_str(), &*shared.name);
    tracing::warn!(
        cluster,
        member,
        code = "RG0307",
        "{} has another policy or quorum in PRIMARY: no view with it can be primary",
        shared.label(other)
    );
}

/// Says that messages of `of` are kept no longer than until they are delivered.
pub(crate) fn kept_no_longer(shared: &Shared, of: Address) {
    let (cluster, member) = (shared.cluster.as_str(), &*shared.name);
    tracing::warn!(
        cluster,
        member,
        code = "RG0416",
        "delivered messages of {} had to go before everybody has them: there is no room for more. \
         If it dies now, they cannot be had from here",
        shared.label(of)
    );
}

/// Says, once, that a synchronous send waits for a JGroups member that may not answer.
pub(crate) fn may_have_no_rsvp(shared: &Shared, other: Address) {
    let (cluster, member) = (shared.cluster.as_str(), &*shared.name);
    let who = shared.label(other);
    tracing::warn!(
        cluster,
        member,
        code = "RG0432",
        "a send waits for {who}, a JGroups member that has acknowledged nothing so far. If its \
         stack has no RSVP, its acknowledgement at the levels OnReceive and OnContiguous is read \
         from STABLE, which takes up to stable.desired_avg_gossip, and at OnDeliver it stays missing"
    );
}
