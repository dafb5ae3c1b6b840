//! The rows of a run's `metrics.csv`, column by column. The file may have been written by another version, may still be
//! growing, and may be truncated anywhere: an incomplete row is skipped and counted, and all sizes are limited.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use operant_metrics::{
    ENV_GROUP, FEW_ENV_METRICS, MetricInfo, MetricSummary, Schema, SeriesPoint, open_file, position, unusable,
};

/// Columns that are read at most, and bytes of a column's name.
const MAX_COLUMNS: usize = 512;
const MAX_NAME: usize = 64;
/// Longest line.
const MAX_LINE: u64 = 64 << 10;
/// Values that are held at most, of 8 bytes each. A run leaves up to 100 000 rows of some 40 columns.
const MAX_VALUES: usize = 16 << 20;
/// Bytes of a file that are read at most.
const MAX_BYTES: u64 = 1 << 29;
/// Bytes at the end of the file in which the newest row is searched for.
const TAIL: u64 = 64 << 10;

/// The columns in the header of a file, and the position of its first row.
#[derive(Debug, Clone)]
pub(super) struct Header {
    /// A metric per column.
    pub schema: Schema,
    /// Columns that the position of a row depends on.
    update: Option<usize>,
    /// Bytes of the header, its newline included.
    bytes: u64,
}

/// A part of a file that has been read.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    /// A list of values per column; NaN where a cell is empty.
    columns: Vec<Vec<f64>>,
    /// The update of each row, growing.
    updates: Vec<u64>,
    /// Rows that were skipped: incomplete, not numbers, or not in the order of their updates.
    pub skipped: u64,
    /// Device and inode of the file, and the end of the last line read.
    file: (u64, u64),
    end: u64,
}

/// The newest row, read from the end of the file alone.
#[derive(Debug, Clone, Default)]
pub(super) struct Tail {
    /// A value per column; NaN where the row has none.
    pub latest: Vec<f64>,
    /// The last value that any row near the end reported.
    pub reported: Vec<f64>,
    pub update: u64,
}

impl Header {
    /// The table of a file that does not exist.
    pub fn empty() -> Self {
        Header { schema: Schema::new(Vec::new()), update: None, bytes: 0 }
    }

    /// Reads the first line. A file without one has no columns.
    pub fn read(path: &Path) -> io::Result<Self> {
        let mut line = Vec::new();
        BufReader::new(open_file(path)?).take(MAX_LINE).read_until(b'\n', &mut line)?;
        let whole = line.last() == Some(&b'\n');
        let text = String::from_utf8_lossy(if whole { &line[..line.len() - 1] } else { &[] });
        let mut metrics: Vec<MetricInfo> = Vec::new();
        for name in text.trim_end_matches('\r').split(',').take(MAX_COLUMNS) {
            let mut metric = MetricInfo::named(&name.chars().take(MAX_NAME).collect::<String>());
            // The environment's own are not in the table.
            if position(name).is_none() && unusable(name).is_none() {
                metric.group = ENV_GROUP.to_owned();
                // The file does not say which is a rate and which a score.
                metric.unit.clear();
                metric.help = "A metric of the environment.".to_owned();
                metric.loss = Some(metric.name.clone());
            }
            // Two columns with the same name remain two metrics.
            while metrics.iter().any(|other| other.name == metric.name) {
                metric.name.push('\'');
            }
            metrics.push(metric);
        }
        let own = |metric: &&mut MetricInfo| metric.group == ENV_GROUP;
        if metrics.iter_mut().filter(own).count() > FEW_ENV_METRICS {
            metrics.iter_mut().filter(own).for_each(|metric| metric.loss = None);
        }
        let schema = Schema::new(if whole { metrics } else { Vec::new() });
        Ok(Header { update: schema.position("update"), schema, bytes: line.len() as u64 })
    }

    /// The values of a line; `None` when it is not a whole row of numbers.
    fn row(&self, line: &[u8]) -> Option<Vec<f64>> {
        let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?.trim_end_matches('\r');
        let cell = |cell: &str| if cell.is_empty() { Some(f64::NAN) } else { cell.parse().ok() };
        let row: Vec<f64> = line.split(',').take(MAX_COLUMNS).map(cell).collect::<Option<_>>()?;
        (row.len() == self.schema.len()).then_some(row)
    }

