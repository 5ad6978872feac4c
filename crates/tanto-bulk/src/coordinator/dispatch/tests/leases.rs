//! Tests of leases: confirmation, silence, results, restarts.

use std::collections::BTreeMap;

use tanto_protocol::{Bye, Digest, HelloAnswer, LeaseAction, Refusal, RefusalCode, ResultAnswer};

use super::*;

#[test]
fn refused_clients_are_remembered_until_they_are_accepted() {
    let mut dispatch = dispatch();
    let own: Environment = [("mk.conf".to_owned(), "a".to_owned())].into();
    let say = |dispatch: &mut Dispatch, name: &str, value: &str| {
        let environment = [("mk.conf".to_owned(), value.to_owned())].into();
        let hello = Hello { environment, ..hello(name, 1, &[]) };
        dispatch.hello(0, &token(name), &hello, &own, connection_id(1)).is_ok()
    };
    assert!(!say(&mut dispatch, "a", "b") && !say(&mut dispatch, "a", "c"));
    let refused: Vec<String> = dispatch.refused().map(|it| format!("{} {} {}", it.name, it.roles, it.why)).collect();
    assert_eq!(refused, ["a build mk.conf differs"]);
    assert_eq!(dispatch.refused_for_ms(2_000, &dispatch.refused().next().unwrap().clone()), 2_000);
    assert!(say(&mut dispatch, "a", "a") && dispatch.refused().next().is_none());
    assert!((0..1_000).all(|at| !say(&mut dispatch, &format!("c{at}"), "b")));
    assert_eq!((dispatch.refused().count(), &*dispatch.refused().next().unwrap().name), (64, "c999"));
}

#[test]
fn an_upload_is_progress_and_needs_no_memory() {
    let mut dispatch = dispatch();
    connect(&mut dispatch, 0, "a", 1);
    dispatch.work(0, &token("a"), &work(1, 1, 2), 1).unwrap();
    assert_eq!(start(&mut dispatch, 0, 1, 1), Some(0));
    dispatch.take_answers(0, "");
    let idle = TERMS.idle_ms;
    let mut number = 0;
    let mut beat = |dispatch: &mut Dispatch, now: i64, progress: LeaseProgress| {
        number += 1;
        dispatch.heartbeat(now, &token("a"), &heartbeat(1, number, vec![progress])).unwrap();
        dispatch.tick(now);
        dispatch.lease(lease_id(1)).unwrap().state()
    };
    beat(&mut dispatch, 0, progress(1, "package", 7));
    assert_eq!(dispatch.headroom(0).memory_kib, 15 * GIB, "it is expected to use more");
    for (at, sent_bytes) in [(1, 0), (idle - 1, 10), (2 * idle - 2, 20)] {
        let upload = LeaseProgress { sent_bytes, ..progress(1, "", 7) };
        assert_eq!(beat(&mut dispatch, at, upload), LeaseState::Running, "{at}");
        assert_eq!(dispatch.headroom(0).memory_kib, 16 * GIB);
    }
    let stuck = LeaseProgress { sent_bytes: 20, ..progress(1, "", 7) };
    assert_eq!(beat(&mut dispatch, 3 * idle - 1, stuck), LeaseState::Superseded(Cause::Stuck));
}

#[test]
fn distrusted_client_loses_its_leases_except_reported_ones() {
    let mut dispatch = dispatch();
    connect(&mut dispatch, 0, "a", 1);
    dispatch.work(0, &token("a"), &work(1, 1, 3), 1).unwrap();
    (1..=3).for_each(|number| assert_eq!(start(&mut dispatch, 0, number as PackageId, number), Some(0)));
    dispatch.take_answers(0, "");
    dispatch.heartbeat(0, &token("a"), &heartbeat(1, 1, vec![progress(1, "build", 1)])).unwrap();
    dispatch.result(0, &token("a"), connection_id(1), lease_id(2), Vec::new).unwrap();
    dispatch.take_effects();
    assert_eq!(dispatch.distrust(0), [2]);
    let state = |number| dispatch.lease(lease_id(number)).unwrap().state();
    let withdrawn = LeaseState::Superseded(Cause::Withdrawn);
    assert_eq!([1, 2, 3].map(state), [withdrawn, LeaseState::Reported, withdrawn]);
    let reopened = |effect: &DispatchEffect| matches!(effect, DispatchEffect::Ended { next: NextState::Open, .. });
    assert_eq!(dispatch.take_effects().iter().filter(|effect| reopened(effect)).count(), 2);
    dispatch.accepted(lease_id(2));
    dispatch.work(0, &token("a"), &work(1, 2, 1), 2).unwrap();
    assert_eq!(start(&mut dispatch, 0, 1, 4), None, "it gets no more");
    connect(&mut dispatch, 0, "b", 2);
    dispatch.work(0, &token("b"), &work(2, 1, 1), 3).unwrap();
    assert_eq!(start(&mut dispatch, 0, 1, 5), Some(1));
}

