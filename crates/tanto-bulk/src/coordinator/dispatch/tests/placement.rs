//! Tests of the choice of a client.

use super::*;
use crate::coordinator::dispatch::placement::MAX_CANDIDATES;

/// Connects a client and has it ask for work.
fn join(dispatch: &mut Dispatch, number: u64, hello: &Hello) -> usize {
    let environment = Environment::new();
    dispatch.hello(0, &token(&hello.name), hello, &environment, connection_id(number)).unwrap();
    ask(dispatch, 0, number, hello, 1);
    dispatch.find_client(&hello.name, &hello.name).unwrap()
}

fn ask(dispatch: &mut Dispatch, now_ms: i64, number: u64, hello: &Hello, request: u64) {
    let request =
        WorkRequest { memory_kib: hello.memory_kib, disk_kib: hello.disk_kib, ..work(number, request, hello.slots) };
    dispatch.work(now_ms, &token(&hello.name), &request, number).unwrap();
}

fn with(package: PackageId, memory: u64, disk: u64) -> PackageNeeds<'static> {
    PackageNeeds { usage: ResourceNeeds { memory_kib: memory * GIB, disk_kib: disk * GIB }, ..needs(package) }
}

fn remote(client: usize) -> Option<ClientIndex> {
    Some(ClientIndex::Remote(client))
}

#[test]
fn memory_and_disk_of_each_client_count() {
    let mut dispatch = dispatch();
    join(&mut dispatch, 1, &Hello { memory_kib: 9 * GIB, ..hello("builder-2", 1, &[]) });
    join(&mut dispatch, 2, &Hello { memory_kib: 32 * GIB, slots: 1, disk_kib: 40 * GIB, ..hello("big", 1, &[]) });
    assert_eq!(dispatch.choose(0, &with(1, 14, 31)), remote(1));
    dispatch.offer(0, 1, 1, lease(1, 1), TERMS);
    assert_eq!(dispatch.choose(0, &with(2, 14, 31)), None);
    let text = "waiting for a client with 14.0 GiB of memory and 31.0 GiB of disk; builder-2 has 9.0 GiB free";
    assert_eq!(dispatch.why_not(0, &with(2, 14, 31), &[]), text);
    assert_eq!(dispatch.choose(0, &with(3, 9, 101)), None);
    assert!(dispatch.why_not(0, &with(3, 9, 101), &[]).ends_with("builder-2 has 100.0 GiB of disk free"));
    assert_eq!(dispatch.choose(0, &with(4, 9, 100)), remote(0));
}

#[test]
fn the_estimate_counts_the_attempts_that_have_to_end() {
    let mut dispatch = dispatch();
    join(&mut dispatch, 1, &Hello { slots: 3, ..hello("a", 1, &[]) });
    let terms = LeaseTerms { needs: with(1, 4, 0).usage, ..TERMS };
    for package in [1, 2] {
        assert_eq!(dispatch.choose(0, &with(package, 4, 0)), remote(0));
        dispatch.offer(0, 0, package, lease(u64::from(package), 1), terms);
    }
    let attempt = |package, left_ms| RunningAttempt { package, client: ClientIndex::Remote(0), left_ms };
    let both = [attempt(1, Some(22 * MINUTE)), attempt(2, Some(50 * MINUTE))];
    let why = |dispatch: &Dispatch, needs: &PackageNeeds<'_>, running: &[RunningAttempt]| {
        let why = dispatch.why_not(0, needs, running);
        why.split_once(" (in about ").map(|(_, time)| time.to_owned())
    };
    let some = |time: &str| Some(format!("{time})"));
    assert_eq!(why(&dispatch, &with(3, 12, 0), &both), some("22 min"));
    assert_eq!(why(&dispatch, &with(3, 13, 0), &both), some("50 min"));
    assert_eq!(why(&dispatch, &with(3, 8, 0), &both), None, "it fits: it is only not its turn");
    assert_eq!(why(&dispatch, &with(3, 13, 0), &[both[0], attempt(2, None)]), None, "an end is unknown");
    assert_eq!(why(&dispatch, &with(3, 12, 0), &[both[1], attempt(1, None)]), some("50 min"));
    let elsewhere = [attempt(1, Some(MINUTE)), RunningAttempt { client: ClientIndex::Local(0), ..both[0] }];
    assert_eq!(why(&dispatch, &with(3, 16, 0), &elsewhere), some("22 min"), "a slot of this machine is enough");
}

