//! Text as words.

use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes of a text as words, the last one padded with zeros.
pub fn words(text: &str) -> impl Iterator<Item = u64> {
    text.as_bytes().chunks(8).map(|chunk| {
        let mut bytes = [0; 8];
        bytes[..chunk.len()].copy_from_slice(chunk);
        u64::from_ne_bytes(bytes)
    })
}

/// The text of at most `bytes` bytes in words; invalid UTF-8 is replaced.
pub fn from_words(words: &[u64], bytes: u64) -> String {
    let all: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let length = usize::try_from(bytes).unwrap_or(usize::MAX).min(all.len());
    String::from_utf8_lossy(&all[..length]).into_owned()
}

/// Bytes of a text section that are read at most.
const MAX_SECTION: u64 = 1 << 20;

/// A text section: its length in bytes, then the bytes.
pub fn read_section(section: &[AtomicU64]) -> String {
    let Some((bytes, words)) = section.split_first() else {
        return String::new();
    };
    let bytes = bytes.load(Ordering::Relaxed).min(MAX_SECTION);
    let words = words.iter().take(bytes.div_ceil(8) as usize);
    from_words(&words.map(|word| word.load(Ordering::Relaxed)).collect::<Vec<_>>(), bytes)
}

/// Whether a terminal obeys a character instead of showing it: a control character, an invisible one, or a change of direction.
pub fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Makes text from a file safe for a line of a terminal: characters that it obeys become spaces.
pub fn plain(text: &str) -> String {
    text.replace(is_obeyed, " ")
}

/// Like [`plain`], for an output of lines and tabs. In a line that is a JSON object such characters are escaped, which keeps its meaning.
pub fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        for c in line.chars() {
            match c {
                '\n' | '\t' => safe.push(c),
                c if !is_obeyed(c) => safe.push(c),
                c if line.starts_with('{') => safe.push_str(&format!("\\u{:04x}", u32::from(c))),
                _ => safe.push(' '),
            }
        }
    }
    safe
}

/// One line of at most `bytes` bytes, shortened between characters and marked if it was shortened.
pub fn line(text: &str, bytes: usize) -> String {
    let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.len() <= bytes {
        return text;
    }
    let mut end = bytes.saturating_sub("...".len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}...", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        for text in ["", "a", "exactly8", "héllo wörld, ünd so wéiter"] {
            let words: Vec<u64> = words(text).collect();
            assert_eq!(from_words(&words, text.len() as u64), text);
        }
        assert_eq!(from_words(&[u64::MAX], u64::MAX).chars().count(), 8);
    }

    #[test]
    fn no_text_contains_control_characters() {
        assert_eq!(plain("a\u{1b}]0;x\u{7}b\u{202e}c\u{9b}d é"), "a ]0;x b c d é");
        let lines = "a\tb\u{1b}[2J\r\n{\"a\":\"\u{202e}\u{9b}é\"}\nc\u{200f}";
        assert_eq!(printable(lines), "a\tb [2J \n{\"a\":\"\\u202e\\u009bé\"}\nc ");
    }

    #[test]
    fn lines_are_shortened_between_characters() {
        assert_eq!(line("a\n  b\tc", 20), "a b c");
        assert_eq!(line("ééééé", 7), "éé...");
        assert_eq!(line("ééééé", 10), "ééééé");
    }
}