#[test]
fn packages_of_a_silent_client_are_counted() {
    let mut dispatch = dispatch();
    connect(&mut dispatch, 0, "a", 1);
    dispatch.work(0, &token("a"), &work(1, 1, 2), 1).unwrap();
    assert_eq!(start(&mut dispatch, 0, 1, 1), Some(0));
    dispatch.take_answers(0, "");
    dispatch.heartbeat(0, &token("a"), &heartbeat(1, 1, vec![progress(1, "build", 1)])).unwrap();
    dispatch.tick(MINUTE);
    let client = &dispatch.clients()[0];
    assert_eq!((client.is_live(), dispatch.unheard_ms(MINUTE, client)), (false, MINUTE));
    assert_eq!(dispatch.missing(2 * MINUTE, client), (1, 4 * MINUTE));
}
use crate::coordinator::dispatch::lease::{Cause, LeaseState};
use crate::coordinator::dispatch::{ClientWork, DispatchEffect, NextState, RemoteClient};

/// A client `a` (connection 1) that runs package 7 with lease 1 since time 0.
fn running() -> Dispatch {
    let mut dispatch = dispatch();
    connect(&mut dispatch, 0, "a", 1);
    dispatch.work(0, &token("a"), &work(1, 1, 1), 100).unwrap();
    assert_eq!(start(&mut dispatch, 0, 7, 1), Some(0));
    let answers = dispatch.take_answers(0, "");
    assert_eq!(leases_of(answers[0].1.as_ref().unwrap()), [1]);
    beat(&mut dispatch, 0, 1);
    dispatch.take_effects();
    assert_eq!(state(&dispatch, 1), LeaseState::Running);
    dispatch
}

fn state(dispatch: &Dispatch, lease: u64) -> LeaseState {
    dispatch.lease(lease_id(lease)).unwrap().state()
}

fn beat(dispatch: &mut Dispatch, now_ms: i64, number: u64) -> Option<LeaseAction> {
    let beat = heartbeat(1, number, vec![progress(1, "build", 0)]);
    dispatch.heartbeat(now_ms, &token("a"), &beat).unwrap().leases.first().map(|it| it.action.clone())
}

fn result(dispatch: &mut Dispatch, now_ms: i64, missing: Vec<Digest>) -> ResultAnswer {
    dispatch.result(now_ms, &token("a"), connection_id(1), lease_id(1), || missing).unwrap()
}

fn say_hello(dispatch: &mut Dispatch, hello: &Hello, connection: u64) -> Result<HelloAnswer, Refusal> {
    dispatch.hello(0, &token("a"), hello, &Environment::new(), connection_id(connection))
}

/// Causes and consequences of the leases that ended.
fn ends(dispatch: &mut Dispatch) -> Vec<(Cause, NextState)> {
    let effects = dispatch.take_effects().into_iter();
    let ended = effects.filter_map(|it| match it {
        DispatchEffect::Ended { cause, next, .. } => Some((cause, next)),
        _ => None,
    });
    ended.collect()
}