    /// The update that a row is of; rows of a file without that column are counted.
    fn update_of(&self, row: &[f64], before: u64) -> Option<u64> {
        match self.update {
            Some(column) => Some(row[column]).filter(|update| *update >= 0.0).map(|update| update as u64),
            None => Some(before + 1),
        }
    }
}

impl Tail {
    /// The last whole row.
    pub fn read(path: &Path, header: &Header) -> io::Result<Self> {
        let mut file = open_file(path)?;
        let length = file.metadata()?.len();
        let from = length.saturating_sub(TAIL).max(header.bytes.min(length));
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        let width = header.schema.len();
        let initial = || header.schema.metrics().iter().map(|metric| metric.kind.initial()).collect();
        let mut tail = Tail { latest: initial(), reported: vec![f64::NAN; width], update: 0 };
        let mut rows = bytes.split_inclusive(|byte| *byte == b'\n').filter_map(|line| header.row(line));
        let mut newest = None;
        for row in rows.by_ref() {
            for (reported, value) in tail.reported.iter_mut().zip(&row) {
                *reported = if value.is_finite() { *value } else { *reported };
            }
            newest = Some(row);
        }
        if let Some(row) = newest {
            tail.update = header.update_of(&row, 0).unwrap_or(0);
            tail.latest = row;
        }
        Ok(tail)
    }
}

impl Table {
    /// Reads the rows that have been written since; all of them when the file is another one or was made shorter.
    pub fn follow(&mut self, path: &Path, header: &Header) -> io::Result<()> {
        let mut file = open_file(path)?;
        let metadata = file.metadata()?;
        let identity = (metadata.dev(), metadata.ino());
        if identity != self.file || metadata.len() < self.end || self.columns.len() != header.schema.len() {
            let columns = vec![Vec::new(); header.schema.len()];
            *self = Table { columns, file: identity, end: header.bytes, ..Table::default() };
        }
        file.seek(SeekFrom::Start(self.end))?;
        let mut lines = BufReader::with_capacity(1 << 18, file);
        let mut line = Vec::new();
        while self.updates.len() * self.columns.len() < MAX_VALUES && self.end < MAX_BYTES {
            line.clear();
            let read = lines.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
            if read == 0 || (line.last() != Some(&b'\n') && (read as u64) < MAX_LINE) {
                // The end, or a row that is still being written, which is read once it has its newline.
                break;
            }
            self.end += read as u64;
            self.take(header, &line);
        }
        Ok(())
    }

    fn take(&mut self, header: &Header, line: &[u8]) {
        let before = self.last_update();
        let row = header.row(line).and_then(|row| Some((header.update_of(&row, before)?, row)));
        match row.filter(|(update, _)| self.updates.is_empty() || *update > before) {
            Some((update, row)) => {
                self.updates.push(update);
                self.columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
            }
            None => self.skipped += 1,
        }
    }

    /// The update of the last row.
    pub fn last_update(&self) -> u64 {
        self.updates.last().copied().unwrap_or(0)
    }

    /// Column `y` against column `x` over `updates`, oldest first: a point per row, or per several consecutive rows where
    /// there are more than four times `points`.
    pub fn series(
        &self,
        x: usize,
        y: usize,
        updates: RangeInclusive<u64>,
        points: usize,
    ) -> Vec<SeriesPoint> {
        let (Some(xs), Some(ys)) = (self.columns.get(x), self.columns.get(y)) else { return Vec::new() };
        let from = self.updates.partition_point(|update| update < updates.start());
        let to = self.updates.partition_point(|update| update <= updates.end()).max(from);
        let each = if to - from > 4 * points { (to - from).div_ceil(2 * points.max(1)) } else { 1 };
        let rows: Vec<usize> = (from..to).collect();
        let point = |rows: &[usize]| {
            let last = rows[rows.len() - 1];
            let all = MetricSummary::of(&ys[rows[0]..=last]);
            SeriesPoint {
                x: xs[last],
                update: self.updates[last],
                min: all.min,
                max: all.max,
                mean: all.mean,
                last: all.last,
            }
        };
        rows.chunks(each).map(point).collect()
    }

