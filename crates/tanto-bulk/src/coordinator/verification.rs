//! Results of verifications: whether other clients have built the same package.

use std::fmt::Write;

use tanto_record::database::VerificationRow;

/// The result of a verification, as it is in the database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VerificationResult {
    /// It has not ended.
    Open,
    /// The second client has made the same package.
    Equal,
    /// One of three packages differs.
    Differs,
    /// All three packages differ.
    NotReproducible,
    /// Two packages differ, and there was no third.
    Undecided,
    /// There was no second package, or it could not be compared.
    Unverified,
}

impl VerificationResult {
    const ALL: [VerificationResult; 6] = [
        VerificationResult::Open,
        VerificationResult::Equal,
        VerificationResult::Differs,
        VerificationResult::NotReproducible,
        VerificationResult::Undecided,
        VerificationResult::Unverified,
    ];

    /// Returns the name in the database.
    pub fn name(self) -> &'static str {
        match self {
            VerificationResult::Open => "open",
            VerificationResult::Equal => "equal",
            VerificationResult::Differs => "differs",
            VerificationResult::NotReproducible => "not-reproducible",
            VerificationResult::Undecided => "undecided",
            VerificationResult::Unverified => "unverified",
        }
    }

    pub fn of(row: &VerificationRow) -> Option<VerificationResult> {
        VerificationResult::ALL.into_iter().find(|it| it.name() == row.result)
    }

    /// Whether packages were different.
    pub fn is_mismatch(self) -> bool {
        use VerificationResult::{Differs, NotReproducible, Undecided};
        matches!(self, Differs | NotReproducible | Undecided)
    }
}

/// Whether packages were different.
pub fn is_mismatch(row: &VerificationRow) -> bool {
    VerificationResult::of(row).is_some_and(VerificationResult::is_mismatch)
}

/// Whether packages were different, or were not compared although that was wanted.
pub fn is_unequal(row: &VerificationRow) -> bool {
    VerificationResult::of(row) != Some(VerificationResult::Equal)
}

/// Describes a verification, for the user.
pub fn describe(row: &VerificationRow) -> String {
    let VerificationRow { first, second, third, suspect, detail, .. } = row;
    match VerificationResult::of(row) {
        Some(VerificationResult::Equal) => format!("verified: {second} has made the same package"),
        Some(VerificationResult::Differs) => {
            let others: Vec<&str> =
                [first, second, third].into_iter().filter(|it| *it != suspect).map(|it| &**it).collect();
            let others = match others[..] {
                [one, other] if one != other => format!("those of {one} and {other}"),
                [one, ..] => format!("two of {one}"),
                [] => "the others".to_owned(),
            };
            format!("the package of {suspect} differs from {others}: {detail}")
        }
        Some(VerificationResult::NotReproducible) => {
            format!("not reproducible: the packages of {first}, {second} and {third} all differ: {detail}")
        }
        Some(VerificationResult::Undecided) => {
            format!("the packages of {first} and {second} differ, and no other client has decided: {detail}")
        }
        Some(VerificationResult::Unverified) => format!("not verified: {detail}"),
        Some(VerificationResult::Open) | None => "another client has to build it too".to_owned(),
    }
}

/// Counts the results of a run, and describes the packages that differ. Empty if nothing was verified.
pub fn summary(rows: &[VerificationRow]) -> String {
    let counts =
        VerificationResult::ALL.into_iter().map(|it| (it, rows.iter().filter(|row| row.result == it.name()).count()));
    let counts: Vec<String> =
        counts.filter(|(_, count)| *count > 0).map(|(result, count)| format!("{count} {}", result.name())).collect();
    if counts.is_empty() {
        return String::new();
    }
    let mut text = format!("verified: {}\n", counts.join(", "));
    for row in rows.iter().filter(|row| is_mismatch(row)) {
        let _ = writeln!(text, "  {}: {}", row.name, describe(row));
    }
    text
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::coordinator) fn row(
        clients: [&str; 3],
        result: VerificationResult,
        suspect: &str,
        detail: &str,
    ) -> VerificationRow {
        let [first, second, third] = clients.map(str::to_owned);
        VerificationRow {
            job: 0,
            attempt: 1,
            name: "a-1".into(),
            digest: [0; 32],
            first,
            second,
            third,
            result: result.name().into(),
            suspect: suspect.into(),
            detail: detail.into(),
            at_ms: 0,
        }
    }

    #[test]
    fn results_name_the_client_that_differs() {
        use VerificationResult::{Differs, Equal, NotReproducible, Open, Undecided, Unverified};
        let said = |clients, result, suspect| describe(&row(clients, result, suspect, "bin/a (content)"));
        assert_eq!(said(["x", "y", ""], Equal, ""), "verified: y has made the same package");
        let one = "the package of x differs from those of y and z: bin/a (content)";
        assert_eq!(said(["x", "y", "z"], Differs, "x"), one);
        let same = "the package of x differs from two of y: bin/a (content)";
        assert_eq!(said(["x", "y", "y"], Differs, "x"), same);
        assert_eq!(said(["y", "x", "y"], Differs, "x"), same);
        let all = "not reproducible: the packages of x, y and x all differ: bin/a (content)";
        assert_eq!(said(["x", "y", "x"], NotReproducible, ""), all);
        let two = "the packages of x and y differ, and no other client has decided: bin/a (content)";
        assert_eq!(said(["x", "y", ""], Undecided, ""), two);
        assert_eq!(said(["x", "", ""], Unverified, ""), "not verified: bin/a (content)");
        let rows = [
            row(["x", "y", ""], Equal, "", ""),
            row(["x", "", ""], Open, "", ""),
            row(["x", "y", "z"], Differs, "x", "b"),
        ];
        let text = summary(&rows);
        assert_eq!(
            text,
            "verified: 1 open, 1 equal, 1 differs\n  a-1: the package of x differs from those of y and z: b\n"
        );
        assert_eq!(summary(&[]), "");
    }
}
