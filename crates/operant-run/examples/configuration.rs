//! Prints docs/configuration.md with current tables of settings; `cargo xtask config-doc` writes it.

fn main() -> Result<(), String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let page = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let page = operant_run::config::insert_tables(&page)
        .ok_or("docs/configuration.md lacks the marks around its tables")?;
    print!("{page}");
    Ok(())
}
