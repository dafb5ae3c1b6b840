//! Tables that fit the terminal: the columns that matter least are omitted, names that take more than three eighths of the line are cut, and so are the cells
//! of a last column that takes the rest of the line. In a pipe, cells are separated by tabs and not padded, and every column is there.

use std::io::IsTerminal as _;

use anstyle::Style;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use operant_metrics::{plain, printable};
use operant_monitor::ui::text::distinct;
use operant_run::paint::{HEADER, paint};

/// Width of a terminal that does not say how wide it is.
pub const DEFAULT_WIDTH: usize = 80;

/// Least width of a column that takes the rest of the line.
const LEAST_REST: usize = 12;

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub struct Column<'a> {
    pub header: &'a str,
    /// Columns with the largest value are omitted first; 0 is always shown.
    pub rank: u8,
    pub right: bool,
    pub cut: Cut,
}

/// How the cells of a column are cut where the table is wider than the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    Never,
    /// In the middle, to three eighths of the line.
    Middle,
    /// At the end, to the rest of the line; the last column only.
    Rest,
}

impl<'a> Column<'a> {
    /// A column of words.
    pub const fn left(header: &'a str, rank: u8) -> Self {
        Column { header, rank, right: false, cut: Cut::Never }
    }

    /// A column of names, which is always shown.
    pub const fn name(header: &'a str) -> Self {
        Column { cut: Cut::Middle, ..Column::left(header, 0) }
    }

    /// A column of numbers.
    pub const fn right(header: &'a str, rank: u8) -> Self {
        Column { right: true, ..Column::left(header, rank) }
    }

    /// A last column of words, which takes the rest of the line.
    pub const fn rest(header: &'a str, rank: u8) -> Self {
        Column { cut: Cut::Rest, ..Column::left(header, rank) }
    }
}

/// A row: a cell for each column, and the text below it.
#[derive(Debug, Clone, Default)]
pub struct Row {
    pub cells: Vec<String>,
    /// In a pipe, a last column.
    pub note: String,
    /// The style of a cell, by its column; of a row without a note.
    pub style: Option<(usize, Style)>,
}

/// The table as [`crate::output::print_painted`] takes it; `note` is the header of the notes.
pub fn text(columns: &[Column], note: &str, rows: &[Row]) -> String {
    // A cell from a file must not look like several.
    let rows: Vec<Row> = rows
        .iter()
        .map(|row| Row {
            cells: row.cells.iter().map(|cell| plain(cell)).collect(),
            note: printable(&row.note),
            style: row.style,
        })
        .collect();
    let text = match width() {
        Some(width) => fitted(columns, &rows, width),
        None => tabs(columns, note, &rows),
    };
    painted(&text, &rows)
}

/// The table with its header and the cells that have a style painted.
fn painted(text: &str, rows: &[Row]) -> String {
    let Some((header, body)) = text.split_once('\n') else { return text.to_owned() };
    let mut text = format!("{}\n", paint(HEADER, header));
    for (at, line) in body.split_inclusive('\n').enumerate() {
        let cell = rows.get(at).and_then(|row| row.style.map(|(column, style)| (&row.cells[column], style)));
        let place = cell.and_then(|(cell, style)| Some((word(line, cell)?, style)));
        match place {
            Some((place, style)) => {
                text.extend([&line[..place.start], &paint(style, &line[place.clone()]), &line[place.end..]])
            }
            None => text.push_str(line),
        }
    }
    text
}

/// Where the line has this cell, between blanks.
fn word(line: &str, cell: &str) -> Option<std::ops::Range<usize>> {
    let places = line.match_indices(cell).map(|(at, _)| at..at + cell.len());
    let is_blank = |c: Option<char>| c.is_none_or(char::is_whitespace);
    let mut whole = places.filter(|it| {
        is_blank(line[..it.start].chars().next_back()) && is_blank(line[it.end..].chars().next())
    });
    whole.next()
}

