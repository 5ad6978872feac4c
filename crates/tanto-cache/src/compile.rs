pub(crate) struct Compile<'a> {
    pub(crate) program: &'a [u8],
    pub(crate) output: &'a [u8],
    pub(crate) depfile: Option<Vec<u8>>,
    pub(crate) is_native: bool,
}
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum PathDependence {
    Independent,
    Dependent,
}
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    #[error("not a compile")]
    NotACompile,
}
impl Compile<'_> {
    pub(crate) fn path_dependence(&self, _root: &[u8], _cwd: &[u8]) -> PathDependence {
        PathDependence::Dependent
    }
}
pub(crate) fn parse<'a>(words: &[&'a [u8]]) -> Result<Compile<'a>, Refusal> {
    let after = |name: &[u8]| words.iter().position(|w| *w == name).and_then(|at| words.get(at + 1).copied());
    if !words.contains(&&b"-c"[..]) {
        return Err(Refusal::NotACompile);
    }
    Ok(Compile {
        program: words[0],
        output: after(b"-o").ok_or(Refusal::NotACompile)?,
        depfile: after(b"-MF").map(<[u8]>::to_vec),
        is_native: false,
    })
}