    /// Column `y` over the whole run.
    pub fn summary(&self, y: usize) -> MetricSummary {
        MetricSummary::of(self.columns.get(y).map_or(&[], Vec::as_slice))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> (Header, Table, Tail) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.csv");
        std::fs::write(&path, text).unwrap();
        let header = Header::read(&path).unwrap();
        let mut table = Table::default();
        table.follow(&path, &header).unwrap();
        let tail = Tail::read(&path, &header).unwrap();
        (header, table, tail)
    }

    #[test]
    fn columns_are_the_tables_metrics_or_plain_gauges() {
        let (header, table, tail) = read(b"update,sps,novelty\n1,10,0.5\n2,,0.25\n");
        let units: Vec<_> = header.schema.metrics().iter().map(|metric| metric.unit.as_str()).collect();
        assert_eq!(units, ["1", "steps/s", ""]);
        assert_eq!(header.schema.losses().len(), 1);
        let many = (0..=FEW_ENV_METRICS).fold("update".to_owned(), |line, k| format!("{line},rate_{k}"));
        assert!(read((many + "\n").as_bytes()).0.schema.losses().is_empty());
        assert_eq!(table.last_update(), 2);
        let novelty = table.series(0, 2, 0..=2, 100);
        assert_eq!(novelty.iter().map(|point| point.mean).collect::<Vec<_>>(), [0.5, 0.25]);
        assert_eq!(table.summary(1).count, 1);
        // The newest row reports no speed; the last reported one is still available.
        assert!(tail.latest[1].is_nan());
        assert_eq!((tail.reported[1], tail.update), (10.0, 2));
    }

    #[test]
    fn a_row_that_is_cut_or_no_row_is_left_out() {
        let text = b"update,sps\n1,10\n2,x\n3\n4,40,4\n\xff\xfe\n2,20\n2,21\n5,50\n6,6";
        let (_, table, tail) = read(text);
        assert_eq!(table.updates, [1, 2, 5]);
        assert_eq!(table.skipped, 5);
        assert_eq!((tail.update, tail.latest[1]), (5, 50.0));
    }

    #[test]
    fn a_file_that_grows_is_read_on_and_one_that_was_thinned_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.csv");
        std::fs::write(&path, "update,sps\n1,10\n2,2").unwrap();
        let header = Header::read(&path).unwrap();
        let mut table = Table::default();
        table.follow(&path, &header).unwrap();
        assert_eq!(table.updates, [1]);
        std::fs::write(&path, "update,sps\n1,10\n2,20\n3,30\n").unwrap();
        table.follow(&path, &header).unwrap();
        assert_eq!((table.updates.as_slice(), table.summary(1).last), (&[1, 2, 3][..], 30.0));
        let other = dir.path().join("other");
        std::fs::write(&other, "update,sps\n2,20\n4,40\n").unwrap();
        std::fs::rename(&other, &path).unwrap();
        table.follow(&path, &header).unwrap();
        assert_eq!(table.updates, [2, 4]);
    }

    #[test]
    fn long_runs_come_in_groups_with_their_extremes() {
        let rows: String = (1..=1000).map(|i| format!("{i},{}\n", i % 10)).collect();
        let (_, table, _) = read(format!("update,sps\n{rows}").as_bytes());
        let series = table.series(0, 1, 1..=1000, 10);
        assert!((10..=40).contains(&series.len()), "{}", series.len());
        assert!(series.iter().all(|point| (point.min, point.max) == (0.0, 9.0)));
        assert_eq!(series.last().map(|point| (point.update, point.last)), Some((1000, 0.0)));
        assert_eq!(table.series(0, 1, 5..=7, 10).len(), 3);
        assert!(table.series(0, 1, 2000..=3000, 10).is_empty());
        assert!(table.series(0, 9, 5..=7, 0).is_empty());
    }

    #[test]
    fn garbage_is_no_table() {
        for text in
            [&b""[..], b"\n", b"update", b"\0\0\0\n\0\0", b",,,\n,,,\n", &[0xff; 200_000], b"a,a\n1,2\n"]
        {
            let (header, table, tail) = read(text);
            let width = header.schema.len();
            assert_eq!((tail.latest.len(), tail.reported.len()), (width, width));
            (0..width + 1).for_each(|column| drop(table.series(column, column, 0..=u64::MAX, 1)));
        }
        let wide = vec![b','; 60_000];
        let (header, ..) = read(&[&wide[..], b"\n", &wide[..], b"\n"].concat());
        assert!(header.schema.len() <= MAX_COLUMNS);
    }
}