/// Width of the terminal on standard output; `None` if standard output is not a terminal.
pub fn width() -> Option<usize> {
    std::io::stdout().is_terminal().then(|| Table::new().width().map_or(DEFAULT_WIDTH, usize::from))
}

/// The table as tab-separated values, for pipes.
pub fn tabs(columns: &[Column], note: &str, rows: &[Row]) -> String {
    let with_notes = rows.iter().any(|row| !row.note.is_empty());
    let line = |cells: Vec<&str>, note: &str| {
        let note = if with_notes { format!("\t{}", note.replace('\n', "; ")) } else { String::new() };
        format!("{}{note}\n", cells.join("\t"))
    };
    let header = line(columns.iter().map(|column| column.header).collect(), note);
    let rows = rows.iter().map(|row| line(row.cells.iter().map(String::as_str).collect(), &row.note));
    std::iter::once(header).chain(rows).collect()
}

fn fitted(columns: &[Column], rows: &[Row], width: usize) -> String {
    let every: Vec<usize> = (0..columns.len()).filter(|i| columns[*i].cut != Cut::Rest).collect();
    let short = (widest(&padded(columns, rows, &every)) > width)
        .then(|| with_short_names(columns, rows, width * 3 / 8))
        .filter(|short| short.iter().zip(rows).any(|(short, row)| short.cells != row.cells));
    let rows = short.as_deref().unwrap_or(rows);
    // A column that says nothing has no place on a screen.
    let is_empty = |i: &usize| {
        columns[*i].rank > 0 && rows.iter().all(|row| ["", "-"].contains(&row.cells[*i].as_str()))
    };
    let all: Vec<usize> = (0..columns.len()).filter(|i| rows.is_empty() || !is_empty(i)).collect();
    let mut shown = all.clone();
    let lines = loop {
        // The rest of the line is what the other columns leave.
        let rest =
            columns.iter().position(|column| column.cut == Cut::Rest).filter(|rest| shown.contains(rest));
        let rigid: Vec<usize> = shown.iter().copied().filter(|&i| Some(i) != rest).collect();
        let taken = widest(&padded(columns, rows, &rigid));
        let lines = match rest {
            Some(i) => {
                let room = width.saturating_sub(taken + 2).max(LEAST_REST);
                padded(columns, &cut(rows, i, room), &shown)
            }
            None => padded(columns, rows, &rigid),
        };
        let last = shown.iter().copied().filter(|&i| columns[i].rank > 0).max_by_key(|&i| columns[i].rank);
        match last {
            Some(i) if widest(&lines) > width => shown.retain(|&other| other != i),
            _ => break lines,
        }
    };
    let mut text = format!("{}\n", lines[0]);
    for (line, row) in lines[1..].iter().zip(rows) {
        text.push_str(line);
        text.push('\n');
        for part in wrapped(&row.note, width.saturating_sub(4)) {
            text.push_str(&format!("    {part}\n"));
        }
    }
    let hidden: Vec<&str> =
        all.into_iter().filter(|i| !shown.contains(i)).map(|i| columns[i].header).collect();
    let missing = [
        short.is_some().then(|| "names are cut".to_owned()),
        (!hidden.is_empty()).then(|| format!("no room for: {}", hidden.join(", "))),
    ];
    let missing: Vec<String> = missing.into_iter().flatten().collect();
    if !missing.is_empty() {
        let note = format!("({}; a pipe or --json has them)", missing.join("; "));
        text.push_str(&(wrapped(&note, width).join("\n") + "\n"));
    }
    text
}

/// The rows with names of at most `width` characters, which stay distinct.
fn with_short_names(columns: &[Column], rows: &[Row], width: usize) -> Vec<Row> {
    let mut rows = rows.to_vec();
    for (at, _) in columns.iter().enumerate().filter(|(_, column)| column.cut == Cut::Middle) {
        let names: Vec<&str> = rows.iter().map(|row| row.cells[at].as_str()).collect();
        let short = distinct(&names, width, "…");
        rows.iter_mut().zip(short).for_each(|(row, name)| row.cells[at] = name);
    }
    rows
}

