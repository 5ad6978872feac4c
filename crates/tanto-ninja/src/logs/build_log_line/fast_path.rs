//! A single-pass parser for lines as ninja and Tanto write them. Returns `None` for all others.

use super::Entry;

#[inline]
pub(super) fn entry(text: &[u8]) -> Option<Entry> {
    let (start, rest) = decimal(text)?;
    let (end, rest) = decimal(rest)?;
    let (mtime, rest) = decimal(rest)?;
    let output = memchr::memchr2(b'\t', b'\n', rest).filter(|&end| rest[end] == b'\t')?;
    let command_hash = hexadecimal(&rest[output + 1..])?;
    Some(Entry { command_hash, start_ms: i32::try_from(start).ok()?, end_ms: i32::try_from(end).ok()?, mtime })
}

/// The number of digits that always fits.
const DIGITS: usize = 18;

/// Parses a number before a tab; returns the rest after the tab.
#[inline]
fn decimal(text: &[u8]) -> Option<(i64, &[u8])> {
    let (mut number, mut rest) = (0, text);
    // Times in nanoseconds have 19 digits.
    while let Some((eight, behind)) = rest.split_first_chunk::<8>()
        && let Some(value) = eight_digits(*eight)
    {
        if text.len() - behind.len() > DIGITS {
            return None;
        }
        (number, rest) = (number * 100_000_000 + value, behind);
    }
    loop {
        let (&byte, behind) = rest.split_first()?;
        rest = behind;
        match byte.wrapping_sub(b'0') {
            digit @ 0..10 => number = number.checked_mul(10)?.checked_add(digit.into())?,
            _ if byte == b'\t' => break,
            _ => return None,
        }
    }
    // An empty field is not a number.
    (text.len() - rest.len() > 1).then_some((i64::try_from(number).ok()?, rest))
}

/// Parses eight digits at once.
#[inline]
fn eight_digits(bytes: [u8; 8]) -> Option<u64> {
    let word = u64::from_le_bytes(bytes);
    const HIGH: u64 = 0xf0f0_f0f0_f0f0_f0f0;
    const THREES: u64 = 0x3030_3030_3030_3030;
    // Digits are 0x30 to 0x39: adding 6 must not change the upper half of any byte.
    if word & HIGH != THREES || word.wrapping_add(0x0606_0606_0606_0606) & HIGH != THREES {
        return None;
    }
    // Combine pairs, then fours, then all eight; the first digit is in the lowest byte.
    let ones = word - THREES;
    let pairs = (ones * 10 + (ones >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    Some((fours * 10_000 + (fours >> 32)) & 0xffff_ffff)
}

const NO_DIGIT: u8 = 0xff;

/// The values of hexadecimal digits.
const HEX: [u8; 256] = {
    let mut table = [NO_DIGIT; 256];
    let mut digit = 0;
    while digit < 16 {
        table[b"0123456789abcdef"[digit] as usize] = digit as u8;
        digit += 1;
    }
    table
};

/// Parses a number before the line end.
#[inline]
fn hexadecimal(text: &[u8]) -> Option<u64> {
    let mut number = 0;
    for (length, &byte) in text.iter().enumerate().take(17) {
        match HEX[usize::from(byte)] {
            NO_DIGIT => return (byte == b'\n' && length > 0).then_some(number),
            digit => number = number << 4 | u64::from(digit),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::parse_entry;
    use super::*;
    use tanto_testing::Random;

    fn field(random: &mut Random) -> Vec<u8> {
        let mut field: Vec<u8> = (0..random.below(22)).map(|_| b"0123456789"[random.below(10)]).collect();
        if random.below(8) == 0 {
            let at = random.below(field.len() + 1);
            field.insert(at, b"\t\n-+ x/:0"[random.below(9)]);
        }
        field
    }

    #[test]
    fn fast_path_agrees_with_the_general_parser() {
        let (mut fast_path, mut random) = (0, Random::new(1));
        for _ in 0..20_000 {
            let hash: Vec<u8> = (0..random.below(19)).map(|_| b"0123456789abcdefAx\n"[random.below(19)]).collect();
            let fields = [field(&mut random), field(&mut random), field(&mut random), b"out.o".to_vec(), hash];
            let text = [&fields.join(&b'\t')[..], b"\n1\t2"].concat();
            if let Some(entry) = entry(&text) {
                fast_path += 1;
                assert_eq!(
                    parse_entry(super::super::first(&text)),
                    Some(entry),
                    "{:?}",
                    text.escape_ascii().to_string()
                );
            }
        }
        assert!(fast_path > 500, "{fast_path}");
    }

    #[test]
    fn written_lines_take_the_fast_path() {
        let text = b"0\t2147483647\t1795170371520202006\tx.o\t7dbf1f2e3cf613e2\n";
        let expected = Entry {
            command_hash: 0x7dbf_1f2e_3cf6_13e2,
            start_ms: 0,
            end_ms: i32::MAX,
            mtime: 1_795_170_371_520_202_006,
        };
        assert_eq!(entry(text), Some(expected));
        assert_eq!(entry(&text[..text.len() - 1]), None);
        assert_eq!(eight_digits(*b"12345678"), Some(12_345_678));
        assert_eq!([*b"1234567/", *b":2345678", *b"1234567\xb1"].map(eight_digits), [None; 3]);
    }
}
