//! Tables of sweeps: bytes of the file, values of rows, the specification.

use std::path::Path;
use std::sync::Arc;

use operant_run::Trust;
use operant_sweep::plot::Plot;
use operant_sweep::{Local, Report, Sweep, html, overview};
use rusqlite::Connection;
use rusqlite::types::Value as Sql;

use super::{Random, change_bytes, change_document};
use crate::table::swept;

pub fn reader(place: &Path) -> Box<dyn FnMut(u64)> {
    let dir = swept(place);
    let whole = std::fs::read(dir.join("sweep.db")).expect("a table");
    Box::new(move |number| {
        for ending in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(dir.join(format!("sweep.db{ending}")));
        }
        let random = &mut Random::new(number);
        let mut bytes = whole.clone();
        if random.below(3) == 0 {
            change_bytes(&mut bytes, random);
        }
        std::fs::write(dir.join("sweep.db"), bytes).expect("written");
        // Of damaged bytes nothing may be readable.
        for _ in 0..1 + random.below(3) {
            let _ = change_row(&dir, random);
        }
        read(&dir);
    })
}

fn read(dir: &Path) {
    let resumed = Sweep::resume(&operant_env::builtin(), dir, Some(1), Arc::new(Local), Trust::Nothing);
    if let Err(error) = resumed {
        assert!(!error.what.is_empty(), "{error:?}");
    }
    let _ = overview(dir);
    if let Ok(report) = Report::of_sweep(dir) {
        let _ = (report.summary(), report.to_json(), html::page(&report, None));
        for part in &report.environments {
            for plot in Plot::ALL {
                let _ = plot.svg(part);
            }
        }
    }
}

/// Changes one value, or removes or repeats a row.
fn change_row(dir: &Path, random: &mut Random) -> rusqlite::Result<()> {
    let table = Connection::open(dir.join("sweep.db"))?;
    table.pragma_update(None, "foreign_keys", false)?;
    let tables = ["sweep", "environments", "trials", "decisions", "results", "curves"];
    // The specification decides most of what is done with the rest.
    let name = if random.below(3) == 0 { "sweep" } else { *random.of(&tables) };
    let columns: Vec<String> = {
        let mut query = table.prepare(&format!("SELECT name FROM pragma_table_info('{name}')"))?;
        query.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?
    };
    let rows: usize = table.query_row(&format!("SELECT count(*) FROM {name}"), [], |row| row.get(0))?;
    let row: i64 = table.query_row(
        &format!("SELECT rowid FROM {name} ORDER BY rowid LIMIT 1 OFFSET {}", random.below(rows)),
        [],
        |row| row.get(0),
    )?;
    let column = if name == "sweep" { "value" } else { random.of(&columns).as_str() };
    let before: Sql =
        table.query_row(&format!("SELECT {column} FROM {name} WHERE rowid = {row}"), [], |row| row.get(0))?;
    match random.below(8) {
        0 => table.execute(&format!("DELETE FROM {name} WHERE rowid = {row}"), [])?,
        _ => {
            let value = changed(before, random);
            table.execute(&format!("UPDATE {name} SET {column} = ? WHERE rowid = {row}"), [value])?
        }
    };
    Ok(())
}

fn changed(before: Sql, random: &mut Random) -> Sql {
    match (before, random.below(10)) {
        (_, 0) => Sql::Null,
        (_, 1) => Sql::Blob(vec![0xff, 0, 0xfe]),
        (_, 2) => Sql::Real(*random.of(&[-1.0, 0.5, 1e300, f64::INFINITY, -1e-300])),
        (_, 3) => Sql::Integer(*random.of(&[-1, 0, 1, 2, 99, i64::MAX, i64::MIN])),
        (Sql::Text(text), _) => {
            if let Ok(mut document) = serde_json::from_str::<serde_json::Value>(&text)
                && document.is_object()
            {
                change_document(&mut document, random);
                return Sql::Text(document.to_string());
            }
            let mut bytes = text.into_bytes();
            change_bytes(&mut bytes, random);
            Sql::Text(String::from_utf8_lossy(&bytes).into_owned())
        }
        (Sql::Integer(number), _) => Sql::Integer(number.wrapping_add(random.below(5) as i64 - 2)),
        (Sql::Real(number), _) => Sql::Real(number * *random.of(&[-1.0, 0.0, 1e10, 1e300])),
        (other, _) => other,
    }
}
