//! Compares the environment of a client with the coordinator's.

use tanto_protocol::{Environment, Refusal, RefusalCode};

use super::KERNEL;

/// Returns warnings of differences that do not matter. Another environment is refused with the parts that differ.
pub fn compare(own: &Environment, other: &Environment) -> Result<Vec<String>, Refusal> {
    let (mut warnings, mut differences) = (Vec::new(), Vec::new());
    let keys: std::collections::BTreeSet<&String> = own.keys().chain(other.keys()).collect();
    for key in keys {
        let value = |of: &'_ Environment| of.get(key).cloned().unwrap_or_default();
        let (ours, theirs) = (value(own), value(other));
        if ours == theirs {
            continue;
        }
        let text = format!("{} is '{}', not '{}'", shown(key), shown(&theirs), shown(&ours));
        let minor = key == KERNEL && release(&ours) == release(&theirs);
        if minor { warnings.push(text) } else { differences.push(text) }
    }
    match differences.is_empty() {
        true => Ok(warnings),
        false => Err(Refusal {
            code: RefusalCode::Environment,
            message: format!("the client's environment differs: {}", differences.join("; ")),
        }),
    }
}

/// Names the parts that differ, for the user.
pub fn differing(own: &Environment, other: &Environment) -> String {
    let keys: std::collections::BTreeSet<&String> = own.keys().chain(other.keys()).collect();
    let other_release = |key: &str| own.get(key).map(|it| release(it)) != other.get(key).map(|it| release(it));
    let differs = |key: &&&String| own.get(**key) != other.get(**key) && (***key != KERNEL || other_release(key));
    let names: Vec<String> = keys.iter().filter(differs).map(|key| shown(key)).collect();
    match &names[..] {
        [name] => format!("{name} differs"),
        names => format!("{} differ", names.join(", ")),
    }
}

/// A version without its patch level: its first two numbers.
fn release(version: &str) -> Vec<&str> {
    version.split(|it: char| !it.is_ascii_digit()).filter(|it| !it.is_empty()).take(2).collect()
}

/// The beginning of a value, without control characters.
fn shown(value: &str) -> String {
    const MAX: usize = 80;
    let mut text: String = value.chars().take(MAX).flat_map(char::escape_default).collect();
    if value.chars().nth(MAX).is_some() {
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn differences_are_named() {
        let own = environment(&[("kit", "1"), ("mk.conf", "a\nb"), ("kernel", "6.1.0-37")]);
        assert_eq!(compare(&own, &own), Ok(vec![]));
        let message = |other: &[(&str, &str)]| compare(&own, &environment(other)).unwrap_err().message;
        assert_eq!(
            message(&[("kit", "2"), ("mk.conf", "a"), ("kernel", "6.1.0-37")]),
            "the client's environment differs: kit is '2', not '1'; mk.conf is 'a', not 'a\\nb'"
        );
        assert!(message(&[("kit", "1"), ("kernel", "6.1.0-37")]).contains("mk.conf is ''"));
        assert!(message(&[("kit", "1"), ("mk.conf", "a\nb"), ("kernel", "6.2.0-37")]).contains("kernel"));
    }

    #[test]
    fn differences_are_summed_up() {
        let own = environment(&[("kit", "1"), ("mk.conf", "a"), ("kernel", "6.1.0-37")]);
        let of = |other: &[(&str, &str)]| differing(&own, &environment(other));
        assert_eq!(of(&[("kit", "1"), ("mk.conf", "b"), ("kernel", "6.1.1")]), "mk.conf differs");
        assert_eq!(of(&[("kit", "2"), ("mk.conf", "a"), ("kernel", "6.2.0"), ("\n", "")]), "\\n, kernel, kit differ");
    }

    #[test]
    fn patch_level_is_a_warning() {
        let [own, other] = ["6.1.0-37", "6.1.12"].map(|version| environment(&[("kernel", version)]));
        assert_eq!(compare(&own, &other), Ok(vec!["kernel is '6.1.12', not '6.1.0-37'".to_owned()]));
    }
}