/// Width of the widest line; the rest of a line is blank.
fn widest(lines: &[String]) -> usize {
    lines.iter().map(|line| line.chars().count()).max().unwrap_or(0)
}

/// The rows with the cells of a column cut to a width.
fn cut(rows: &[Row], column: usize, width: usize) -> Vec<Row> {
    let mut rows = rows.to_vec();
    for cell in rows.iter_mut().map(|row| &mut row.cells[column]) {
        if cell.chars().count() > width {
            *cell = cell.chars().take(width - 1).chain(['…']).collect();
        }
    }
    rows
}

/// The header's line and one for each row.
fn padded(columns: &[Column], rows: &[Row], shown: &[usize]) -> Vec<String> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(shown.iter().map(|&i| columns[i].header));
    for row in rows {
        table.add_row(shown.iter().map(|&i| row.cells[i].as_str()));
    }
    for (at, &i) in shown.iter().enumerate() {
        if let Some(column) = table.column_mut(at) {
            column.set_padding((0, 2));
            column.set_cell_alignment(if columns[i].right {
                CellAlignment::Right
            } else {
                CellAlignment::Left
            });
        }
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}

/// The words of a text in lines of at most `width`, except a word that is longer.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for paragraph in text.lines() {
        lines.push(String::new());
        for word in paragraph.split(' ') {
            match lines.last_mut() {
                Some(line) if line.is_empty() => line.push_str(word),
                Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.to_owned()),
            }
        }
    }
    lines
}

/// A line that is wrapped to the terminal, if it is one; its other lines begin two columns further to the right.
pub fn lines(text: &str) -> String {
    let Some(width) = width() else { return format!("{text}\n") };
    wrapped_line(text, width)
}

fn wrapped_line(text: &str, width: usize) -> String {
    let indent = text.len() - text.trim_start().len();
    let lines = wrapped(text.trim_start(), width.saturating_sub(indent + 2));
    let line = |(at, line): (usize, &String)| {
        format!("{:indent$}{line}\n", "", indent = if at == 0 { indent } else { indent + 2 })
    };
    lines.iter().enumerate().map(line).collect()
}

/// A label and a text that is wrapped so that all its lines start at `column`.
pub fn hanging(label: &str, column: usize, text: &str, width: usize) -> String {
    let mut lines = wrapped(text, width.saturating_sub(column).max(20)).into_iter();
    let mut out = match label.chars().count() {
        length if length < column => format!("{label:column$}{}", lines.next().unwrap_or_default()),
        _ => label.to_owned(),
    };
    out.truncate(out.trim_end().len());
    out.push('\n');
    for line in lines {
        out.push_str(format!("{:column$}{line}", "").trim_end());
        out.push('\n');
    }
    out
}