#[test]
fn repeated_request_gets_the_same_answer() {
    let mut dispatch = dispatch();
    connect(&mut dispatch, 0, "a", 1);
    dispatch.work(0, &token("a"), &work(1, 1, 1), 100).unwrap();
    dispatch.work(0, &token("a"), &work(1, 1, 1), 101).unwrap();
    assert!(dispatch.take_answers(19_999, "no").is_empty());
    start(&mut dispatch, 19_999, 7, 1);
    assert!(dispatch.choose(19_999, &needs(8)).is_none(), "the request has one slot");
    let answers = dispatch.take_answers(19_999, "no");
    let leases: Vec<_> = answers.iter().map(|(relayed, it)| (*relayed, leases_of(it.as_ref().unwrap()))).collect();
    assert_eq!(leases, [(100, vec![1]), (101, vec![1])]);
    dispatch.work(20_000, &token("a"), &work(1, 1, 1), 102).unwrap();
    assert_eq!(dispatch.take_answers(20_000, "")[0].1, answers[0].1);
    assert!(matches!(state(&dispatch, 1), LeaseState::Offered { .. }));
    dispatch.work(20_001, &token("a"), &work(1, 2, 0), 103).unwrap();
    assert!(matches!(state(&dispatch, 1), LeaseState::Offered { .. }), "the answer may be lost");
    assert_eq!(dispatch.next_deadline().map(|at| at <= 40_001), Some(true));
    let answer = &dispatch.take_answers(40_001, "nothing is ready")[0];
    assert_eq!((answer.0, &*answer.1.as_ref().unwrap().reason), (103, "nothing is ready"));
}

#[test]
fn unconfirmed_offer_returns() {
    let mut dispatch = dispatch();
    connect(&mut dispatch, 0, "a", 1);
    dispatch.work(0, &token("a"), &work(1, 1, 1), 100).unwrap();
    start(&mut dispatch, 0, 7, 1);
    dispatch.take_answers(0, "");
    dispatch.tick(29_999);
    assert!(matches!(state(&dispatch, 1), LeaseState::Offered { .. }));
    dispatch.tick(30_000);
    assert_eq!(ends(&mut dispatch), [(Cause::Unconfirmed, NextState::Open)]);
    assert_eq!(beat(&mut dispatch, 30_001, 1), Some(LeaseAction::Supersede), "the client has it after all");
    assert_eq!(result(&mut dispatch, 30_002, vec![]), ResultAnswer::Superseded);
}

#[test]
fn missing_lease_reopens_its_package_unless_the_client_returns() {
    let mut dispatch = running();
    dispatch.tick(59_999);
    assert_eq!(state(&dispatch, 1), LeaseState::Running);
    dispatch.tick(60_000);
    let silent = DispatchEffect::Silent { client: ClientIndex::Remote(0), packages: 1, reopen_ms: 5 * MINUTE };
    assert_eq!(dispatch.take_effects(), [silent]);
    assert_eq!(beat(&mut dispatch, 6 * MINUTE - 1, 2), None);
    assert_eq!(state(&dispatch, 1), LeaseState::Running);
    dispatch.tick(7 * MINUTE);
    dispatch.tick(12 * MINUTE - 1);
    assert_eq!(ends(&mut dispatch), []);
    dispatch.tick(12 * MINUTE);
    assert_eq!(ends(&mut dispatch), [(Cause::Silent, NextState::Open)]);
    assert_eq!(beat(&mut dispatch, 12 * MINUTE, 3), Some(LeaseAction::Supersede));
}

#[test]
fn package_waits_longer_for_a_client_that_has_built_for_longer() {
    for (built, waits) in [(1, 5), (20, 5), (60, 15), (100, 25), (300, 30)] {
        let mut dispatch = running();
        (1..=built).for_each(|minute| assert_eq!(beat(&mut dispatch, minute * MINUTE, 1 + minute as u64), None));
        dispatch.tick((built + 1) * MINUTE);
        let waited = dispatch.take_effects().into_iter().find_map(|it| match it {
            DispatchEffect::Silent { reopen_ms, .. } => Some(reopen_ms),
            _ => None,
        });
        assert!((waited.unwrap() - waits * MINUTE).abs() <= MINUTE, "{built}: {waited:?}");
    }
}

#[test]
fn time_without_a_link_does_not_count() {
    let mut dispatch = running();
    dispatch.link_down(50_000);
    dispatch.tick(1_000 * MINUTE);
    assert_eq!((dispatch.next_deadline(), state(&dispatch, 1)), (None, LeaseState::Running));
    dispatch.link_up(1_000 * MINUTE);
    dispatch.tick(1_000 * MINUTE + 9_999);
    assert_eq!(state(&dispatch, 1), LeaseState::Running);
    assert_eq!(dispatch.next_deadline(), Some(1_000 * MINUTE + 10_000));
    dispatch.tick(1_000 * MINUTE + 10_000);
    assert!(matches!(state(&dispatch, 1), LeaseState::Missing { .. }));
}

