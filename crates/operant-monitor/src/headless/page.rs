//! Lines of text with roles: cut to the width, without control characters, in colour only if requested.

use ratatui::text::Span;

use operant_draw::style::Style;
use operant_draw::symbols::Symbols;

/// The role of a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Plain,
    Strong,
    Muted,
    Good,
    Warning,
    Bad,
}

impl Role {
    /// Parameter of the escape sequence that selects it, in the terminal's own colours.
    fn code(self) -> &'static str {
        match self {
            Role::Plain => "",
            Role::Strong => "1",
            Role::Muted => "2",
            Role::Good => "1;32",
            Role::Warning => "1;33",
            Role::Bad => "1;31",
        }
    }
}

/// A text in the making.
pub(super) struct Page<'a> {
    style: &'a Style,
    pub(super) symbols: &'static Symbols,
    out: String,
    line: Vec<(Role, String)>,
    column: usize,
}

impl<'a> Page<'a> {
    pub(super) fn new(style: &'a Style) -> Self {
        Page { style, symbols: style.symbols(), out: String::new(), line: Vec::new(), column: 0 }
    }

    /// Columns left on the line.
    pub(super) fn left(&self) -> usize {
        self.style.width.saturating_sub(self.column)
    }

    /// Adds to the line; what does not fit is cut and marked.
    pub(super) fn put(&mut self, role: Role, text: &str) -> &mut Self {
        let text = self.style.clean(text);
        let left = self.left();
        if width(&text) <= left {
            self.column += width(&text);
            self.line.push((role, text));
        } else if left > 0 {
            let mut kept = take(&text, left - 1).to_owned();
            kept.push_str(self.symbols.ellipsis);
            // A wide character that does not fit may leave a column free; it stays blank.
            self.column = self.style.width;
            self.line.push((role, kept));
        }
        self
    }

    /// Blanks up to a column, at least one unless the line is empty.
    pub(super) fn tab(&mut self, column: usize) -> &mut Self {
        let blanks = column.saturating_sub(self.column).max(usize::from(self.column > 0));
        self.put(Role::Plain, &" ".repeat(blanks))
    }

    /// Ends the line.
    pub(super) fn end(&mut self) {
        while let Some((_, text)) = self.line.last_mut() {
            text.truncate(text.trim_end().len());
            if !text.is_empty() {
                break;
            }
            self.line.pop();
        }
        for (role, text) in self.line.drain(..) {
            // Blanks have no style, so that coloured and plain output have the same text.
            if self.style.colour && !role.code().is_empty() && !text.trim().is_empty() {
                self.out.extend(["\u{1b}[", role.code(), "m", &text, "\u{1b}[0m"]);
            } else {
                self.out.push_str(&text);
            }
        }
        self.out.push('\n');
        self.column = 0;
    }

    /// Wraps words over as many lines as needed, each indented to `indent`; continues the current line.
    pub(super) fn wrap(&mut self, role: Role, text: &str, indent: usize) {
        let mut begun = false;
        for word in text.split_whitespace() {
            let long = width(&self.style.clean(word));
            if begun && long + 1 > self.left() {
                self.end();
                begun = false;
            }
            if !begun {
                let blanks = indent.saturating_sub(self.column);
                self.put(Role::Plain, &" ".repeat(blanks));
            } else {
                self.put(Role::Plain, " ");
            }
            self.put(role, word);
            begun = true;
        }
        self.end();
    }

    /// The whole text.
    pub(super) fn finish(self) -> String {
        self.out
    }
}

/// Columns that a text takes.
pub(super) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// The longest prefix that takes at most `columns` columns.
fn take(text: &str, columns: usize) -> &str {
    let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    let end = ends.take_while(|end| width(&text[..*end]) <= columns).last().unwrap_or(0);
    &text[..end]
}
