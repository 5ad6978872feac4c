//! Parser of the statements of a manifest, without evaluation of variables.

use super::lexer::{Lexer, Raw, Token, did_you_mean};
use crate::error::Result;

tanto_sys::pod! {
    #[derive(Default, Debug, PartialEq, Eq)]
    pub(crate) struct Span {
        /// Index of the manifest.
        pub(crate) file: u32,
        /// Offset in bytes.
        pub(crate) at: u32,
        /// Length in bytes.
        pub(crate) len: u32,
    }
}

/// The part of a rule after its name; see `Rule`.
#[derive(Clone, Copy, Default)]
pub(crate) struct RuleBody {
    pub(crate) span: Span,
    pub(crate) set_vars: u16,
    pub(crate) nonempty: u16,
    pub(crate) dynamic: u16,
}

/// The variables that a rule may bind. Edges and scopes may bind any.
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

/// Returns the bit of a rule variable in bit sets.
pub(crate) fn reserved_bit(name: &[u8]) -> Option<u16> {
    RESERVED.iter().position(|reserved| *reserved == name).map(|at| 1 << at)
}

/// Returns true if a rule may bind this variable.
pub fn is_reserved(name: &[u8]) -> bool {
    reserved_bit(name).is_some()
}

/// Reads `name = value` and the end of the line.
pub(crate) fn assignment<'t>(lexer: &mut Lexer<'t>) -> Result<(&'t [u8], Raw<'t>)> {
    let name = name(lexer, b"variable name")?;
    lexer.expect(Token::Equals)?;
    Ok((name, lexer.value()?))
}

/// Reads an indented assignment if one comes next.
pub(crate) fn binding<'t>(lexer: &mut Lexer<'t>) -> Result<Option<(&'t [u8], Raw<'t>)>> {
    if let Some(name) = lexer.usual_binding() {
        return Ok(Some((name, lexer.value()?)));
    }
    if lexer.peek(Token::Indent) { assignment(lexer).map(Some) } else { Ok(None) }
}

/// Reads a name; `expected` describes it in the error.
pub(crate) fn name<'t>(lexer: &mut Lexer<'t>, expected: &[u8]) -> Result<&'t [u8]> {
    lexer.name().ok_or_else(|| lexer.error(&[b"expected ", expected]))
}

/// Reads the name of a rule or pool and the end of the line.
pub(crate) fn heading<'t>(lexer: &mut Lexer<'t>, expected: &[u8]) -> Result<&'t [u8]> {
    let name = name(lexer, expected)?;
    lexer.expect(Token::Newline)?;
    Ok(name)
}

/// Reads the rest of a statement after `rule`: the name and indented bindings.
pub(crate) fn rule<'t>(lexer: &mut Lexer<'t>) -> Result<(&'t [u8], RuleBody)> {
    let name = heading(lexer, b"rule name")?;
    Ok((name, rule_body(lexer, name)?))
}

/// Reads the indented bindings of a rule.
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
    /// The last binding of a name wins.
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

/// Reads the rest of a statement after `pool`: the name and indented bindings.
pub(crate) fn pool(lexer: &mut Lexer<'_>) -> Result<()> {
    heading(lexer, b"pool name")?;
    while binding(lexer)?.is_some() {}
    Ok(())
}

/// The raw paths of a `build` statement.
#[derive(Default)]
pub(crate) struct BuildPaths<'t> {
    pub(crate) outs: Vec<Raw<'t>>,
    pub(crate) ins: Vec<Raw<'t>>,
    pub(crate) validations: Vec<Raw<'t>>,
}

impl<'t> BuildPaths<'t> {
    /// Returns outputs, inputs or validations.
    pub(crate) fn list(&self, number: usize) -> &[Raw<'t>] {
        [&self.outs, &self.ins, &self.validations][number]
    }
}

/// The rest of the line of a `build` statement.
pub(crate) struct BuildLine<'t> {
    pub(crate) rule: &'t [u8],
    pub(crate) explicit_outs: usize,
    pub(crate) explicit_ins: usize,
    pub(crate) order_only_ins: usize,
}

/// Reads `outs | outs: rule ins | ins || ins |@ validations` after `build`. `check_rule` is called after the rule's
/// name and may reject it.
pub(crate) fn build_line<'t>(
    lexer: &mut Lexer<'t>,
    raws: &mut BuildPaths<'t>,
    check_rule: impl FnOnce(&Lexer<'t>, &'t [u8]) -> Result<()>,
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
    check_rule(lexer, rule)?;
    let explicit_ins = lexer.paths(None, ins)?;
    lexer.paths(Some(Token::Pipe), ins)?;
    let order_only_ins = lexer.paths(Some(Token::Pipe2), ins)?;
    lexer.paths(Some(Token::PipeAt), validations)?;
    lexer.expect(Token::Newline)?;
    Ok(BuildLine { rule, explicit_outs, explicit_ins, order_only_ins })
}
