//! What pkg_add would install, and in which order, if it were told to install packages: without doing so. Does not know
//! what is in packages but their names and patterns.

use std::cmp::Ordering;

use super::Trouble;
use super::facts::Facts;
use crate::package::name::Name;
use crate::package::pattern::Pattern;

/// What came of it. Packages are numbers in the list of names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Installed {
    /// What is known of those that are installed.
    pub known: Vec<Facts>,
    /// In the order in which pkg_add registers them.
    pub order: Vec<usize>,
    /// Which of them are there only because others need them.
    pub automatic: Vec<bool>,
    /// Who needs each, in the order in which that is noted.
    pub needed_by: Vec<Vec<usize>>,
    /// The same for the kit's packages.
    pub kit_needed_by: Vec<Vec<usize>>,
}

/// Installs the first `named` of these with all that they need, of which there is what has a name, where `kit` is installed
/// already. What is known of a package is asked for when it is needed. Says why pkg_add would not, or might do
/// something else.
pub(super) fn install(
    names: &[String],
    named: usize,
    kit: &[Facts],
    ask: &mut dyn FnMut(usize) -> Result<Facts, Trouble>,
) -> Result<Installed, Trouble> {
    let mut installing = Installing::new(names, kit, ask)?;
    for it in 0..named {
        installing.add(it, false, 0)?;
    }
    Ok(installing.done)
}

/// Deeper is no chain of packages.
const DEEPEST: usize = 500;

/// A package: one that is known, or one of the kit's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum It {
    Known(usize),
    Kit(usize),
}

struct Installing<'a> {
    ask: &'a mut dyn FnMut(usize) -> Result<Facts, Trouble>,
    names: Vec<Name<'a>>,
    kit_names: Vec<Name<'a>>,
    here: Vec<Here>,
    /// What those that are there cannot be beside.
    unwanted: Vec<Wanted>,
    done: Installed,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Here {
    No,
    Coming,
    Yes,
}

impl<'a> Installing<'a> {
    fn new(
        names: &'a [String],
        kit: &'a [Facts],
        ask: &'a mut dyn FnMut(usize) -> Result<Facts, Trouble>,
    ) -> Result<Installing<'a>, Trouble> {
        let conflicts = kit.iter().flat_map(|facts| &facts.conflicts);
        Ok(Installing {
            ask,
            names: names.iter().map(|name| Name::new(name.as_bytes())).collect(),
            kit_names: kit.iter().map(|facts| Name::new(&facts.name)).collect(),
            here: vec![Here::No; names.len()],
            unwanted: conflicts.map(|pattern| Wanted::new(pattern)).collect::<Result<_, _>>()?,
            done: Installed {
                known: vec![Facts::default(); names.len()],
                order: Vec::new(),
                automatic: vec![false; names.len()],
                needed_by: vec![Vec::new(); names.len()],
                kit_needed_by: vec![Vec::new(); kit.len()],
            },
        })
    }

    fn add(&mut self, it: usize, automatic: bool, depth: usize) -> Result<(), Trouble> {
        let name = told(&self.names[it]);
        if self.kit_names.iter().any(|kit| kit.text() == self.names[it].text()) {
            return Ok(());
        }
        match self.here[it] {
            Here::Yes => {
                // Who asks for it by name does not want it to go with those that need it.
                self.done.automatic[it] &= automatic;
                return Ok(());
            }
            Here::Coming => return odd(format!("{name} needs itself")),
            Here::No if depth > DEEPEST => return odd(format!("too many packages need each other up to {name}")),
            Here::No => self.here[it] = Here::Coming,
        }
        let facts = (self.ask)(it)?;
        if facts.name != self.names[it].text() {
            return odd(format!("the package of {name} has another name"));
        }
        self.look_for_conflicts(it, &facts)?;
        let mut needed: Vec<It> = Vec::new();
        for pattern in &facts.depends {
            let wanted = Wanted::new(pattern)?;
            let Some(found) = self.found(&wanted, depth)? else {
                return odd(format!("{name} needs {}", String::from_utf8_lossy(pattern)));
            };
            if !needed.contains(&found) {
                needed.push(found);
            }
        }
        self.here[it] = Here::Yes;
        self.done.known[it] = facts;
        self.done.automatic[it] = automatic;
        self.done.order.push(it);
        for needed in needed {
            match needed {
                It::Known(needed) => self.done.needed_by[needed].push(it),
                It::Kit(needed) => self.done.kit_needed_by[needed].push(it),
            }
        }
        Ok(())
    }

    /// The best match of those that are there; if there is none, one is installed.
    fn found(&mut self, wanted: &Wanted, depth: usize) -> Result<Option<It>, Trouble> {
        if let Some(found) = self.best_here(wanted) {
            return Ok(Some(found));
        }
        let all = (0..self.names.len()).filter(|&it| self.here[it] != Here::Yes);
        let Some(best) = best(all.map(|it| (it, &self.names[it])), wanted) else { return Ok(None) };
        self.add(best, true, depth + 1)?;
        Ok(self.best_here(wanted))
    }

    fn best_here(&self, wanted: &Wanted) -> Option<It> {
        let known = self.done.order.iter().map(|&it| (It::Known(it), &self.names[it]));
        let kit = self.kit_names.iter().enumerate().map(|(it, name)| (It::Kit(it), name));
        best(known.chain(kit), wanted)
    }

    /// What is there that this cannot be beside, or that cannot be beside this.
    fn look_for_conflicts(&mut self, it: usize, facts: &Facts) -> Result<(), Trouble> {
        let name = &self.names[it];
        let here = || self.done.order.iter().map(|&it| &self.names[it]).chain(&self.kit_names);
        if let Some(other) = here().find(|other| other.base() == name.base()) {
            return odd(format!("{} cannot be beside {}", told(name), told(other)));
        }
        let own = facts.conflicts.iter().map(|pattern| Wanted::new(pattern)).collect::<Result<Vec<_>, _>>()?;
        let unwanted = own.iter().any(|own| here().any(|other| own.matches(other)));
        if unwanted || self.unwanted.iter().any(|unwanted| unwanted.matches(name)) {
            return odd(format!("{} cannot be beside another package", told(name)));
        }
        self.unwanted.extend(own);
        Ok(())
    }
}

