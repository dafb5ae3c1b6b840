//! Breaking and cutting text.

/// `text` in lines of at most `width` characters, broken between words; a word that is longer is broken itself.
pub fn wrap(text: &str, width: u16) -> Vec<String> {
    let width = usize::from(width);
    if width == 0 {
        return Vec::new();
    }
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        if length > 0 && length + 1 + word.len() > width {
            lines.push(std::mem::take(&mut line));
            length = 0;
        }
        while word.len() > width {
            let rest = word.split_off(width);
            lines.push(word.into_iter().collect());
            word = rest;
        }
        if length > 0 {
            line.push(' ');
            length += 1;
        }
        length += word.len();
        line.extend(word);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

/// `text` in at most `width` characters, the last of which is `ellipsis` where it was cut.
pub fn cut(text: &str, width: usize, ellipsis: &str) -> String {
    if text.chars().count() <= width {
        return text.to_string();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    if width == 0 { kept } else { kept + ellipsis }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("one two three", 5), ["one", "two", "three"]);
        assert_eq!(wrap("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
        assert_eq!(wrap("  ", 3), Vec::<String>::new());
        assert_eq!(wrap("a b", 0), Vec::<String>::new());
        for width in 1..20 {
            let lines = wrap("daemon killed 0.4 s ago at step 12.3 M; resume with: operant train", width);
            assert!(lines.iter().all(|line| line.chars().count() <= usize::from(width)), "{lines:?}");
        }
    }

    #[test]
    fn what_is_cut_says_so() {
        assert_eq!(cut("cartpole", 8, "…"), "cartpole");
        assert_eq!(cut("cartpole", 5, "…"), "cart…");
        assert_eq!(cut("cartpole", 1, "…"), "…");
        assert_eq!(cut("cartpole", 0, "…"), "");
    }
}