/// Bytes, in the unit that leaves few digits.
#[allow(clippy::cast_precision_loss)] // four figures are shown
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 || value.fract() == 0.0 {
        format!("{value:.0} {}", UNITS[unit])
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> (Vec<Column<'static>>, Vec<Row>) {
        let column = |header, rank, right| Column { header, rank, right, cut: Cut::Never };
        let columns = vec![column("run", 0, false), column("seed", 2, true), column("return", 1, true)];
        let row = |cells: [&str; 3], note: &str| Row {
            cells: cells.map(String::from).into(),
            note: note.into(),
            style: None,
        };
        let rows = vec![
            row(["a-very-long-name", "1", "9.5"], ""),
            row(["b", "22", "-170"], "gamma=0.9, hidden=[8]"),
        ];
        (columns, rows)
    }

    #[test]
    fn columns_go_by_rank_and_words_are_never_cut() {
        let (columns, rows) = table();
        let wide = "run               seed  return\na-very-long-name     1     9.5\n\
                    b                   22    -170\n    gamma=0.9, hidden=[8]\n";
        assert_eq!(fitted(&columns, &rows, 80), wide);
        let narrow = fitted(&columns, &rows, 24);
        assert!(narrow.starts_with("run               return\na-very-long-name     9.5\n"), "{narrow}");
        assert!(
            narrow.contains("\n    gamma=0.9,\n    hidden=[8]\n") && narrow.contains("no room for: seed")
        );
        assert!(fitted(&columns, &rows, 3).contains("a-very-long-name\n"));
    }

    #[test]
    fn long_names_leave_room_for_the_other_columns_and_stay_distinct() {
        let columns = [Column::name("run"), Column::left("state", 0), Column::right("seed", 1)];
        let row = |name: String, seed: &str| Row {
            cells: vec![name, "finished".to_owned(), seed.to_owned()],
            ..Row::default()
        };
        let rows = [row(format!("{}-1", "x".repeat(60)), "1"), row(format!("{}-2", "x".repeat(60)), "2")];
        assert_eq!(
            fitted(&columns, &rows, 40),
            "run              state     seed\n\
             xxxxxxx…xxxxx-1  finished     1\n\
             xxxxxxx…xxxxx-2  finished     2\n\
             (names are cut; a pipe or --json has\nthem)\n"
        );
        assert!(fitted(&columns, &rows, 120).contains(&"x".repeat(60)), "there is room");
        assert!(tabs(&columns, "", &rows).contains(&"x".repeat(60)), "a pipe has whole names");
    }

    #[test]
    fn lines_are_wrapped_and_what_follows_is_indented() {
        assert_eq!(wrapped_line("  one two three", 12), "  one two\n    three\n");
        assert_eq!(wrapped_line("one two", 80), "one two\n");
        assert_eq!(wrapped_line("", 80), "");
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!(
            [0, 1023, 1024, 232_448, 150_754_820_096].map(size),
            ["0 bytes", "1023 bytes", "1 KiB", "227 KiB", "140.4 GiB"]
        );
    }

    #[test]
    fn a_last_column_takes_the_rest_of_the_line() {
        let columns = [Column::left("run", 0), Column::right("seed", 3), Column::rest("changed", 2)];
        let row = |cells: [&str; 3]| Row { cells: cells.map(String::from).into(), ..Row::default() };
        let rows = [row(["first", "1", ""]), row(["b", "22", "gamma=0.9, hidden=[8]"])];
        let wide = "run    seed  changed\nfirst     1\nb        22  gamma=0.9, hidden=[8]\n";
        assert_eq!(fitted(&columns, &rows, 40), wide);
        assert_eq!(fitted(&columns, &rows, 26), wide.replace(" hidden=[8]", " h…"));
        assert!(fitted(&columns, &rows, 20).starts_with("run    changed\nfirst\nb      gamma=0.9, h…\n(no"));
        assert!(fitted(&columns, &rows, 10).starts_with("run\nfirst\nb\n(no room\nfor: seed,\nchanged;"));
        let empty = [row(["first", "-", ""]), row(["b", "-", ""])];
        assert_eq!(fitted(&columns, &empty, 40), "run\nfirst\nb\n", "columns without values");
    }

    #[test]
    fn headers_and_cells_with_a_style_are_painted() {
        let row =
            |cells: [&str; 2], style| Row { cells: cells.map(String::from).into(), style, ..Row::default() };
        let rows = [row(["a", "-"], None), row(["is", "s"], Some((1, HEADER)))];
        let shown = painted("run  state\na\nis   s\n(no room)\n", &rows);
        assert_eq!(shown, "\u{1b}[1mrun  state\u{1b}[0m\na\nis   \u{1b}[1ms\u{1b}[0m\n(no room)\n");
    }

    #[test]
    fn a_pipe_gets_tabs_and_everything() {
        let (columns, rows) = table();
        let expected = "run\tseed\treturn\tchanged\na-very-long-name\t1\t9.5\t\n\
                        b\t22\t-170\tgamma=0.9, hidden=[8]\n";
        assert_eq!(tabs(&columns, "changed", &rows), expected);
    }
}
