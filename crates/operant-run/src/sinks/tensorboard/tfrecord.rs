//! TFRecord framing: `length (u64 LE), crc(length) (u32 LE), data, crc(data) (u32 LE)`, the crc a masked CRC-32C.

use std::io::{self, ErrorKind, Read, Write};

/// Longest record that is accepted when reading; ours are about 1 KiB.
const MAX_LEN: u64 = 1 << 24;

/// CRC-32C, rotated and offset, since the CRC of data that contains CRCs is weak.
fn masked_crc(data: &[u8]) -> u32 {
    crc32c::crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Bytes that a record with `len` bytes of data occupies.
pub fn framed_len(len: usize) -> u64 {
    8 + 4 + len as u64 + 4
}

/// Writes one record.
pub fn write(to: &mut impl Write, data: &[u8]) -> io::Result<()> {
    let length = (data.len() as u64).to_le_bytes();
    to.write_all(&length)?;
    to.write_all(&masked_crc(&length).to_le_bytes())?;
    to.write_all(data)?;
    to.write_all(&masked_crc(data).to_le_bytes())
}

/// Reads one record into `data`; false at the end, or at an incomplete or damaged record, after which nothing can be
/// trusted.
pub fn read(from: &mut impl Read, data: &mut Vec<u8>) -> io::Result<bool> {
    let mut head = [0; 12];
    if !fill(from, &mut head)? {
        return Ok(false);
    }
    let (length, crc) = head.split_at(8);
    let sound = masked_crc(length).to_le_bytes() == crc;
    let length = length.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    if !sound || length > MAX_LEN {
        return Ok(false);
    }
    data.resize(length as usize, 0);
    let mut crc = [0; 4];
    Ok(fill(from, data)? && fill(from, &mut crc)? && masked_crc(data).to_le_bytes() == crc)
}

/// Fills `buffer`; false when the file ends first.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crc_is_castagnolis_and_masked() {
        assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283, "check value of CRC-32C");
        // (crc >> 15 | crc << 17) + 0xa282ead8, by hand: 0x0001c60d | 0x25060000 = 0x2507c60d.
        assert_eq!(masked_crc(b"123456789"), 0xc78a_b0e5);
    }

    #[test]
    fn records_round_trip_and_every_flipped_or_missing_byte_is_detected() {
        let (mut file, records) = (Vec::new(), [&b"one"[..], b"", b"three and more"]);
        for record in records {
            write(&mut file, record).unwrap();
        }
        let count = |file: &[u8]| {
            let (mut from, mut data, mut count) = (file, Vec::new(), 0);
            while read(&mut from, &mut data).unwrap() {
                assert_eq!(data, records[count]);
                count += 1;
            }
            count
        };
        assert_eq!(count(&file), 3);
        for i in 0..file.len() {
            assert!(count(&file[..i]) < 3);
            let mut flipped = file.clone();
            flipped[i] ^= 0x10;
            assert!(count(&flipped) < 3, "byte {i}");
        }
    }
}
