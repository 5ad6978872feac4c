//! The `build` statement as text. Does not know what its names stand for.

use super::lexer::{Lexer, Raw, Token};
use crate::error::Result;
use crate::graph::base::EdgeShape;

/// The paths of a statement, as they stand there.
#[derive(Default)]
pub(super) struct Raws<'t> {
    pub(super) outs: Vec<Raw<'t>>,
    pub(super) ins: Vec<Raw<'t>>,
    pub(super) validations: Vec<Raw<'t>>,
}

impl<'t> Raws<'t> {
    /// Outputs, inputs, validations.
    pub(super) fn list(&self, number: usize) -> &[Raw<'t>] {
        [&self.outs, &self.ins, &self.validations][number]
    }
}

/// What stands on the line of a `build` statement besides paths.
pub(super) struct Line<'t> {
    pub(super) rule: &'t [u8],
    explicit_outs: usize,
    explicit_ins: usize,
    order_only_ins: usize,
}

impl Line<'_> {
    /// The numbers of paths.
    pub(super) fn shape(&self, raws: &Raws<'_>) -> EdgeShape {
        EdgeShape {
            outs: raws.outs.len() as u32,
            explicit_outs: self.explicit_outs as u32,
            ins: raws.ins.len() as u32,
            explicit_ins: self.explicit_ins as u32,
            order_only: self.order_only_ins as u32,
            validations: raws.validations.len() as u32,
            ..EdgeShape::default()
        }
    }
}

/// Reads `outs | outs: rule ins | ins || ins |@ validations` behind the word `build`. `know` may refuse the rule's name
/// when that has been read.
pub(super) fn line<'t>(
    lexer: &mut Lexer<'t>,
    raws: &mut Raws<'t>,
    know: impl FnOnce(&Lexer<'t>, &'t [u8]) -> Result<()>,
) -> Result<Line<'t>> {
    let Raws { outs, ins, validations } = raws;
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
    Ok(Line { rule, explicit_outs, explicit_ins, order_only_ins })
}
