//! The statements of a manifest but for `build`, as text. Does not know what the variables in them mean.

use super::lexer::{Lexer, Raw, Token, did_you_mean};
use crate::error::Result;

tanto_sys::pod! {
    /// A part of a manifest.
    #[derive(Default, Debug, PartialEq, Eq)]
    pub(crate) struct Span {
        /// The manifest's number.
        pub(crate) file: u32,
        /// In bytes from its beginning.
        pub(crate) at: u32,
        /// In bytes.
        pub(crate) len: u32,
    }
}

/// What a rule consists of besides its name; see `Rule`.
#[derive(Clone, Copy, Default)]
pub(crate) struct RuleBody {
    pub(crate) span: Span,
    pub(crate) set_vars: u16,
    pub(crate) nonempty: u16,
    pub(crate) dynamic: u16,
}

/// The variables that a rule may have. An edge and a scope may have any.
pub(crate) const RESERVED: [&[u8]; 11] = [
    b"command",
    b"depfile",
    b"deps",
    b"description",
    b"dyndep",
    b"generator",
    b"msvc_deps_prefix",
    b"pool",
    b"restat",
    b"rspfile",
    b"rspfile_content",
];

/// The bit by which a variable that a rule may have is told in sets of such.
pub(crate) fn reserved_bit(name: &[u8]) -> Option<u16> {
    RESERVED.iter().position(|reserved| *reserved == name).map(|at| 1 << at)
}

/// May a rule have this variable?
pub fn is_reserved(name: &[u8]) -> bool {
    reserved_bit(name).is_some()
}

/// Reads a name, `=`, and a value up to the line's end.
pub(crate) fn assignment<'t>(lexer: &mut Lexer<'t>) -> Result<(&'t [u8], Raw<'t>)> {
    let name = name(lexer, b"variable name")?;
    lexer.expect(Token::Equals)?;
    Ok((name, lexer.value()?))
}

/// Reads an indented line with an assignment, if one comes next.
pub(crate) fn binding<'t>(lexer: &mut Lexer<'t>) -> Result<Option<(&'t [u8], Raw<'t>)>> {
    if let Some(name) = lexer.usual_binding() {
        return Ok(Some((name, lexer.value()?)));
    }
    if lexer.peek(Token::Indent) { assignment(lexer).map(Some) } else { Ok(None) }
}

/// Reads a name; `what` is what it would be.
pub(crate) fn name<'t>(lexer: &mut Lexer<'t>, what: &[u8]) -> Result<&'t [u8]> {
    lexer.name().ok_or_else(|| lexer.error(&[b"expected ", what]))
}

/// Reads the name of a rule or pool and the line's end.
pub(crate) fn heading<'t>(lexer: &mut Lexer<'t>, what: &[u8]) -> Result<&'t [u8]> {
    let name = name(lexer, what)?;
    lexer.expect(Token::Newline)?;
    Ok(name)
}

/// Reads `name`, and its variables on indented lines, behind the word `rule`.
pub(crate) fn rule<'t>(lexer: &mut Lexer<'t>) -> Result<(&'t [u8], RuleBody)> {
    let name = heading(lexer, b"rule name")?;
    Ok((name, rule_body(lexer, name)?))
}

/// Reads the indented lines of a rule.
pub(crate) fn rule_body<'t>(lexer: &mut Lexer<'t>, name: &'t [u8]) -> Result<RuleBody> {
    let begin = lexer.at();
    let mut end = begin;
    let mut body = RuleBody::default();
    while let Some((key, raw)) = binding(lexer)? {
        let Some(bit) = reserved_bit(key) else {
            let error = lexer.error(&[b"unexpected variable '", key, b"'"]);
            return Err(did_you_mean(error, key, RESERVED));
        };
        body.set(bit, raw);
        end = lexer.at();
    }
    if body.is_nonempty(b"rspfile") != body.is_nonempty(b"rspfile_content") {
        return Err(lexer.error_about(name, &[b"rspfile and rspfile_content need to be both specified"]));
    }
    if !body.is_nonempty(b"command") {
        return Err(lexer.error_about(name, &[b"expected 'command =' line"]));
    }
    body.span = Span { file: 0, at: begin as u32, len: (end - begin) as u32 };
    Ok(body)
}

impl RuleBody {
    /// A later binding of the same name wins.
    fn set(&mut self, bit: u16, raw: Raw<'_>) {
        let set = |bits: &mut u16, on: bool| *bits = if on { *bits | bit } else { *bits & !bit };
        set(&mut self.set_vars, true);
        set(&mut self.nonempty, !raw.text.is_empty());
        set(&mut self.dynamic, !raw.plain);
    }

    fn is_nonempty(&self, name: &[u8]) -> bool {
        reserved_bit(name).is_some_and(|bit| self.nonempty & bit != 0)
    }
}

/// Reads `name`, and its variables on indented lines, behind the word `pool`.
pub(crate) fn pool(lexer: &mut Lexer<'_>) -> Result<()> {
    heading(lexer, b"pool name")?;
    while binding(lexer)?.is_some() {}
    Ok(())
}

/// The paths of a statement, as they stand there.
#[derive(Default)]
pub(crate) struct BuildPaths<'t> {
    pub(crate) outs: Vec<Raw<'t>>,
    pub(crate) ins: Vec<Raw<'t>>,
    pub(crate) validations: Vec<Raw<'t>>,
}

impl<'t> BuildPaths<'t> {
    /// Outputs, inputs, validations.
    pub(crate) fn list(&self, number: usize) -> &[Raw<'t>] {
        [&self.outs, &self.ins, &self.validations][number]
    }
}

/// What stands on the line of a `build` statement besides paths.
pub(crate) struct BuildLine<'t> {
    pub(crate) rule: &'t [u8],
    pub(crate) explicit_outs: usize,
    pub(crate) explicit_ins: usize,
    pub(crate) order_only_ins: usize,
}

/// Reads `outs | outs: rule ins | ins || ins |@ validations` behind the word `build`. `know` may refuse the rule's name
/// when that has been read.
pub(crate) fn build_line<'t>(
    lexer: &mut Lexer<'t>,
    raws: &mut BuildPaths<'t>,
    know: impl FnOnce(&Lexer<'t>, &'t [u8]) -> Result<()>,
) -> Result<BuildLine<'t>> {
    let BuildPaths { outs, ins, validations } = raws;
    [&mut *outs, ins, validations].into_iter().for_each(Vec::clear);
    let explicit_outs = lexer.paths(None, outs)?;
    lexer.paths(Some(Token::Pipe), outs)?;
    if outs.is_empty() {
        return Err(lexer.error(&[b"expected path"]));
    }
    lexer.expect(Token::Colon)?;
    let rule = lexer.name().ok_or_else(|| lexer.error(&[b"expected build command name"]))?;
    know(lexer, rule)?;
    let explicit_ins = lexer.paths(None, ins)?;
    lexer.paths(Some(Token::Pipe), ins)?;
    let order_only_ins = lexer.paths(Some(Token::Pipe2), ins)?;
    lexer.paths(Some(Token::PipeAt), validations)?;
    lexer.expect(Token::Newline)?;
    Ok(BuildLine { rule, explicit_outs, explicit_ins, order_only_ins })
}