#[test]
fn attempt_without_progress_is_superseded() {
    let mut dispatch = running();
    for (number, minute) in (2..).zip(1..120) {
        beat(&mut dispatch, minute * MINUTE, number);
        dispatch.tick(minute * MINUTE);
    }
    assert_eq!(ends(&mut dispatch), []);
    beat(&mut dispatch, 120 * MINUTE, 200);
    dispatch.tick(120 * MINUTE);
    assert_eq!(ends(&mut dispatch), [(Cause::Stuck, NextState::Open)]);

    let mut dispatch = running();
    for (number, minute) in (2..).zip(1..=600) {
        let beat = heartbeat(1, number, vec![progress(1, "build", number)]);
        dispatch.heartbeat(minute * MINUTE, &token("a"), &beat).unwrap();
        dispatch.tick(minute * MINUTE);
        assert_eq!(state(&dispatch, 1).has_ended(), minute == 600, "the stages may take 600 minutes");
    }
}

#[test]
fn late_heartbeats_change_nothing() {
    let mut dispatch = running();
    let beat = |number, stage: &str| heartbeat(1, number, vec![progress(1, stage, 0)]);
    dispatch.heartbeat(0, &token("a"), &beat(5, "build")).unwrap();
    dispatch.heartbeat(0, &token("a"), &beat(4, "configure")).unwrap();
    let stages = dispatch.take_effects().into_iter().filter_map(|it| match it {
        DispatchEffect::Progress { progress, .. } => Some(progress.stage),
        _ => None,
    });
    assert_eq!(stages.collect::<Vec<_>>(), ["build"]);
}

#[test]
fn unknown_lease_is_never_stopped() {
    let mut dispatch = running();
    connect(&mut dispatch, 0, "b", 2);
    let beat = heartbeat(2, 1, vec![progress(1, "build", 0), progress(99, "build", 0)]);
    assert_eq!(dispatch.heartbeat(0, &token("b"), &beat).unwrap().leases, [], "one is another client's");
    assert!(dispatch.take_effects().is_empty());
}

#[test]
fn result_is_accepted_once() {
    let mut dispatch = running();
    let digests = vec![Digest([1; 32])];
    assert_eq!(result(&mut dispatch, 1, digests.clone()), ResultAnswer::Missing { digests });
    assert_eq!(state(&dispatch, 1), LeaseState::Running);
    assert_eq!(result(&mut dispatch, 1, vec![]), ResultAnswer::Pending);
    assert_eq!(result(&mut dispatch, 1, vec![]), ResultAnswer::Pending);
    let reported = |it: &DispatchEffect| matches!(it, DispatchEffect::Reported { package: 7, attempt: 1, .. });
    assert_eq!(dispatch.take_effects().iter().filter(|it| reported(it)).count(), 1);
    dispatch.accepted(lease_id(1));
    assert_eq!(result(&mut dispatch, 1, vec![]), ResultAnswer::Settled);
    assert_eq!(dispatch.current(7), None);
}

#[test]
fn result_counts_only_from_the_client_of_the_lease() {
    let mut dispatch = running();
    connect(&mut dispatch, 0, "b", 2);
    let unasked = || unreachable!("blobs of a refused result");
    let answer = dispatch.result(0, &token("b"), connection_id(2), lease_id(1), unasked);
    assert_eq!(answer, Ok(ResultAnswer::Superseded));
    let answer = dispatch.result(0, &token("b"), connection_id(1), lease_id(1), unasked);
    assert_eq!(answer.unwrap_err().code, RefusalCode::Connection, "the connection is another token's");
    assert_eq!(dispatch.result(0, &token("b"), connection_id(2), lease_id(99), unasked), Ok(ResultAnswer::Superseded));
    assert_eq!(state(&dispatch, 1), LeaseState::Running);
}

