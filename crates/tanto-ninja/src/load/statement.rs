//! The statements of a manifest but for `build`, as text. Does not know what the variables in them mean.

use super::chunk::span;
use super::lexer::{Lexer, Raw, Token, did_you_mean};
use crate::bindings::{RESERVED, reserved_bit};
use crate::error::Result;
use crate::graph::env::RuleBody;

/// Reads a name, `=`, and a value up to the line's end.
pub(super) fn assignment<'t>(lexer: &mut Lexer<'t>) -> Result<(&'t [u8], Raw<'t>)> {
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
pub(super) fn name<'t>(lexer: &mut Lexer<'t>, what: &[u8]) -> Result<&'t [u8]> {
    lexer.name().ok_or_else(|| lexer.error(&[b"expected ", what]))
}

/// Reads the name of a rule or pool and the line's end.
pub(super) fn heading<'t>(lexer: &mut Lexer<'t>, what: &[u8]) -> Result<&'t [u8]> {
    let name = name(lexer, what)?;
    lexer.expect(Token::Newline)?;
    Ok(name)
}

/// Reads `name`, and its variables on indented lines, behind the word `rule`.
pub(super) fn rule<'t>(lexer: &mut Lexer<'t>) -> Result<(&'t [u8], RuleBody)> {
    let name = heading(lexer, b"rule name")?;
    Ok((name, rule_body(lexer, name)?))
}

/// Reads the indented lines of a rule.
pub(super) fn rule_body<'t>(lexer: &mut Lexer<'t>, name: &'t [u8]) -> Result<RuleBody> {
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
    if body.is_full(b"rspfile") != body.is_full(b"rspfile_content") {
        return Err(lexer.error_about(name, &[b"rspfile and rspfile_content need to be both specified"]));
    }
    if !body.is_full(b"command") {
        return Err(lexer.error_about(name, &[b"expected 'command =' line"]));
    }
    body.span = span(begin..end);
    Ok(body)
}

impl RuleBody {
    /// A later binding of the same name wins.
    fn set(&mut self, bit: u16, raw: Raw<'_>) {
        let set = |bits: &mut u16, on: bool| *bits = if on { *bits | bit } else { *bits & !bit };
        set(&mut self.sets, true);
        set(&mut self.full, !raw.text.is_empty());
        set(&mut self.variable, !raw.plain);
    }

    fn is_full(&self, name: &[u8]) -> bool {
        reserved_bit(name).is_some_and(|bit| self.full & bit != 0)
    }
}

/// Reads `name`, and its variables on indented lines, behind the word `pool`.
pub(super) fn pool(lexer: &mut Lexer<'_>) -> Result<()> {
    heading(lexer, b"pool name")?;
    while binding(lexer)?.is_some() {}
    Ok(())
}