#[test]
fn expected_usage_of_leases_is_taken_from_the_free_memory() {
    let mut dispatch = dispatch();
    join(&mut dispatch, 1, &hello("a", 1, &[]));
    let terms = LeaseTerms { needs: with(1, 10, 0).usage, ..TERMS };
    assert_eq!(dispatch.choose(0, &with(1, 10, 0)), remote(0));
    dispatch.offer(0, 0, 1, lease(1, 1), terms);
    assert_eq!([6, 7].map(|memory| dispatch.choose(0, &with(2, memory, 0))), [remote(0), None]);
    let used = LeaseProgress { memory_kib: 4 * GIB, ..progress(1, "build", 1) };
    let beat = Heartbeat { memory_kib: 12 * GIB, ..heartbeat(1, 1, vec![used]) };
    dispatch.heartbeat(0, &token("a"), &beat).unwrap();
    assert_eq!([6, 7].map(|memory| dispatch.choose(0, &with(2, memory, 0))), [remote(0), None]);
}

#[test]
fn package_that_fits_nowhere_is_built_alone() {
    let mut dispatch = dispatch();
    join(&mut dispatch, 1, &Hello { memory_kib: 8 * GIB, ..hello("small", 1, &[]) });
    join(&mut dispatch, 2, &hello("large", 1, &[]));
    assert_eq!(dispatch.choose(0, &with(1, 64, 0)), remote(1));
    dispatch.offer(0, 1, 2, lease(1, 1), TERMS);
    assert_eq!(dispatch.choose(0, &with(1, 64, 0)), None);
}

#[test]
fn labels_and_users_are_required() {
    let mut dispatch = dispatch();
    let labels = ["big".to_owned()];
    let big = PackageNeeds { labels: &labels, ..needs(1) };
    let root = PackageNeeds { root: true, this_machine: ThisMachine::Never, ..needs(2) };
    assert_eq!(dispatch.why_not(0, &root, &[]), "waiting for a client to connect");
    join(&mut dispatch, 1, &hello("a", 1, &[]));
    assert_eq!([big, root].map(|needs| dispatch.choose(0, &needs)), [None, None]);
    assert_eq!(dispatch.why_not(0, &big, &[]), "waiting for a client with the label big");
    assert_eq!(dispatch.why_not(0, &root, &[]), "waiting for a client that builds as root");
    join(&mut dispatch, 2, &Hello { labels: labels.to_vec(), ..hello("b", 1, &[]) });
    join(&mut dispatch, 3, &Hello { root: true, ..hello("c", 1, &[]) });
    assert_eq!([big, root].map(|needs| dispatch.choose(0, &needs)), [remote(1), remote(2)]);
}

#[test]
fn package_that_many_need_waits_for_a_trusted_client() {
    let mut dispatch = dispatch();
    let (names, labels) = (["b".to_owned(), "c".to_owned()], ["big".to_owned()]);
    let wide = PackageNeeds { trusted: Some(&names), this_machine: ThisMachine::Never, ..needs(1) };
    let big = PackageNeeds { labels: &labels, ..wide };
    join(&mut dispatch, 1, &Hello { labels: labels.to_vec(), ..hello("a", 1, &[]) });
    assert_eq!([wide, big].map(|needs| dispatch.choose(0, &needs)), [None, None]);
    for needs in [wide, big] {
        assert_eq!(dispatch.why_not(0, &needs, &[]), "waiting for a trusted client");
    }
    let here = PackageNeeds { this_machine: ThisMachine::Now, ..wide };
    assert_eq!(dispatch.why_not(0, &here, &[]), "waiting for a trusted client, or a free slot of this machine");
    join(&mut dispatch, 2, &Hello { slots: 1, ..hello("b", 1, &[]) });
    assert_eq!([wide, big].map(|needs| dispatch.choose(0, &needs)), [remote(1), None]);
    dispatch.offer(0, 1, 1, lease(1, 1), TERMS);
    let other = PackageNeeds { package: 2, ..wide };
    assert_eq!(dispatch.choose(0, &other), None);
    assert!(dispatch.why_not(0, &other, &[]).starts_with("waiting for a trusted client with a free slot"));
    assert_eq!(dispatch.choose(0, &needs(3)), remote(0), "others are for all");
}

