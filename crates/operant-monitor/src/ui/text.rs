//! Breaking and cutting text.

use ratatui::text::Span;

/// `text` in lines of at most `width` columns, broken between words, or within a word that is longer than a line. A
/// character that is wider than a line has a line for itself.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let columns = |text: &str| Span::raw(text).width();
    let mut lines: Vec<String> = Vec::new();
    if width == 0 {
        return lines;
    }
    for mut word in text.split_whitespace() {
        if let Some(line) = lines.last_mut()
            && columns(line) + 1 + columns(word) <= width
        {
            line.push(' ');
            line.push_str(word);
            continue;
        }
        while columns(word) > width {
            let mut ends = word.char_indices().map(|(at, c)| at + c.len_utf8());
            let first = ends.next().unwrap_or(word.len());
            let end = ends.take_while(|end| columns(&word[..*end]) <= width).last().unwrap_or(first);
            let (line, rest) = word.split_at(end);
            lines.push(line.to_string());
            word = rest;
        }
        if !word.is_empty() {
            lines.push(word.to_string());
        }
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

/// The name of a run in at most `width` characters: cut in its middle, because similar runs differ at their ends.
pub fn cut_name(name: &str, width: usize, ellipsis: &str) -> String {
    cut_at(name, width / 2, width, ellipsis)
}

/// `names` in at most `width` characters each, so that no two that differ are cut to the same text: in the middle where that
/// is enough, else around the part in which they differ, else with a number at their end.
pub fn distinct(names: &[&str], width: usize, ellipsis: &str) -> Vec<String> {
    let apart = |texts: &[String]| {
        let mut pairs: Vec<(&str, &str)> =
            texts.iter().map(String::as_str).zip(names.iter().copied()).collect();
        pairs.sort_unstable();
        pairs.windows(2).all(|pair| pair[0].0 != pair[1].0 || pair[0].1 == pair[1].1)
    };
    let cut_all = |head: usize| -> Vec<String> {
        names.iter().map(|name| cut_at(name, head, width, ellipsis)).collect()
    };
    let heads = std::iter::once(width / 2).chain((0..width).rev());
    let common = |count: &dyn Fn(&str, &str) -> usize| match names {
        [first, others @ ..] => others.iter().map(|name| count(first, name)).min().unwrap_or(0),
        [] => 0,
    };
    let prefix = common(&|a, b| a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count());
    let part = |name: &&str| match name.chars().count() > width && prefix > 0 {
        true => {
            cut(&(ellipsis.to_string() + &name.chars().skip(prefix).collect::<String>()), width, ellipsis)
        }
        false => cut_name(name, width, ellipsis),
    };
    let mut ways = heads.map(cut_all).chain(std::iter::once_with(|| names.iter().map(part).collect()));
    ways.find(|texts| apart(texts)).unwrap_or_else(|| {
        let numbered = |(i, name): (usize, &&str)| {
            let number = format!("#{}", i + 1);
            cut(name, width.saturating_sub(number.len()), ellipsis) + &number
        };
        names.iter().enumerate().map(numbered).collect()
    })
}

/// A name in at most `width` characters, of which `head` are its first ones.
fn cut_at(name: &str, head: usize, width: usize, ellipsis: &str) -> String {
    let length = name.chars().count();
    if length <= width || width < 4 {
        return cut(name, width, ellipsis);
    }
    let head = head.min(width - 1);
    let tail = width - head - 1;
    let (head, tail) = (name.chars().take(head), name.chars().skip(length - tail));
    head.chain(ellipsis.chars()).chain(tail).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirty_two_names_stay_apart_at_any_width() {
        let sweep: Vec<String> =
            (0..32).map(|i| format!("cartpole-lr-{}-clip-0.2-hidden-64-seed-{}", i / 8, i % 8)).collect();
        let ends: Vec<String> = (0..32).map(|i| format!("a-very-long-name-of-a-run-{i}")).collect();
        let starts: Vec<String> = (0..32).map(|i| format!("{i}-a-very-long-name-of-a-run")).collect();
        for names in [sweep, ends, starts] {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            for width in 4..60 {
                let texts = distinct(&names, width, "…");
                let different: std::collections::HashSet<_> = texts.iter().collect();
                assert_eq!(different.len(), 32, "{width}: {texts:?}");
                assert!(texts.iter().all(|text| text.chars().count() <= width), "{width}: {texts:?}");
            }
        }
        assert_eq!(distinct(&["one", "two"], 8, "…"), ["one", "two"]);
        assert_eq!(distinct(&["same-name", "same-name"], 5, "…"), ["sa…me", "sa…me"]);
        assert_eq!(distinct(&[], 5, "…"), Vec::<String>::new());
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("one two three", 5), ["one", "two", "three"]);
        assert_eq!(wrap("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
        assert_eq!(wrap("  ", 3), Vec::<String>::new());
        assert_eq!(wrap("a b", 0), Vec::<String>::new());
        assert_eq!(wrap("abcdefgh i", 3), ["abc", "def", "gh", "i"]);
        assert_eq!(wrap("äöü", 1), ["ä", "ö", "ü"]);
        assert_eq!(wrap("漢字", 1), ["漢", "字"]);
        assert_eq!(wrap("漢字", 3), ["漢", "字"]);
        for width in 1..20 {
            let lines = wrap("daemon killed 0.4 s ago at step 12.3 M; resume with: operant train", width);
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{lines:?}");
        }
    }

    #[test]
    fn what_is_cut_says_so() {
        assert_eq!(cut("cartpole", 8, "…"), "cartpole");
        assert_eq!(cut("cartpole", 5, "…"), "cart…");
        assert_eq!(cut("cartpole", 1, "…"), "…");
        assert_eq!(cut("cartpole", 0, "…"), "");
        assert_eq!(cut_name("cartpole-17", 11, "…"), "cartpole-17");
        assert_eq!(cut_name("cartpole-17", 8, "…"), "cart…-17");
        assert_eq!(cut_name("cartpole-17", 7, "~"), "car~-17");
        assert_eq!(cut_name("cartpole-17", 2, "…"), "c…");
    }
}
