//! Leases for verification exist beside leases to build.

use tanto_protocol::ResultAnswer;

use super::*;
use crate::coordinator::dispatch::lease::{Cause, LeaseState};
use crate::coordinator::dispatch::{DispatchEffect, NextState};

/// Two clients that ask for work.
fn two_clients() -> Dispatch {
    let mut dispatch = dispatch();
    for (name, connection) in [("first", 1), ("second", 2)] {
        connect(&mut dispatch, 0, name, connection);
        dispatch.work(0, &token(name), &work(connection, 1, 2), connection).unwrap();
    }
    dispatch
}

fn choose(dispatch: &Dispatch, needs: &PackageNeeds<'_>, not: &[&str]) -> Option<String> {
    let client = dispatch.choose_verifier(0, needs, not)?;
    Some(dispatch.name(ClientIndex::Remote(client)))
}

#[test]
fn another_client_verifies() {
    let dispatch = two_clients();
    let choose = |not: &[&str]| choose(&dispatch, &needs(0), not);
    assert_eq!(choose(&["first"]), Some("second".into()));
    assert_eq!(choose(&["second"]), Some("first".into()));
    assert_eq!(choose(&["first", "second"]), None);
    assert!(
        dispatch.has_verifier(0, &needs(0), &["first"]) && !dispatch.has_verifier(0, &needs(0), &["first", "second"])
    );
}

#[test]
fn a_trusted_client_decides_even_if_it_has_built_the_package() {
    let dispatch = two_clients();
    let (names, both) = (["second".to_owned()], [ClientIndex::Remote(0), ClientIndex::Remote(1)]);
    let this_machine = ThisMachine::Never;
    let needs = PackageNeeds { trusted: Some(&names), excluded: &both, this_machine, ..needs(0) };
    assert_eq!(choose(&dispatch, &needs, &[]), Some("second".into()));
    let needs = PackageNeeds { trusted: Some(&[]), ..needs };
    assert_eq!(choose(&dispatch, &needs, &[]), None);
}

#[test]
fn a_package_is_verified_while_it_is_built_again() {
    let mut dispatch = two_clients();
    let client = dispatch.choose_verifier(0, &needs(7), &["first"]).unwrap();
    dispatch.offer_verification(0, client, 7, lease(1, 1), TERMS);
    assert_eq!((dispatch.current(7), dispatch.take_records().len()), (None, 0), "no record");
    start(&mut dispatch, 0, 7, 2).unwrap();
    assert_eq!(dispatch.current(7), Some(lease_id(2)));
    assert_eq!([1, 2].map(|it| dispatch.is_verification(lease_id(it))), [true, false]);
    dispatch.heartbeat(0, &token("second"), &heartbeat(2, 1, vec![progress(1, "build", 1)])).unwrap();
    let answer = dispatch.result(0, &token("second"), connection_id(2), lease_id(1), Vec::new);
    assert_eq!(answer, Ok(ResultAnswer::Pending));
    dispatch.accepted(lease_id(1));
    assert_eq!(dispatch.lease(lease_id(1)).unwrap().state(), LeaseState::Settled);
    assert_eq!(dispatch.current(7), Some(lease_id(2)));
    assert!(dispatch.take_records().iter().all(|record| record.lease == lease_id(2)));
}

#[test]
fn a_verification_that_is_lost_is_no_loss_of_the_package() {
    let mut dispatch = two_clients();
    for number in 1..=5 {
        dispatch.offer_verification(0, 1, 7, lease(number, 1), TERMS);
        dispatch.heartbeat(0, &token("second"), &heartbeat(2, number, vec![progress(number, "build", 1)])).unwrap();
        assert!(dispatch.is_in_progress(lease_id(number)));
        // It was started again, without the lease.
        let (hello, connection) = (hello("second", 1, &[]), connection_id(2));
        dispatch.hello(0, &token("second"), &hello, &Environment::new(), connection).unwrap();
        dispatch.work(0, &token("second"), &work(2, number, 2), 10 + number).unwrap();
        assert!(!dispatch.is_in_progress(lease_id(number)) && !dispatch.is_restricted(7));
    }
    let ended = dispatch.take_effects().into_iter().filter_map(|effect| match effect {
        DispatchEffect::Ended { cause, next, .. } => Some((cause, next)),
        _ => None,
    });
    assert_eq!(ended.collect::<Vec<_>>(), [(Cause::Restarted, NextState::Open); 5]);
}

#[test]
fn distrust_ends_a_verification_whose_package_has_arrived() {
    let mut dispatch = two_clients();
    dispatch.offer_verification(0, 1, 7, lease(1, 1), TERMS);
    dispatch.result(0, &token("second"), connection_id(2), lease_id(1), Vec::new).unwrap();
    assert_eq!(dispatch.distrust(1), [0; 0], "the package need not be built again");
    assert_eq!(dispatch.lease(lease_id(1)).unwrap().state(), LeaseState::Superseded(Cause::Withdrawn));
}