#[test]
fn name_belongs_to_one_live_instance() {
    let mut dispatch = running();
    let taken = Err(RefusalCode::NameTaken);
    let mut code = |hello: &Hello, token_id: &str| {
        let answer = dispatch.hello(0, &token(token_id), hello, &Environment::new(), connection_id(9));
        answer.map(|_| ()).map_err(|refusal| refusal.code)
    };
    assert_eq!(code(&hello("a", 2, &[]), "a"), taken);
    assert_eq!(code(&Hello { replace: true, ..hello("a", 2, &[]) }, "b"), taken, "the token is another one");
    assert_eq!(code(&Hello { replace: true, ..hello("a", 2, &[1]) }, "a"), Ok(()));
    assert_eq!(state(&dispatch, 1), LeaseState::Running, "it was adopted");
    let late = dispatch.work(0, &token("a"), &work(1, 2, 1), 200).map_err(|refusal| refusal.code);
    assert_eq!(late, Err(RefusalCode::Connection), "the connection before has ended");
    dispatch.tick(60_000);
    say_hello(&mut dispatch, &hello("a", 3, &[]), 10).unwrap();
    assert_eq!(ends(&mut dispatch), [(Cause::Restarted, NextState::Open)], "it was silent, so its name is free");
}

#[test]
fn role_and_environment_are_required() {
    let mut dispatch = dispatch();
    let own: Environment = [("kit".to_owned(), "1".to_owned())].into();
    let watcher = TokenIdentity { roles: Roles(vec![Role::Watch]), ..token("a") };
    let mut code = |token: &TokenIdentity| {
        let answer = dispatch.hello(0, token, &hello("a", 1, &[]), &own, connection_id(1));
        answer.unwrap_err().code
    };
    assert_eq!([code(&watcher), code(&token("a"))], [RefusalCode::Role, RefusalCode::Environment]);
    assert!(dispatch.clients().is_empty());
}

#[test]
fn goodbye_reopens_packages_without_blame() {
    for _ in 0..2 {
        let mut dispatch = running();
        dispatch.bye(1, &token("a"), &Bye { connection: connection_id(1) }).unwrap();
        assert_eq!(ends(&mut dispatch), [(Cause::Bye, NextState::Open)]);
        assert_eq!(dispatch.losses.get(&7), None);
    }
}

#[test]
fn fourth_loss_fails_a_package() {
    let mut dispatch = dispatch();
    let nexts = (1..=4).map(|round| {
        say_hello(&mut dispatch, &Hello { replace: true, ..hello("a", round, &[]) }, round).unwrap();
        dispatch.work(0, &token("a"), &work(round, 1, 1), round).unwrap();
        assert_eq!((start(&mut dispatch, 0, 7, round), dispatch.is_restricted(7)), (Some(0), round == 4));
        dispatch.take_answers(0, "");
        let progress = LeaseProgress::new(lease_id(round));
        dispatch.heartbeat(0, &token("a"), &heartbeat(round, 1, vec![progress])).unwrap();
        say_hello(&mut dispatch, &Hello { replace: true, ..hello("a", round + 10, &[]) }, round + 10).unwrap();
        ends(&mut dispatch)
    });
    let next = |next| vec![(Cause::Restarted, next)];
    let expected = [NextState::Open, NextState::Open, NextState::Open, NextState::Failed].map(next);
    assert_eq!(nexts.collect::<Vec<_>>(), expected);
}

#[test]
fn stopped_attempt_reports_or_ends() {
    let mut dispatch = running();
    dispatch.stop(lease_id(1));
    assert_eq!(beat(&mut dispatch, 1, 2), Some(LeaseAction::Stop));
    assert_eq!(result(&mut dispatch, 1, vec![]), ResultAnswer::Pending);

    let mut dispatch = running();
    dispatch.stop(lease_id(1));
    dispatch.tick(60_000);
    assert_eq!(ends(&mut dispatch), [(Cause::Killed, NextState::Killed)]);

    let mut dispatch = running();
    dispatch.tick(60_000);
    dispatch.stop(lease_id(1));
    assert_eq!(ends(&mut dispatch), [(Cause::Killed, NextState::Killed)]);
}

#[test]
fn instructions_follow_the_lease() {
    let mut dispatch = running();
    dispatch.follow(lease_id(1), true);
    assert_eq!(beat(&mut dispatch, 1, 2), Some(LeaseAction::Follow));
    dispatch.follow(lease_id(1), false);
    assert_eq!(beat(&mut dispatch, 1, 3), None);
    dispatch.drain(0, true);
    assert!(dispatch.heartbeat(1, &token("a"), &heartbeat(1, 4, vec![])).unwrap().drain);
    dispatch.supersede(lease_id(1));
    assert_eq!(beat(&mut dispatch, 1, 5), Some(LeaseAction::Supersede));
}