#[test]
fn fastest_client_is_best() {
    let mut dispatch = dispatch();
    for (number, name) in (1..).zip(["a", "b", "c"]) {
        join(&mut dispatch, number, &hello(name, 1, &[]));
    }
    assert_eq!(dispatch.choose(0, &needs(1)), remote(0));
    dispatch.record_success(ClientIndex::Remote(1), 1_000_000, 500_000);
    dispatch.record_success(ClientIndex::Remote(0), 1_000_000, 2_000_000);
    assert_eq!(dispatch.choose(0, &needs(1)), remote(1));
    dispatch.drain(1, true);
    assert_eq!(dispatch.choose(0, &needs(1)), remote(2));
    assert_eq!(dispatch.clients()[0].speed(), 615);
}

#[test]
fn excluded_client_is_the_last_resort() {
    let mut dispatch = dispatch();
    join(&mut dispatch, 1, &hello("a", 1, &[]));
    let excluded = [ClientIndex::Remote(0)];
    let here = PackageNeeds { excluded: &excluded, ..needs(1) };
    assert_eq!(dispatch.choose(0, &here), None, "it waits for a slot of this machine");
    assert_eq!(dispatch.choose(0, &PackageNeeds { this_machine: ThisMachine::Later, ..here }), None);
    let needs = PackageNeeds { this_machine: ThisMachine::Never, ..here };
    assert_eq!(dispatch.choose(0, &needs), remote(0));
    let busy = Hello { slots: 0, ..hello("b", 1, &[]) };
    join(&mut dispatch, 2, &busy);
    assert_eq!(dispatch.choose(0, &needs), None, "it waits for the other");
}

#[test]
fn client_with_machine_failures_is_disabled() {
    let mut dispatch = dispatch();
    join(&mut dispatch, 1, &hello("a", 1, &[]));
    let failures = [1, 2, 2, 3, 4].map(|package| dispatch.record_machine_failure(ClientIndex::Remote(0), package));
    assert_eq!(failures, [false, false, false, true, false]);
    assert_eq!((dispatch.has_free(), dispatch.choose(0, &needs(1))), (false, None));
    assert!(dispatch.take_answers(MINUTE, "")[0].1.as_ref().unwrap().reason.contains("disabled"));
}

#[test]
fn restricted_package_waits_for_a_long_lived_client() {
    let mut dispatch = dispatch();
    join(&mut dispatch, 1, &hello("a", 1, &[]));
    let late = hello("b", 1, &[]);
    let hour = 60 * MINUTE;
    dispatch.hello(MINUTE, &token("b"), &late, &Environment::new(), connection_id(2)).unwrap();
    ask(&mut dispatch, MINUTE, 2, &late, 1);
    let needs = PackageNeeds { long_lived: true, this_machine: ThisMachine::Now, ..needs(1) };
    dispatch.record_success(ClientIndex::Remote(1), 1_000_000, 1);
    assert_eq!(dispatch.choose(MINUTE, &needs), remote(0), "the oldest counts while none is old");
    assert_eq!(dispatch.choose(hour, &needs), remote(0));
    assert_eq!(dispatch.choose(hour + MINUTE, &needs), remote(1), "both are old, and it is faster");
}

#[test]
fn large_package_is_not_overtaken_forever() {
    let mut dispatch = dispatch();
    let client = hello("a", 1, &[]);
    join(&mut dispatch, 1, &client);
    let terms = LeaseTerms { needs: with(0, 4, 0).usage, ..TERMS };
    assert_eq!(start(&mut dispatch, 0, 100, 100), Some(0));
    let mut small = 0;
    for minute in 1..30_u64 {
        let now = minute as i64 * MINUTE;
        let beat = heartbeat(1, minute, vec![]);
        dispatch.heartbeat(now, &token("a"), &beat).unwrap();
        if dispatch.choose(now, &with(1, 16, 0)).is_some() {
            assert!((11..=12).contains(&minute), "{minute}");
            return;
        }
        if dispatch.choose(now, &with(2, 4, 0)).is_some() {
            dispatch.offer(now, 0, 200 + minute as PackageId, lease(200 + minute, 1), terms);
            dispatch.take_answers(now, "");
            small += 1;
        }
        // All leases but the newest end.
        for id in dispatch.open_leases(0) {
            if dispatch.leases[&id].began_ms < now {
                dispatch.supersede(id);
            }
        }
        ask(&mut dispatch, now, 1, &client, minute + 1);
    }
    unreachable!("{small} small packages overtook the large one");
}

