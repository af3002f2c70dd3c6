use super::*;

fn passes(profile: Profile, members: usize, seeds: std::ops::Range<u64>) {
    passes_all(&Task::new(profile, members), seeds);
}

fn passes_all(task: &Task, seeds: std::ops::Range<u64>) {
    let summary = run(seeds, std::slice::from_ref(task), 2, &|_| true);
    let told: Vec<String> = summary
        .failures
        .iter()
        .flat_map(|o| {
            let command = task.replay_command(o.seed);
            std::iter::once(command).chain(o.violations.iter().map(ToString::to_string))
        })
        .collect();
    // Panics are silent where simulations run.
    println!("{}", told.join("\n"));
    assert!(
        told.is_empty(),
        "{} of {}:\n{}",
        summary.failures.len(),
        summary.seeds,
        told.join("\n")
    );
}

#[test]
fn the_same_seed_gives_the_same_transcript() {
    for profile in [Profile::Lossy, Profile::Mixed] {
        let task = Task::new(profile, 4);
        let (a, b) = (run_seed(11, &task), run_seed(11, &task));
        assert_eq!(a.transcript_hash, b.transcript_hash, "{profile}");
    }
}

#[test]
fn different_seeds_give_different_transcripts() {
    let task = Task::new(Profile::Lossy, 3);
    assert_ne!(run_seed(1, &task).transcript_hash, run_seed(2, &task).transcript_hash);
}

#[test]
fn parts_and_packets_of_other_sizes_change_no_deliveries() {
    let task = Task::new(Profile::Lan, 4);
    for seed in 1..4 {
        let c = Configuration::draw(seed, &task);
        assert_eq!(packing_changes_nothing(&c), []);
    }
}

#[test]
fn nodes_that_are_heard_but_do_not_hear_break_nothing() {
    passes(Profile::OneWay, 5, 0..3);
}

#[test]
fn a_quiet_network_breaks_nothing() {
    passes(Profile::Lan, 4, 0..3);
}

#[test]
fn a_lossy_network_breaks_nothing() {
    passes(Profile::Lossy, 5, 0..3);
}

#[test]
fn partitions_break_nothing() {
    passes(Profile::Partition, 5, 0..3);
}

#[test]
fn slow_and_frozen_nodes_break_nothing() {
    passes(Profile::Slow, 4, 0..3);
}

#[test]
fn a_cold_start_breaks_nothing() {
    passes(Profile::ColdStart, 6, 0..3);
}

#[test]
fn churn_breaks_nothing() {
    passes(Profile::Churn, 5, 0..3);
}

#[test]
fn states_in_total_order_break_nothing() {
    let task = Task { order: true, states: true, ..Task::new(Profile::Churn, 5) };
    passes_all(&task, 1..12);
}

#[test]
fn everything_together_breaks_nothing() {
    passes(Profile::Mixed, 5, 0..3);
}

#[test]
fn synchronous_sends_break_nothing() {
    for profile in Profile::listed("sends").unwrap() {
        passes_all(&Task { sends: true, ..Task::new(profile, 5) }, 0..1);
    }
}

#[test]
fn synchronous_sends_are_drawn_at_all_levels_with_and_without_time_and_to_some() {
    let task = Task { sends: true, ..Task::new(Profile::Lossy, 5) };
    let all: Vec<_> = (1..9).flat_map(|seed| Configuration::draw(seed, &task).schedule).collect();
    let sent: Vec<_> = all
        .iter()
        .filter_map(|(_, a)| match a {
            Action::Send(_, m) => m.sync.as_ref().map(|s| (s, m)),
            _ => None,
        })
        .collect();
    let levels: std::collections::BTreeSet<_> =
        sent.iter().map(|(s, _)| format!("{:?}", s.level)).collect();
    assert_eq!(levels.len(), 3);
    assert!(sent.iter().any(|(s, _)| s.timeout.is_none()));
    assert!(sent.iter().any(|(s, _)| s.timeout.is_some()));
    assert!(sent.iter().any(|(_, m)| m.to.is_some()));
    let to_some = || sent.iter().filter(|(_, m)| m.among.as_ref().is_some_and(|a| a.len() > 1));
    assert!(to_some().any(|(_, m)| !m.try_only));
    assert!(to_some().any(|(_, m)| m.try_only));
}

#[test]
fn windows_in_place_of_credits_break_nothing() {
    for profile in [Profile::Lossy, Profile::Slow, Profile::Mixed] {
        passes_all(&Task { stack: Stack::Windows, ..Task::new(profile, 5) }, 0..2);
    }
}

#[test]
fn counters_break_nothing() {
    for profile in [Profile::Churn, Profile::Partition, Profile::Slow] {
        passes_all(&Task { counters: true, ..Task::new(profile, 5) }, 0..2);
    }
}

#[test]
fn a_failing_seed_is_repeated_by_one_command() {
    let mut task = Task::new(Profile::Lossy, 5);
    assert_eq!(task.replay_command(42), "rgroups sim replay 42 --profile lossy --members 5");
    task.stack = Stack::Windows;
    assert!(task.replay_command(42).ends_with("--members 5 --stack new"));
    task.counters = true;
    assert!(task.replay_command(42).ends_with("--stack new --counters"));
    task.mutant = Some("credits-granted-twice".into());
    assert!(task.replay_command(42).ends_with("--mutant credits-granted-twice"));
}

#[test]
fn profiles_are_read_by_their_names() {
    for p in Profile::ALL {
        assert_eq!(p.name().parse(), Ok(p));
    }
    assert!("lossi".parse::<Profile>().is_err());
}