#[test]
fn coordinator_restart_keeps_running_attempts() {
    let mut dispatch = running();
    let records = latest(&dispatch.take_records());
    let mut restored = Dispatch::restore(LeaseTimes::default(), no_slots(), 0, &records, BTreeMap::new(), |_| TERMS);
    restored.link_up(5_000);
    restored.tick(64_999);
    say_hello(&mut restored, &hello("a", 1, &[1]), 2).unwrap();
    assert_eq!((state(&restored, 1), restored.current(7)), (LeaseState::Running, Some(lease_id(1))));

    // A result that was being accepted is accepted again.
    restored.take_effects();
    assert_eq!(
        restored.result(65_000, &token("a"), connection_id(2), lease_id(1), Vec::new),
        Ok(ResultAnswer::Pending)
    );
    let records = latest(&[records, restored.take_records()].concat());
    let last = records.last().unwrap();
    assert_eq!((last.state, last.tree), (LeaseState::Running, Some(tree(1))));
    assert_eq!(state(&restored, 1), LeaseState::Reported);
    let mut again = Dispatch::restore(LeaseTimes::default(), no_slots(), 0, &records, BTreeMap::new(), |_| TERMS);
    again.link_up(0);
    say_hello(&mut again, &Hello { held: vec![lease_id(1)], ..hello("a", 1, &[]) }, 3).unwrap();
    let answer =
        |dispatch: &mut Dispatch| dispatch.result(0, &token("a"), connection_id(3), lease_id(1), Vec::new).unwrap();
    assert_eq!(answer(&mut again), ResultAnswer::Pending);
    again.accepted(lease_id(1));
    assert_eq!(answer(&mut again), ResultAnswer::Settled);

    let mut silent = Dispatch::restore(LeaseTimes::default(), no_slots(), 0, &records, BTreeMap::new(), |_| TERMS);
    silent.link_up(5_000);
    silent.tick(65_000);
    assert!(matches!(state(&silent, 1), LeaseState::Missing { .. }));
}

#[test]
fn restored_offer_waits_for_its_client() {
    let mut dispatch = dispatch();
    connect(&mut dispatch, 0, "a", 1);
    dispatch.work(0, &token("a"), &work(1, 1, 1), 100).unwrap();
    start(&mut dispatch, 0, 7, 1);
    let records = dispatch.take_records();
    let restored = || {
        let mut restored =
            Dispatch::restore(LeaseTimes::default(), no_slots(), 0, &records, BTreeMap::new(), |_| TERMS);
        restored.link_up(0);
        restored
    };
    // The client has it, but comes late.
    let mut late = restored();
    late.tick(59_000);
    assert!(matches!(state(&late, 1), LeaseState::Offered { .. }));
    late.tick(60_000);
    assert!(matches!(state(&late, 1), LeaseState::Missing { .. }));
    say_hello(&mut late, &hello("a", 1, &[1]), 2).unwrap();
    assert_eq!(state(&late, 1), LeaseState::Running);
    // The answer to its request for work may still be on its way.
    let mut early = restored();
    say_hello(&mut early, &hello("a", 1, &[]), 2).unwrap();
    early.tick(29_999);
    assert!(matches!(state(&early, 1), LeaseState::Offered { .. }));
    early.tick(30_000);
    assert_eq!(ends(&mut early), [(Cause::Unconfirmed, NextState::Open)]);
}

#[test]
fn clients_keep_the_speed_of_earlier_builds() {
    let work = ClientWork { built: 3, expected_ms: 60 * MINUTE as u64, took_ms: 30 * MINUTE as u64 };
    let work = BTreeMap::from([("a".to_owned(), work)]);
    let mut restored = Dispatch::restore(LeaseTimes::default(), no_slots(), 0, &[], work, |_| TERMS);
    restored.link_up(0);
    connect(&mut restored, 0, "a", 1);
    connect(&mut restored, 0, "b", 2);
    let of = |it: &RemoteClient| (it.work.built, it.speed());
    assert_eq!(restored.clients().iter().map(of).collect::<Vec<_>>(), [(3, 1750), (0, 1000)]);
}
