//! The codes of errors and warnings: what they mean, and the number by which JGroups says the same.
//! A code keeps its meaning for ever; one that is no longer used is not given to something else.

/// One code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Code {
    /// Such as `RG0301`.
    pub code: &'static str,
    /// JGroups' number, where the meaning is the same.
    pub jgrp: Option<&'static str>,
    /// What happened.
    pub meaning: &'static str,
    /// What to try.
    pub remedy: &'static str,
}

/// The entry of a code.
#[must_use]
pub fn find(code: &str) -> Option<&'static Code> {
    ALL.iter().find(|c| c.code == code)
}

const fn code(
    code: &'static str,
    jgrp: Option<&'static str>,
    meaning: &'static str,
    remedy: &'static str,
) -> Code {
    Code { code, jgrp, meaning, remedy }
}

/// All codes, in order. `RG01…` is configuration, `RG02…` the host, `RG03…` joining and leaving,
/// `RG04…` sending and what peers send, `RG06…` state, `RG08…` calls of methods, `RG09…`
/// counters, `RG10…` maps.
pub const ALL: &[Code] = &[
    code("RG0100", None, "unknown protocol", "the message names the nearest one"),
    code(
        "RG0101",
        Some("JGRP000001"),
        "unknown attribute of a protocol",
        "the message names the nearest one; `config explain PROTOCOL` lists all",
    ),
    code(
        "RG0102",
        None,
        "a value that the attribute cannot have",
        "the message says what it takes",
    ),
    code("RG0103", None, "a cluster name that is empty or too long", "1 to 32767 bytes"),
    code("RG0104", None, "protocols that do not fit together", "the message says which, and why"),
    code("RG0105", None, "a protocol that does not exist here", "the message names another"),
    code("RG0106", None, "a file that is not well formed", "the message shows the place"),
    code("RG0107", None, "a property without an end or without a value", "${name:default}, or -D"),
    code("RG0108", None, "a file that cannot be read", "the message says why"),
    code("RG0109", None, "values that contradict each other", "the message shows both"),
    code("RG0110", None, "a value that JGroups reads in an unexpected way", "write it plainly"),
    code("RG0111", None, "an attribute without meaning here", "nothing: it is accepted"),
    code("RG0112", None, "a protocol that is accepted and left out", "nothing"),
    code("RG0113", None, "an obsolete attribute", "remove it"),
    code(
        "RG0114",
        None,
        "a value that has no effect, or cannot be had, here",
        "the message says why",
    ),
    code(
        "RG0115",
        None,
        "an element in a place where it does not belong",
        "the message says where",
    ),
    code(
        "RG0201",
        None,
        "an address or port that cannot be bound",
        "`rgroups doctor`; set bind_addr, bind_port or port_range",
    ),
    code("RG0202", None, "the system refused a thread or randomness", "limits of the process"),
    code(
        "RG0203",
        None,
        "questions (diagnostics) cannot be answered; the member works",
        "another diag.port, or diag.bind_interfaces",
    ),
    code("RG0301", None, "could not join", "`rgroups doctor --cluster NAME`"),
    code("RG0302", None, "no other member was found: first of its group", "`rgroups doctor`"),
    code("RG0303", None, "left without confirmation", "nothing: the others find out by themselves"),
    code(
        "RG0306",
        None,
        "the view is not the primary one of the group",
        "the others go on; it ends with a merge, see docs/partitions.md",
    ),
    code(
        "RG0307",
        None,
        "members have different rules for primary views",
        "give PRIMARY the same policy and quorum everywhere",
    ),
    code(
        "RG0308",
        None,
        "a member is excluded, and who accused it of what",
        "if it lives: its host, or the network to it, is slower than failure detection allows",
    ),
    code(
        "RG0402",
        Some("JGRP000032"),
        "no physical address of a member is known",
        "it is asked for; lasting: `rgroups doctor` on both sides",
    ),
    code(
        "RG0410",
        None,
        "a send waits for credits",
        "the member named reads slowly: speed it up, or raise max_credits",
    ),
    code("RG0411", None, "the channel is closed", ""),
    code("RG0412", None, "the destination is not in the view", ""),
    code("RG0413", None, "a message that the stack cannot carry", "FRAG2 in the stack cuts it"),
    code(
        "RG0414",
        None,
        "the credit of the other members exceeds the memory budget",
        "lower max_credits of MFC and UFC everywhere, or raise the budget",
    ),
    code(
        "RG0415",
        None,
        "whether all survivors have the same last messages of an excluded member is not known",
        "compare them in the application if it matters; a member that was not heard is frozen or gone",
    ),
    code(
        "RG0416",
        None,
        "delivered messages had to go before they were stable",
        "a member reads slowly; more room: a larger STABLE.max_bytes",
    ),
    code(
        "RG0417",
        None,
        "a send waited too long for credit and was given up",
        "the member named reads slowly; slow_member of MFC and UFC says what becomes of such sends",
    ),
    code(
        "RG0418",
        None,
        "a send was refused because the view is not the primary one",
        "wait for Event::Primary; minority of PRIMARY says what becomes of such sends",
    ),
    code(
        "RG0419",
        None,
        "who installs a view may not have delivered the same before it",
        "GMS.view_synchrony=true at every member; where all have it, somebody was frozen or cut off",
    ),
    code(
        "RG0420",
        Some("JGRP000011"),
        "a message of somebody who is not in the view",
        "normal around view changes; lasting: it was excluded and rejoins by MERGE3",
    ),
    code("RG0431", None, "acknowledgements need RSVP", "add RSVP to the stack"),
    code(
        "RG0432",
        None,
        "a synchronous send waits for a JGroups member that may have no RSVP",
        "add RSVP to its stack, or wait at level OnContiguous for longer than STABLE's interval",
    ),
    code(
        "RG0440",
        Some("JGRP000010"),
        "a packet of another version",
        "bring all members to one minor version",
    ),
    code(
        "RG0441",
        Some("JGRP000012"),
        "a message of another cluster on the same address",
        "a multicast address or port of its own for each cluster",
    ),
    code(
        "RG0442",
        None,
        "bytes of a peer that cannot be decoded",
        "another program on the port, or a protocol that this version does not know: \
         `rgroups decode` a capture",
    ),
    code(
        "RG0443",
        None,
        "a message whose sender is no member identity",
        "`rgroups decode` a capture",
    ),
    code("RG0449", None, "something of a peer was dropped", ""),
    code(
        "RG0602",
        None,
        "nobody answered the request for state",
        "read Event::StateRequested somewhere",
    ),
    code("RG0603", None, "the state did not come in time", "more time, or another member"),
    code("RG0604", None, "the state was asked of somebody who is no member", ""),
    code("RG0605", None, "a state is being fetched already", "wait for it"),
    code(
        "RG0606",
        None,
        "states need STATE, STATE_SOCK or STATE_TRANSFER",
        "add one to the stack; the presets have STATE_TRANSFER",
    ),
    code("RG0607", None, "the channel was closed while a state was fetched", ""),
    code(
        "RG0608",
        None,
        "the application took nothing more of a state in parts",
        "read the state to its end",
    ),
    code("RG0609", None, "the state that is being given is no longer wanted", "nothing"),
    code("RG0801", None, "too many calls of one member are unanswered", "wait for some of them"),
    code(
        "RG0802",
        None,
        "arguments or a result that cannot be written or read",
        "give caller and callee the same types",
    ),
    code(
        "RG0803",
        None,
        "a member did not answer a call in time",
        "the message says whether the request had left: else the member reads slowly",
    ),
    code("RG0804", None, "a member left during a call", "whether it was carried out is not known"),
    code(
        "RG0805",
        None,
        "a JGroups member was called with more than values",
        "call_values, which both toolkits understand",
    ),
    code("RG0806", None, "a member has no such method", "give it a handler of this name"),
    code("RG0807", None, "a handler failed", "the message is the handler's"),
    code(
        "RG0808",
        None,
        "a member runs as many requests as it can",
        "handlers that end sooner, or fewer calls at a time",
    ),
    code("RG0809", None, "a member cannot read a request", "the same version everywhere"),
    code(
        "RG0810",
        None,
        "the answer of a member was not awaited",
        "nothing: the call had its answers",
    ),
    code(
        "RG0811",
        None,
        "a member has what a call did as part of its state",
        "nothing: it has just joined, or come back",
    ),
    code("RG0901", None, "the stack has no COUNTER", "add it: config.on_top(\"COUNTER\")"),
    code(
        "RG0902",
        None,
        "no answer about a counter in time",
        "the coordinator has no COUNTER, is slow, or is not in the primary view",
    ),
    code(
        "RG0903",
        None,
        "whether a counter was changed is not known",
        "read it: a JGroups coordinator that is gone may have done it",
    ),
    code("RG0904", None, "the coordinator refused something of a counter", "the message says why"),
    code(
        "RG0905",
        None,
        "too many calls of counters, or a name that is too long",
        "wait for some of them; a shorter name",
    ),
    code("RG0911", None, "the stack has no LOCK", "add it: config.on_top(\"LOCK\")"),
    code(
        "RG0912",
        None,
        "a lock is not to be had in time",
        "somebody else has it: wait for longer",
    ),
    code(
        "RG0913",
        None,
        "a semaphore has another number of permits",
        "all members say the same number while anybody uses it",
    ),
    code(
        "RG0914",
        None,
        "too many locks of one member, or a name that is too long",
        "give some back, or raise LOCK.max_requests; a shorter name",
    ),
    code(
        "RG0915",
        None,
        "a lock was lost before it was given back",
        "see `LockGuard::lost`: somebody else may have had it meanwhile; use the token",
    ),
    code(
        "RG1001",
        None,
        "a map in a stack without SEQUENCER",
        "add it below FRAG2, as config.with_total_order() does; or MapBuilder::unordered",
    ),
    code(
        "RG1002",
        None,
        "the state of the others is no map of values",
        "only boxed numbers, booleans, characters, strings and byte arrays can be taken over",
    ),
    code("RG1003", None, "a key or a value that has no place in a map", "the message says why"),
    code(
        "RG1004",
        None,
        "a change of a map that not all are known to have",
        "it is on its way to them; the message says who",
    ),
    code("RG1005", None, "a map that is being fetched after a merge", "try again"),
    code(
        "RG1006",
        None,
        "the map of the part that goes on after a merge could not be fetched",
        "this member's map differs: leave, and join again",
    ),
];