fn told(name: &Name<'_>) -> String {
    String::from_utf8_lossy(name.text()).into_owned()
}

fn odd<T>(why: String) -> Result<T, Trouble> {
    Err(Trouble::Odd(why))
}

/// A pattern, as pkg_add matches it: one that names no version stands for all of them.
struct Wanted {
    patterns: Vec<Pattern>,
}

impl Wanted {
    fn new(text: &[u8]) -> Result<Wanted, Trouble> {
        let bad = || Trouble::Odd(format!("{} is no pattern", String::from_utf8_lossy(text)));
        let parse = |text: &[u8]| Pattern::parse(text).map_err(|_| bad());
        let mut patterns = vec![parse(text)?];
        if !text.iter().any(|byte| b"<>".contains(byte)) {
            patterns.push(parse(&[text, b"-[0-9]*"].concat())?);
        }
        Ok(Wanted { patterns })
    }

    fn matches(&self, name: &Name<'_>) -> bool {
        self.patterns.iter().any(|pattern| pattern.matches(name))
    }
}

/// The highest version; among equals the name that comes first.
fn best<'n, T>(all: impl Iterator<Item = (T, &'n Name<'n>)>, wanted: &Wanted) -> Option<T> {
    let matching = all.filter(|(_, name)| wanted.matches(name));
    let best = matching.reduce(|best, other| {
        let order = other.1.version().cmp(best.1.version()).then_with(|| best.1.text().cmp(other.1.text()));
        if order == Ordering::Greater { other } else { best }
    });
    best.map(|(it, _)| it)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(name: &str, depends: &[&str], conflicts: &[&str]) -> Facts {
        let list = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect();
        Facts { name: name.into(), depends: list(depends), conflicts: list(conflicts), ..Facts::default() }
    }

    fn installed(named: &[&str], known: &[Facts], kit: &[Facts]) -> Result<(Vec<String>, Installed), String> {
        let text = |facts: &Facts| String::from_utf8(facts.name.clone()).unwrap();
        let mut names: Vec<String> = named.iter().map(|&name| name.into()).collect();
        names.extend(known.iter().map(text).filter(|name| !named.contains(&&**name)));
        let mut asked = Vec::new();
        let mut ask = |it: usize| {
            asked.push(it);
            let found = known.iter().find(|facts| text(facts) == names[it]);
            found.cloned().ok_or_else(|| Trouble::Odd(format!("there is no {}", names[it])))
        };
        let done = install(&names, named.len(), kit, &mut ask).map_err(|trouble| match trouble {
            Trouble::Odd(why) => why,
            Trouble::Machine(error) => error.to_string(),
        })?;
        asked.sort_unstable();
        let mut order = done.order.clone();
        order.sort_unstable();
        assert_eq!(asked, order, "only those are looked at that are installed");
        Ok((done.order.iter().map(|&it| names[it].clone()).collect(), done))
    }

    #[test]
    fn what_is_needed_comes_first_and_is_noted() {
        let known = [
            facts("app-1", &["lib>=1", "tool-[0-9]*", "lib>=0"], &[]),
            facts("lib-1.5", &["base"], &[]),
            facts("lib-2.0", &[], &[]),
            facts("tool-3", &["lib<2"], &[]),
        ];
        let kit = [facts("base-7", &[], &[])];
        // What is there already counts, though there would be something better.
        let (order, installed) = installed(&["lib-1.5", "app-1"], &known, &kit).unwrap();
        assert_eq!(order, ["lib-1.5", "tool-3", "app-1"]);
        assert_eq!(installed.automatic, [false, false, false, true]);
        assert_eq!((&installed.needed_by[0], &installed.kit_needed_by[0]), (&vec![3, 1], &vec![0]));
    }

    #[test]
    fn who_is_asked_for_by_name_is_not_automatic() {
        let known = [facts("app-1", &["lib"], &[]), facts("lib-1", &[], &[])];
        let (_, done) = installed(&["app-1", "lib-1"], &known, &[]).unwrap();
        assert_eq!((done.order, done.automatic), (vec![1, 0], vec![false, false]));
        let (_, done) = installed(&["app-1"], &known, &[]).unwrap();
        assert_eq!(done.automatic, [false, true]);
    }

    #[test]
    fn the_best_match_is_installed_and_the_kit_is_there() {
        let known = [facts("app-1", &["{a,b}-[0-9]*", "kit>=1"], &[]), facts("a-1", &[], &[]), facts("b-1", &[], &[])];
        let kit = [facts("kit-1", &[], &[])];
        assert_eq!(installed(&["app-1"], &known, &kit).unwrap().0, ["a-1", "app-1"]);
        assert_eq!(installed(&["app-1", "b-1"], &known, &kit).unwrap().0, ["a-1", "app-1", "b-1"]);
        let known = [facts("kit-1", &[], &[])];
        assert_eq!(installed(&["kit-1"], &known, &kit).unwrap().0, [""; 0]);
    }

    #[test]
    fn what_pkg_add_would_refuse_is_left_to_it() {
        let why = |named: &[&str], known: &[Facts], kit: &[Facts]| installed(named, known, kit).unwrap_err();
        let conflicting = [facts("a-1", &[], &["b-[0-9]*"]), facts("b-1", &[], &[]), facts("a-2", &[], &[])];
        assert_eq!(why(&["a-1", "b-1"], &conflicting, &[]), "b-1 cannot be beside another package");
        assert_eq!(why(&["b-1", "a-1"], &conflicting, &[]), "a-1 cannot be beside another package");
        assert_eq!(why(&["a-1", "a-2"], &conflicting, &[]), "a-2 cannot be beside a-1");
        assert_eq!(why(&["a-2"], &conflicting, &[facts("a-1", &[], &[])]), "a-2 cannot be beside a-1");
        assert_eq!(
            why(&["b-1"], &conflicting, &[facts("c-1", &[], &["b>=1"])]),
            "b-1 cannot be beside another package"
        );
        assert_eq!(why(&["x-1"], &[facts("x-1", &["y>=2"], &[])], &[]), "x-1 needs y>=2");
        let cycle = [facts("x-1", &["y"], &[]), facts("y-1", &["x"], &[])];
        assert_eq!(why(&["x-1"], &cycle, &[]), "x-1 needs itself");
        let misnamed = install(&["z-1".into()], 1, &[], &mut |_| Ok(facts("y-1", &[], &[])));
        assert!(matches!(misnamed, Err(Trouble::Odd(why)) if why == "the package of z-1 has another name"));
    }
}
