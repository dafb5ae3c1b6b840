//! The completion script for bash. bash splits words at `=`, `:` and `@`, which clap_complete's script does not handle, so this one splits
//! the line itself and returns the part of a candidate that follows the last split.

use std::ffi::OsString;
use std::io::{Result, Write};
use std::path::Path;

use clap_complete::env::{Bash as Clap, EnvCompleter};

#[derive(Debug)]
pub struct Bash;

const SCRIPT: &str = r#"_NAME_complete() {
    local line=${COMP_LINE:0:COMP_POINT} words IFS=$' \t\n'
    read -ra words <<< "$line"
    if [[ $line == *[[:space:]] ]]; then
        words+=("")
    fi
    local last=$(( ${#words[@]} - 1 ))
    local begun=${words[last]%"$2"}
    IFS=$'\n' read -rd '' -a COMPREPLY < <(
        VARIABLE=bash _CLAP_IFS=$'\n' _CLAP_COMPLETE_INDEX=$last COMPLETER -- "${words[@]}" 2> /dev/null
    )
    COMPREPLY=("${COMPREPLY[@]#"$begun"}")
    if [[ ${#COMPREPLY[@]} -gt 0 && ${COMPREPLY[0]} == *[=/] ]]; then
        compopt -o nospace 2> /dev/null
    fi
}
complete -o bashdefault -o nosort -F _NAME_complete PROGRAM 2> /dev/null ||
    complete -o bashdefault -F _NAME_complete PROGRAM
"#;

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        Clap.name()
    }

    fn is(&self, name: &str) -> bool {
        Clap.is(name)
    }

    fn write_registration(
        &self,
        var: &str,
        _: &str,
        bin: &str,
        completer: &str,
        buf: &mut dyn Write,
    ) -> Result<()> {
        let name: String = bin.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let quoted = operant_run::path_text::quoted;
        let script = SCRIPT.replace("NAME", &name).replace("VARIABLE", var).replace("PROGRAM", &quoted(bin));
        buf.write_all(script.replace("COMPLETER", &quoted(completer)).as_bytes())
    }

    fn write_complete(
        &self,
        command: &mut clap::Command,
        words: Vec<OsString>,
        here: Option<&Path>,
        buf: &mut dyn Write,
    ) -> Result<()> {
        Clap.write_complete(command, words, here, buf)
    }
}