#[test]
fn packages_without_a_label_do_not_take_its_client_forever() {
    let mut dispatch = dispatch();
    let labels = ["big".to_owned()];
    let (big, other) = (Hello { labels: labels.to_vec(), slots: 1, ..hello("big", 1, &[]) }, hello("other", 1, &[]));
    join(&mut dispatch, 1, &big);
    join(&mut dispatch, 2, &other);
    dispatch.record_success(ClientIndex::Remote(0), 1_000_000, 1);
    assert_eq!(start(&mut dispatch, 0, 100, 100), Some(0), "it is faster");
    for minute in 1..30_u64 {
        let now = minute as i64 * MINUTE;
        for (number, hello) in [(1, &big), (2, &other)] {
            dispatch.heartbeat(now, &token(&hello.name), &heartbeat(number, minute, vec![])).unwrap();
        }
        // It waits for the client, which gets another package each time it is free.
        if dispatch.choose(now, &PackageNeeds { labels: &labels, ..needs(1) }) == remote(0) {
            assert!((11..=12).contains(&minute), "{minute}");
            return;
        }
        dispatch.open_leases(0).into_iter().for_each(|id| dispatch.supersede(id));
        ask(&mut dispatch, now, 1, &big, minute + 1);
        let found = dispatch.choose(now, &needs(200 + minute as PackageId));
        if found == remote(0) {
            dispatch.offer(now, 0, 200 + minute as PackageId, lease(200 + minute, 1), TERMS);
            dispatch.take_answers(now, "");
        }
        ask(&mut dispatch, now, 2, &other, minute + 1);
    }
    unreachable!("other packages took the client with the label forever");
}

#[test]
fn labels_of_this_machine_count() {
    let labels = ["big".to_owned()];
    let needs = PackageNeeds { labels: &labels, ..needs(1) };
    let with = |labels: &[String]| LocalSlots::new(1).with_labels(labels.to_vec());
    let choose = |slots| Dispatch::new(LeaseTimes::default(), slots, 0).choose(0, &needs);
    assert_eq!([choose(with(&labels)), choose(with(&[]))], [Some(ClientIndex::Local(0)), None]);
}

#[test]
fn this_machine_comes_before_clients_that_are_not_faster() {
    let mut dispatch = Dispatch::new(LeaseTimes::default(), LocalSlots::new(1), 0);
    dispatch.link_up(0);
    assert_eq!(dispatch.choose(0, &needs(1)), Some(ClientIndex::Local(0)));
    join(&mut dispatch, 1, &hello("a", 1, &[]));
    assert_eq!(dispatch.choose(0, &needs(1)), Some(ClientIndex::Local(0)));
    dispatch.local.take(None);
    assert_eq!(dispatch.choose(0, &needs(1)), remote(0));
    dispatch.local.release(0);
    dispatch.record_success(ClientIndex::Remote(0), 1_000_000, 1);
    assert_eq!(dispatch.choose(0, &needs(1)), remote(0));
}

#[test]
fn packages_without_a_free_client_do_not_hold_up_the_others() {
    let mut dispatch = dispatch();
    let labels = ["big".to_owned()];
    join(&mut dispatch, 1, &hello("a", 1, &[]));
    let needs = |package| PackageNeeds { labels: if package < 1_000 { &labels } else { &[] }, ..needs(package) };
    let candidates = dispatch.candidates(0..2_000, needs);
    let expected = (0..MAX_CANDIDATES as PackageId).chain(1_000..1_000 + MAX_CANDIDATES as PackageId);
    assert!(candidates.iter().copied().eq(expected), "{candidates:?}");
    let mut free = candidates.into_iter().filter_map(|package| dispatch.choose(0, &needs(package)));
    assert_eq!(free.next(), remote(0));
}
