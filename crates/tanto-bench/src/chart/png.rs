//! Encodes pixels as PNG: true colour, one compressed block.

use std::io::{self, Write};

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};

use super::canvas::Canvas;

const SIGNATURE: [u8; 8] = [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n'];
/// Eight bits per channel, RGB; default compression and filter method, no interlacing.
const FORMAT: [u8; 5] = [8, 2, 0, 0, 0];

pub fn encode(canvas: &Canvas) -> io::Result<Vec<u8>> {
    let (width, height) = canvas.size();
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
    for y in 0..height {
        // Filter 0: the row is stored unchanged.
        packed.write_all(&[0])?;
        packed.write_all(canvas.row(y).as_flattened())?;
    }
    let size = [(width as u32).to_be_bytes(), (height as u32).to_be_bytes()].concat();
    let mut file = SIGNATURE.to_vec();
    chunk(&mut file, *b"IHDR", &[&size[..], &FORMAT].concat());
    chunk(&mut file, *b"IDAT", &packed.finish()?);
    chunk(&mut file, *b"IEND", &[]);
    Ok(file)
}

fn chunk(file: &mut Vec<u8>, kind: [u8; 4], content: &[u8]) {
    let mut sum = Crc::new();
    sum.update(&kind);
    sum.update(content);
    file.extend((content.len() as u32).to_be_bytes());
    file.extend(kind);
    file.extend(content);
    file.extend(sum.sum().to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn images_are_written_whole() {
        let mut canvas = Canvas::new(3, 2, [1, 2, 3]);
        canvas.dot((1.5, 0.5), 9.0, [9, 8, 7], 1.0);
        let file = encode(&canvas).expect("memory");
        assert_eq!(&file[..8], SIGNATURE);
        // The checksum of an empty IEND chunk, from the specification.
        assert!(file.ends_with(&[0, 0, 0, 0, b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82]));
        assert_eq!(file[16..24], [0, 0, 0, 3, 0, 0, 0, 2]);
        let at = file.windows(4).position(|four| four == b"IDAT").expect("it has pixels") + 4;
        let mut rows = Vec::new();
        flate2::read::ZlibDecoder::new(&file[at..]).read_to_end(&mut rows).expect("sound");
        assert_eq!(rows, [&[0][..], &[9, 8, 7].repeat(3), &[0], &[9, 8, 7].repeat(3)].concat());
    }
}
