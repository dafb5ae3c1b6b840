//! Prints docs/configuration.md with its tables of settings as they are now; `cargo xtask config-doc` writes it.

fn main() -> Result<(), String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let page = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let page = operant_run::config::insert_tables(&page)
        .ok_or("docs/configuration.md has no place for its tables")?;
    print!("{page}");
    Ok(())
}
